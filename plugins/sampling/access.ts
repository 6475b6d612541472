import { RuntimeError } from '#core'
import type { Verification } from './request.ts'

/** Who asks: a caller with a name, or the holder of the service's key, who has none and may do everything. */
export type Who = { readonly did: string } | undefined

/** To whom a design belongs: null is the holder of the key. The verifier is whom it was submitted to. */
export interface Belongings {
  readonly owner: string | null
  readonly verifier: string | null
}

/**
 * Whether a design exists for a caller. What was made with the key is the service's own, and open to whoever was
 * given its id; what a caller made is theirs and their verifier's.
 */
export const maySee = ({ owner, verifier }: Belongings, who: Who): boolean =>
  who === undefined || owner === null || owner === who.did || verifier === who.did

/** Only the owner changes a design. */
export function mustOwn({ owner }: Belongings, who: Who): void {
  if (who === undefined || owner === who.did) return
  throw new RuntimeError('FORBIDDEN', `The design is not that of ${who.did}.`, {
    hint: 'Ask its owner, or make a design of your own.',
  })
}

/** A sample is drawn by the owner or the verifier; what a verifier drew outside is theirs to record. */
export function mustDraw(design: Belongings, who: Who, external: string | undefined): void {
  if (who === undefined) return
  if (external === undefined) {
    if (design.verifier !== who.did) mustOwn(design, who)
  } else if (external !== who.did || design.verifier !== who.did)
    throw new RuntimeError('FORBIDDEN', `${who.did} cannot record what ${external} drew.`, {
      hint: 'The verifier to whom the design was submitted records it, under their own DID.',
    })
}

/** The owner submits; the verifier to whom it was submitted decides. A key's holder answers for the names given. */
export function mustVerify(design: Belongings, who: Who, step: Verification): void {
  if (who === undefined) return
  if (step.status === 'submitted') return mustOwn(design, who)
  if (step.verifier !== who.did)
    throw new RuntimeError(
      'FORBIDDEN',
      `${who.did} cannot decide in the name of ${step.verifier}.`,
      { hint: 'A verifier decides under their own DID.' },
    )
  if (design.verifier !== who.did)
    throw new RuntimeError('FORBIDDEN', `The design was not submitted to ${who.did}.`, {
      hint: 'The verifier whom the submission names decides.',
    })
}

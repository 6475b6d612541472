import { RuntimeError, type User } from '#core'
import type { Verification } from './request.ts'

/** Who asks: a DID, or the holder of one of the service's keys, who has none and keeps the books. */
export interface Who {
  /** The DID, or `key:` and the name of the key. */
  readonly caller: string
  readonly did?: string
  /** Whether the operator lets this caller read everybody's designs. */
  readonly readsAll: boolean
}

interface Self {
  readonly oracleDid: string
}

function whoOf(caller: string, user: User | undefined, { oracleDid }: Self): Who {
  if (user === undefined) return { caller, readsAll: true }
  return { caller, did: user.did, readsAll: user.can('sampling/read', oracleDid) }
}

/** Who calls a route. */
export const whoCalls = (ctx: { caller: string; user: User | undefined; self: Self }): Who =>
  whoOf(ctx.caller, ctx.user, ctx.self)

/** Who asks a tool: always a user. */
export const whoAsks = ({ user, self }: { user: User; self: Self }): Who =>
  whoOf(user.did, user, self)

/** Made with a key whose name nobody wrote down. */
export const someKey = 'key:*'

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
  who.readsAll || owner === null || owner === who.did || verifier === who.did

/**
 * Whether a draw makes its drawer one of those who made the design. A verifier's draw is part of the verifying: under
 * the DID that the design was submitted to, or as one that a verifier did outside and somebody records.
 */
export const drawsAsMaker = (
  { verifier }: Belongings,
  { did }: Who,
  external: string | undefined,
): boolean => external === undefined && (did === undefined || did !== verifier)

/** Only the owner changes a design. */
export function mustOwn({ owner }: Belongings, who: Who): void {
  if (who.did === undefined || owner === who.did) return
  throw new RuntimeError('FORBIDDEN', `The design is not that of ${who.did}.`, {
    hint: 'Ask its owner, or make a design of your own.',
  })
}

/** A sample is drawn by the owner or the verifier; what a verifier drew outside is theirs to record. */
export function mustDraw(design: Belongings, who: Who, external: string | undefined): void {
  if (who.did === undefined) return
  if (external === undefined) {
    if (design.verifier !== who.did) mustOwn(design, who)
  } else if (external !== who.did || design.verifier !== who.did)
    throw new RuntimeError('FORBIDDEN', `${who.did} cannot record what ${external} drew.`, {
      hint: 'The verifier to whom the design was submitted records it, under their own DID.',
    })
}

/**
 * Whoever made a design, by key or by DID, does not decide on it: whoever worked out one of its revisions, committed its
 * frame or drew from it. Keys are people by their names; whose hands a key and a DID are in nobody can know.
 */
export function mustBeAnother(makers: ReadonlySet<string>, { caller, did }: Who): void {
  if (!makers.has(caller) && (did !== undefined || !makers.has(someKey))) return
  const who = did === undefined ? `The holder of ${caller}` : did
  throw new RuntimeError('FORBIDDEN', `${who} made the design, and cannot decide on it.`, {
    hint: 'Let the verifier decide under a DID of their own, or with a key of another name (API_KEY=name:value,name2:value2).',
  })
}

/** The owner submits; the verifier to whom it was submitted decides. A key's holder answers for the names given. */
export function mustVerify(design: Belongings, who: Who, step: Verification): void {
  if (who.did === undefined) return
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

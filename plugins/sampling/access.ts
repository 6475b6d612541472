import { RuntimeError, type User } from '#core'
import type { Verification } from './request.ts'

/** The caller: a user with a DID, or the holder of one of the service's API keys, who has no DID and reads every design. */
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

/** The caller of a route. */
export const whoCalls = (ctx: { caller: string; user: User | undefined; self: Self }): Who =>
  whoOf(ctx.caller, ctx.user, ctx.self)

/** The caller of a tool, who is always a user. */
export const whoAsks = ({ user, self }: { user: User; self: Self }): Who =>
  whoOf(user.did, user, self)

/** The maker of designs from the time when the service did not yet record the name of the API key. */
const someKey = 'key:*'

/** The owner of a design, null where an API key made the design, and the verifier to whom the owner submitted the design. */
export interface Belongings {
  readonly owner: string | null
  readonly verifier: string | null
}

/**
 * Whether a caller may see a design. A design that was made with an API key is open to every caller who has its id; a
 * design that a user made is open to this user and to the verifier.
 */
export const maySee = ({ owner, verifier }: Belongings, who: Who): boolean =>
  who.readsAll || owner === null || owner === who.did || verifier === who.did

/**
 * Whether drawing the sample makes the caller a maker of the design. A verifier's draw does not: neither a draw under the
 * DID that the design was submitted to, nor a record of what a verifier drew elsewhere.
 */
export const drawsAsMaker = (
  { verifier }: Belongings,
  { did }: Who,
  external: string | undefined,
): boolean => external === undefined && (did === undefined || did !== verifier)

/** Refuses a user who is not the owner of the design. */
export function mustOwn({ owner }: Belongings, who: Who): void {
  if (who.did === undefined || owner === who.did) return
  throw new RuntimeError('FORBIDDEN', `The design is not that of ${who.did}.`, {
    hint: 'Ask its owner, or make a design of your own.',
  })
}

/** Lets only the owner and the verifier draw a sample, and only the verifier record what the verifier drew elsewhere. */
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
 * Refuses a decision on a design by one of its makers: a DID or an API key that worked out a revision, committed the frame
 * or drew from it. The name of a key stands for a person; whether a key and a DID are the same person's is unknowable.
 */
export function mustBeAnother(makers: ReadonlySet<string>, { caller, did }: Who): void {
  if (!makers.has(caller) && (did !== undefined || !makers.has(someKey))) return
  const who = did === undefined ? `The holder of ${caller}` : did
  throw new RuntimeError('FORBIDDEN', `${who} made the design, and cannot decide on it.`, {
    hint: 'Let the verifier decide under a DID of their own, or with a key of another name (API_KEY=name:value,name2:value2).',
  })
}

/** Lets only the owner submit a design, and only its verifier decide. The holder of an API key may name any verifier. */
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

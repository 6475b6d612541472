import type { Context } from 'koa'
import type { RuntimeError } from '../../../errors.ts'
import type { AnyRoute, OwnCaller, RouteAuth, User } from '../../../plugin.ts'

/** What is different for some routes of the kernel. */
export interface RouteKinds {
  /** A probe passes every limit and rule for browsers. */
  readonly isProbe?: boolean
  /** A route of users that the operator may call too, with a key. */
  readonly isOperatorsToo?: boolean
  /** The handler finds out by a statement of its own whether a token of the caller was revoked: see `Proof`. */
  readonly provesLater?: boolean
}

/**
 * What is left to prove of a caller on a route that proves its callers later: whether one of these tokens was revoked. Whatever
 * is answered, it is proved before.
 */
export interface Proof {
  readonly cids: readonly string[]
  /** Asks the database; throws the 401 where a token was revoked. Asks once. */
  demand(): Promise<void>
  /** Says that a statement has found out that none was. */
  given(): void
}

/** What is left to prove of the caller of a request. */
export const proofOf = ({ state }: Pick<Context, 'state'>): Proof | undefined => state.proof

/** Who may call: what the edge asks of the authentication. */
export interface Access {
  /**
   * The caller of a locked route, or a RuntimeError of 401, 403 or 429. `owner` is whose route it is, `ability` what a
   * `bearer` route asks of callers with a DID. With `own`, a caller who lacks the right is returned together with the
   * refusal, which the route may lift where something is the caller's own.
   */
  authorize(
    access: Exclude<RouteAuth, 'own'>,
    koa: Context,
    owner: string,
    ability: string,
    own?: boolean,
  ): Promise<{ caller: string; user?: User; lacks?: RuntimeError }>
  /**
   * The caller whom a plugin's own check has found, or a 401 where the check found none. Whatever `find` fails with counts
   * for the caller's address, and after too many it is a 429.
   */
  byPlugin(
    koa: Context,
    owner: string,
    find: () => Promise<OwnCaller | undefined>,
  ): Promise<{ caller: string; user?: User }>
  /** Throws a 403 unless the user may do this to the resource, as `can` of a `ucan` route asks. */
  demand(user: User, ability: string, resource: string): void | Promise<void>
  /** Throws a 403 where what proved the user is not enough for this route, as a personal key is not for a signed one. */
  demandProof?(user: User | undefined, route: Pick<AnyRoute, 'signed' | 'can'>): void
  /**
   * Has `end` called when what proved the user ends before its time, until the returned function is called; undefined where
   * nothing is heard of that.
   */
  hold?(user: User | undefined, end: (reason: unknown) => void): (() => void) | undefined
  /** For web modules: the user, where a valid token came along. */
  optional(koa: Context): Promise<User | undefined>
}

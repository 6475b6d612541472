import type { Context } from 'koa'
import type { RuntimeError } from '../../../errors.ts'
import type { RouteAuth, User } from '../../../plugin.ts'

/** Who may call: what the edge asks of the authentication. */
export interface Access {
  /**
   * The caller of a locked route, or a RuntimeError of 401, 403 or 429. `owner` is whose route it is, `ability` what a
   * `bearer` route asks of callers with a DID. With `own`, one who lacks the right is returned with the refusal, for
   * the route to lift where something is the caller's own.
   */
  authorize(
    access: RouteAuth,
    koa: Context,
    owner: string,
    ability: string,
    own?: boolean,
  ): Promise<{ caller: string; user?: User; lacks?: RuntimeError }>
  /** Throws a 403 unless the user may do this to the resource, as `can` of a `ucan` route asks. */
  demand(user: User, ability: string, resource: string): void | Promise<void>
  /** For web modules: the user, where a valid token came along. */
  optional(koa: Context): Promise<User | undefined>
}

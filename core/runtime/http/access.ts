import type { Context } from 'koa'
import type { RouteAuth, User } from '../../plugin.ts'

/** Who may call: what the edge asks of the authentication. */
export interface Access {
  /** The caller of a locked route, or a RuntimeError of 401, 403 or 429. `owner` is whose route it is. */
  authorize(
    access: RouteAuth,
    koa: Context,
    owner: string,
  ): Promise<{ caller: string; user?: User }>
  /** For web modules: the user, where a valid token came along. */
  optional(koa: Context): Promise<User | undefined>
}

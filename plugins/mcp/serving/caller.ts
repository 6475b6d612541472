import type { OutsideTool, RouteContext, User } from '#core'

/** Who sent a request, and what the request asks for. */
export interface Caller {
  readonly user: User
  readonly koa: RouteContext['koa']
  readonly requestId: string
  /** The plugins whose tools are meant; undefined for all. */
  readonly plugins: ReadonlySet<string> | undefined
  /** The tool that is called, where there is one of the name. */
  readonly tool: OutsideTool | undefined
}

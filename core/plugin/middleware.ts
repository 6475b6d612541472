import type { Context as KoaContext } from 'koa'
import type { ModelReply } from './model.ts'

/** A call of a tool that `middleware.tool` is about to pass on. */
export interface PendingCall {
  /** The id of the call, as in the events of the turn. */
  readonly id: string
  /** The name of the tool. */
  readonly name: string
  /** The plugin that the tool belongs to; `'kernel'` or `'client'` where the tool belongs to none. */
  readonly plugin: string
  /** What the tool says of itself: whether a call changes anything. */
  readonly effect: 'read' | 'write'
  /** The parsed arguments. Assign to change them before `next()`: the tool gets what stands here, without another check. */
  args: unknown
}

/**
 * A layer around every request whose head is well formed; upgrades to a socket pass no layer. `koa.state` has
 * `requestId`, and after `next()` also `route`, `plugin` and `caller` where the request had them. `next()` never throws:
 * a fault is an answer by then, with its status in `koa.status`. A layer that answers by itself and does not call
 * `next()` ends the request there.
 */
export type HttpLayer = (koa: KoaContext, next: () => Promise<void>) => Promise<void>

/** Onions around every request, every turn, every model call and every tool call: the code before `next()` runs on the way in. */
export interface Middleware<Context, ModelCall> {
  /** Around every request of the server, before CORS and limits. */
  http?(koa: KoaContext, next: () => Promise<void>): Promise<void>
  /** Around a whole turn. One without `next()` ends with what the layer has shown, and the log says so; an error tells the user why. */
  turn?(ctx: Context, next: () => Promise<void>): Promise<void>
  /** Around one call of the model; `ctx.request` may be replaced before `next()`. */
  model?(ctx: ModelCall, next: () => Promise<ModelReply>): Promise<ModelReply>
  /** Around one call of any tool, also of the kernel's and the client's. */
  tool?(call: PendingCall, ctx: Context, next: () => Promise<unknown>): Promise<unknown>
}

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

/** Onions around every turn, every model call and every tool call: the code before `next()` runs on the way in. */
export interface Middleware<Context, ModelCall> {
  /** Around a whole turn. */
  turn?(ctx: Context, next: () => Promise<void>): Promise<void>
  /** Around one call of the model; `ctx.request` may be replaced before `next()`. */
  model?(ctx: ModelCall, next: () => Promise<ModelReply>): Promise<ModelReply>
  /** Around one call of any tool, also of the kernel's and the client's. */
  tool?(call: PendingCall, ctx: Context, next: () => Promise<unknown>): Promise<unknown>
}

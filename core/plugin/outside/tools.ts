import type { User } from '../context.ts'
import type { GivenPart } from '../files/parts.ts'

/** A tool as those see it who call tools outside a turn. The same object for as long as the tool is there. */
export interface OutsideTool {
  /** The name of the tool. */
  readonly name: string
  /** What the tool does and when to call it. */
  readonly description: string
  /** The JSON Schema of the arguments. */
  readonly parameters: Readonly<Record<string, unknown>>
  /** The JSON Schema of the result, where the tool declares one that is an object. */
  readonly output?: Readonly<Record<string, unknown>>
  /** Whether the tool changes something. */
  readonly effect: 'read' | 'write'
  /** Whether a person is asked first: always, never, or as the arguments are. */
  readonly approve: boolean | 'depends'
  /** Whether a write may be repeated without happening twice. */
  readonly isRepeatable: boolean
  /** Whether the result holds other people's words. */
  readonly isForeign: boolean
  /** The plugin that has the tool. */
  readonly plugin: string
}

/** A call of a tool outside a turn. */
export interface OutsideCall {
  /** Who calls: rights, limits and room-scoped state are this user's. */
  readonly user: User
  /** The name of the tool. */
  readonly name: string
  /** The arguments, as they came: the schema of the tool checks them. */
  readonly args?: Readonly<Record<string, unknown>>
  /** Fires when nobody waits for the result any more. */
  readonly signal?: AbortSignal
  /** A person has agreed to this very call. Without it a tool that asks a person rejects with `APPROVAL_NEEDED`. */
  readonly decided?: 'approve'
  /** Whether a person could be asked: what the tool reads as `ctx.approvals`. */
  readonly approvals?: 'events'
  /** How much of the result is handed out, in bytes, in place of what the tool says: at most 256 KiB. */
  readonly maxResultBytes?: number
  /** The request that the call belongs to, for log and audit. */
  readonly requestId?: string
  /** Told what the tool tells of its progress. */
  onProgress?(done: number, total?: number, note?: string): void
}

/** What a call outside a turn came to. */
export interface OutsideResult {
  /** The result as a model would read it. */
  readonly text: string
  /** What the tool returned. */
  readonly value: unknown
  /** The pieces of a result of `parts`, with the bytes of their files. */
  readonly pieces?: readonly GivenPart[]
  /** Whether `text` is less than the whole result, which was too long. */
  readonly isCut: boolean
}

/** The tools of all plugins, for those who call them without a model and without a session. */
export interface OutsideTools {
  /**
   * The tools that a user may call: those of plugins that are on, are not silent and are open to the user. With `name` the one
   * of that name alone, where there is one.
   */
  list(whose: { readonly user: User; readonly name?: string }): Promise<readonly OutsideTool[]>
  /**
   * Tells whether calls of a tool are carried out without a person being asked, whatever the turn has read: a page may show such a
   * call as soon as it begins, and others once they are decided. Looks once, when the first tool is asked about.
   */
  asksNobody(whose: { readonly user: User }): (tool: string) => Promise<boolean>
  /**
   * Calls a tool: its gate, the rights of the user, the check of the arguments, the middleware, limits, room-scoped state and
   * audit are those of a turn. Rejects with what the tool failed with, and with `APPROVAL_NEEDED` where a person is to be asked.
   */
  call(call: OutsideCall): Promise<OutsideResult>
}

/** A tool that the client of a turn carries out itself. Its schema is data for the model: nothing here executes it. */
export interface TurnClientTool {
  /** Letters, digits, `_` and `-`; 64 at most. */
  readonly name: string
  /** What it is for, for the model. */
  readonly description?: string
  /** The JSON Schema of its arguments; any object where there is none. */
  readonly schema?: Readonly<Record<string, unknown>>
  /** `read`: it only looks. Without it a call counts as one that changes something. */
  readonly effect?: 'read' | 'write'
}

/** A call of a tool for which a turn stands still. */
export interface ClientCall {
  readonly toolCallId: string
  readonly toolName: string
  readonly args: Readonly<Record<string, unknown>>
}

/** What a client made of a call of its own tool: a result, or the words of an error. */
export interface ClientCallAnswer {
  readonly toolCallId: string
  readonly result?: unknown
  readonly error?: string
}

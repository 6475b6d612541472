/** One call of a tool, as the model asked for it. */
export interface ToolCall {
  readonly id: string
  readonly name: string
  readonly args: unknown
}

/** What a call of a model cost, in tokens. */
export interface ModelUsage {
  /** The tokens that the model was sent. */
  readonly inputTokens: number
  /** The tokens that the model answered with. */
  readonly outputTokens: number
  /** The provider did not count, or the call was cut off: the tokens are the characters divided by four. */
  readonly estimated?: true
}

/** What the calls of one model cost. */
export interface RunUsage extends ModelUsage {
  /** The id of the model. */
  readonly model: string
}

/** A line of the conversation. Plain data: the runtime stores it as it stands. */
export type Message =
  | { readonly role: 'system'; readonly content: string }
  | { readonly role: 'user'; readonly id: string; readonly content: string }
  | {
      readonly role: 'assistant'
      readonly id: string
      readonly content: string
      readonly toolCalls?: readonly ToolCall[]
      readonly reasoning?: string
      /** What the answer cost. The kernel notes it in the journal; no model is told. */
      readonly usage?: RunUsage
    }
  | {
      readonly role: 'tool'
      readonly id: string
      readonly toolCallId: string
      readonly name: string
      readonly content: string
      readonly failed?: boolean
      /** Where the content came from, when it is other people's words. A model gets such words as quoted data. */
      readonly foreign?: { readonly plugin: string; readonly label?: string }
    }

/** A tool as a model sees it. */
export interface ToolSpec {
  readonly name: string
  readonly description: string
  /** JSON Schema. */
  readonly parameters: Record<string, unknown>
}

/** What a model is asked: the conversation so far and the tools that it may call. */
export interface ModelRequest {
  readonly messages: readonly Message[]
  readonly tools: readonly ToolSpec[]
  /** Fires when the turn stops: the call to the model should end then. */
  readonly signal: AbortSignal
}

/** A piece of a model's answer, in the order of arrival. */
export type Delta =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'reasoning'; readonly text: string }
  | {
      readonly type: 'tool-call'
      readonly index: number
      readonly id?: string
      readonly name?: string
      readonly args?: string
    }
  | ({ readonly type: 'usage' } & ModelUsage)

/** The whole answer of a model call. */
export interface ModelReply {
  readonly content: string
  readonly reasoning?: string
  readonly toolCalls: readonly ToolCall[]
  /** What the call cost, where the provider said so. */
  readonly usage?: ModelUsage
}

/** The port to a model: what an adapter implements. */
export interface Model {
  /** What MODEL and the log call this model. */
  readonly id: string
  /** What people read instead of `id`. */
  readonly label?: string
  /** Tokens (about four characters each) that fit; the runtime trims the history to this number. */
  readonly contextWindow?: number | undefined
  /** Yields deltas until the answer is complete, and stops when `signal` fires. */
  stream(request: ModelRequest): AsyncIterable<Delta>
  /** Streams without a promise for every delta, where a model can: `take` may throw, and that ends the answer. */
  streamTo?(request: ModelRequest, take: (delta: Delta) => void): Promise<void>
}

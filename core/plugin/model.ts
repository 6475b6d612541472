/** One call of a tool, as the model asked for it. */
export interface ToolCall {
  readonly id: string
  readonly name: string
  readonly args: unknown
}

/** What a call of a model cost, in tokens. */
export interface ModelUsage {
  /** All tokens that the model read, with those of `cachedTokens` and `cacheWriteTokens`. */
  readonly inputTokens: number
  /** All tokens that the model wrote, with those of `reasoningTokens`. */
  readonly outputTokens: number
  /** How many of the read tokens came out of the provider's cache. */
  readonly cachedTokens?: number
  /** How many of the read tokens the provider put into its cache. */
  readonly cacheWriteTokens?: number
  /** How many of the written tokens were thought and not said. */
  readonly reasoningTokens?: number
  /** The provider did not count, or the call was cut off: the tokens are judged by the length of the texts. */
  readonly estimated?: true
  /** What the provider itself says that the call cost: whole billionths of a US dollar, in digits. */
  readonly cost?: string
}

/** A picture, a sound or a file that stands in a message beside its text. Its bytes lie in the kernel's table of files. */
export interface MessagePart {
  readonly type: 'image' | 'audio' | 'file'
  readonly mediaType: string
  readonly name?: string
  readonly bytes: number
  /** The id of the file: `request.file(id)` gives its bytes. */
  readonly file: string
}

/** What a provider wants back with the next request: JSON that nobody but the model of the same `by` reads. */
export interface ProviderData {
  /** The origin of the model that gave it. */
  readonly by: string
  readonly data: unknown
}

/** What the calls of one model cost. */
export interface RunUsage extends ModelUsage {
  /** The id of the model. */
  readonly model: string
}

/** A line of the conversation. Plain data: the runtime stores it as it stands. */
export type Message =
  | { readonly role: 'system'; readonly content: string }
  | {
      readonly role: 'user'
      readonly id: string
      readonly content: string
      readonly parts?: readonly MessagePart[]
    }
  | {
      readonly role: 'assistant'
      readonly id: string
      readonly content: string
      readonly toolCalls?: readonly ToolCall[]
      readonly reasoning?: string
      /** What the answer cost. The kernel notes it in the journal; no model is told. */
      readonly usage?: RunUsage
      /** What the provider wants back as it came; a request holds it only for a model of the same origin. */
      readonly provider?: ProviderData
      /** The id of the model that gave the answer. */
      readonly model?: string
    }
  | {
      readonly role: 'tool'
      readonly id: string
      readonly toolCallId: string
      readonly name: string
      readonly content: string
      readonly parts?: readonly MessagePart[]
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
  /** The bytes of a part of a message. */
  file?(id: string): Promise<Uint8Array>
  /** What this one call is asked with, over the model's own settings. */
  readonly settings?: ModelSettings
  /** How often the model tries at most before its first word, where its own settings do not say so. */
  readonly attempts?: number
  /** Told before each further attempt, with the fault of the one before. */
  onRetry?(attempt: number, fault: unknown): void
}

/** How a model is asked. What is not set is not sent. */
export interface ModelSettings {
  readonly temperature?: number
  readonly topP?: number
  readonly maxOutputTokens?: number
  readonly reasoning?: 'none' | 'low' | 'medium' | 'high' | 'max'
  /** Whether the model may, must or must not call a tool, or the name of the one that it must call. */
  readonly toolChoice?: 'auto' | 'required' | 'none' | { readonly tool: string }
  /** The JSON Schema that the answer's text has to fit, where the model `can` do so. */
  readonly object?: { readonly name: string; readonly schema: Record<string, unknown> }
  /** Fields that are merged into the request's body as they stand. */
  readonly body?: Readonly<Record<string, unknown>>
}

/** US dollars for a million tokens. An unset price of the cache is the input's. */
export interface ModelPrice {
  readonly input: number
  readonly output: number
  readonly cachedInput?: number
  readonly cacheWrite?: number
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
  /** What the provider wants back with the next request: JSON, once in an answer, as its last delta. */
  | { readonly type: 'provider'; readonly data: unknown }

/** The whole answer of a model call. */
export interface ModelReply {
  readonly content: string
  readonly reasoning?: string
  readonly toolCalls: readonly ToolCall[]
  /** What the call cost, where the provider said so. */
  readonly usage?: ModelUsage
  /** What the provider wants back. A layer that rewrites the reply leaves it out. */
  readonly provider?: unknown
}

/** The port to a model: what an adapter implements. */
export interface Model {
  /** What MODEL and the log call this model. */
  readonly id: string
  /** What people read instead of `id`. */
  readonly label?: string
  /** Who may read this model's provider data: models of one origin share it. By default the id. */
  readonly origin?: string
  /** How many tokens the model reads at most. */
  readonly contextWindow?: number
  /** How many tokens the model writes at most. */
  readonly maxOutputTokens?: number
  readonly price?: ModelPrice
  /** The media types that the model reads beside text: `image/*`, `application/pdf`. Nothing else unless said. */
  readonly reads?: {
    readonly image?: readonly string[]
    readonly audio?: readonly string[]
    readonly file?: readonly string[]
  }
  /** What the model can do. By default it calls tools, and has no mode for objects. */
  readonly can?: { readonly tools?: boolean; readonly object?: boolean }
  /** Yields deltas until the answer is complete, and stops when `signal` fires. */
  stream(request: ModelRequest): AsyncIterable<Delta>
  /** Streams without a promise for every delta, where a model can: `take` may throw, and that ends the answer. */
  streamTo?(request: ModelRequest, take: (delta: Delta) => void): Promise<void>
}

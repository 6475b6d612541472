import type { Fetch, Log } from './context.ts'
import type { MaybePromise } from './schema.ts'

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
  /**
   * Whole billionths of a US dollar, in digits; null or absent where nobody knows, and never 0 for that. A provider gives what
   * it says itself; the kernel puts what the price comes to in its place.
   */
  readonly cost?: string | null
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
  /** How many calls these were; one where it is absent. */
  readonly calls?: number
}

/** What a whole turn cost, its sub-agents and its summaries included. */
export interface TurnUsage extends ModelUsage {
  readonly calls: number
  /** The same for each model. */
  readonly models: readonly RunUsage[]
}

/** One call of a model as it ended: who asked whom, for what, and what it cost. */
export interface ModelCall {
  /** The id of the model that was asked. */
  readonly model: string
  /** The user whom the call served, where it served one. */
  readonly did?: string
  /** The run that the call belongs to; outside of turns there is none. */
  readonly runId?: string
  readonly sessionId?: string
  /** The plugin that asked. */
  readonly plugin?: string
  readonly kind: 'turn' | 'sub-agent' | 'summary' | 'plugin' | 'embedding'
  /** What the call cost. A call that failed before it said anything is taken to have cost nothing. */
  readonly usage: ModelUsage
  /** How long the call took, in milliseconds. */
  readonly ms: number
  /** How long it took until the first piece of the answer came; absent where none did. */
  readonly firstMs?: number
  /** How often the model was asked before it answered or failed. */
  readonly attempts: number
  /** The code of the fault by which the call ended; `ABORTED` where nobody waited any more. */
  readonly code?: string
}

/** A line of the conversation. Plain data: the runtime stores it as it stands. */
export type Message =
  | { readonly role: 'system'; readonly content: string }
  | {
      readonly role: 'user'
      readonly id: string
      readonly content: string
      readonly parts?: readonly MessagePart[]
      /** The content holds other people's words, too: files, what a plugin quoted, or a summary of such words. */
      readonly foreign?: { readonly label: string }
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
      /** Why the answer ended early. The kernel notes it in the journal; no model is told. */
      readonly ended?: EarlyEnd
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
  /** Told which host is asked, where the model is one of another machine. */
  onHost?(host: string): void
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

/** Why an answer ended before the model was done: it was as long as an answer may be, or its provider filtered the rest. */
export type EarlyEnd = 'length' | 'content_filter'

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
  /** The answer ended early. A usual end is not told. */
  | { readonly type: 'ended'; readonly by: EarlyEnd }
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
  /** Why the answer ended early; absent where it ended as usual. */
  readonly ended?: EarlyEnd
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
  readonly contextWindow?: number | undefined
  /** How many tokens the model writes at most. */
  readonly maxOutputTokens?: number
  readonly price?: ModelPrice
  /** The media types that the model reads beside text: `image/*`, `application/pdf`. Nothing else unless said. */
  readonly reads?:
    | {
        readonly image?: readonly string[]
        readonly audio?: readonly string[]
        readonly file?: readonly string[]
      }
    | undefined
  /** What the model can do. By default it calls tools, and has no mode for objects. */
  readonly can?: { readonly tools?: boolean; readonly object?: boolean }
  /** Yields deltas until the answer is complete, and stops when `signal` fires. */
  stream(request: ModelRequest): AsyncIterable<Delta>
  /** Streams without a promise for every delta, where a model can: `take` may throw, and that ends the answer. */
  streamTo?(request: ModelRequest, take: (delta: Delta) => void): Promise<void>
}

/** What the operator sets for models, beside how they are asked: the fields of a line of MODEL_SETTINGS. */
export interface OfferSettings extends Omit<ModelSettings, 'toolChoice' | 'object'> {
  /** How many tokens the model reads at most. */
  readonly contextWindow?: number | undefined
  /** The media types that the model reads beside text. */
  readonly reads?: Model['reads']
  readonly price?: ModelPrice
  /** What people read instead of the id. */
  readonly label?: string
  /** `everyday`, `balanced` or `top`: the order in which clients list the models. */
  readonly tier?: 'everyday' | 'balanced' | 'top'
  /** A sentence for people who choose. */
  readonly blurb?: string
  /** A word or two beside the label. */
  readonly badge?: string
  /** The address of the provider, in place of the one in its variable. */
  readonly baseUrl?: string
  /** The variable that holds the key, in place of the provider's own. */
  readonly keyFrom?: string
  /** The wire, where a provider has several. */
  readonly wire?: 'chat' | 'responses'
  /** Headers of every request. */
  readonly headers?: Readonly<Record<string, string>>
  /** How often a call is tried before its first word. */
  readonly attempts?: number
  readonly connectMs?: number
  readonly firstTokenMs?: number
  readonly idleMs?: number
  readonly stallMs?: number
}

/** What a provider gets to open a model. */
export interface ModelOpening<Env = unknown, Self = unknown> {
  /** The plugin's variables, parsed. */
  readonly env: Env
  /** What the plugin's `setup` returned. */
  readonly self: Self
  /** What the operator set for this model. */
  readonly settings: OfferSettings
  /** The network. */
  readonly fetch: Fetch
  readonly log: Log
  /** The key to use in place of the one in the plugin's variables. */
  readonly key?: string
}

/** Texts as vectors. */
export interface Embeddings {
  /** A vector for each text, in the order of the texts. */
  readonly vectors: readonly Float32Array[]
  readonly usage?: ModelUsage
}

/** A model that makes vectors of texts. */
export interface Embedder {
  readonly id: string
  embed(
    texts: readonly string[],
    options: {
      readonly kind: 'query' | 'document'
      readonly signal: AbortSignal
      /** Told before each further attempt. */
      readonly onRetry?: (attempt: number) => void
    },
  ): Promise<Embeddings>
}

/** A provider of models: what stands before the first slash of a name in MODEL, or is the whole name. */
export interface ModelProvider<Env = unknown, Self = unknown> {
  /** What people call the provider. */
  readonly label: string
  /** It answers when MODEL is not set. */
  readonly standIn?: boolean
  /** Without a price: on the user's own machine, or made up. */
  readonly free?: boolean
  /**
   * The variables of the plugin's own `env`, optional there, that MODEL needs to be set when it names the provider; of a list
   * within the list one is enough.
   */
  readonly needs?: readonly (string | readonly string[])[]
  /** How names of this provider's models begin, for an operator who left out the provider: `['vendor-']`. */
  readonly prefixes?: readonly string[]
  /** What is wrong with a model, found at boot and without network: a sentence, and what to do. */
  fault?(
    name: string,
    ctx: Pick<ModelOpening<Env, Self>, 'env' | 'settings' | 'key'> & {
      /** The variable that names the model: MODEL, or another one. */
      readonly variable?: string
    },
  ): { readonly message: string; readonly hint: string } | undefined
  /** Opens a model, at its first call and once: what a model needs is imported here. */
  open(name: string, ctx: ModelOpening<Env, Self>): MaybePromise<Model>
  /** The names of the models that the key reaches. */
  list?(
    signal: AbortSignal,
    ctx: Pick<ModelOpening<Env, Self>, 'env' | 'self' | 'fetch' | 'log'>,
  ): Promise<readonly string[]>
  /** Opens a model that makes vectors, at its first use and once: what EMBEDDING_MODEL can name. */
  embed?(name: string, ctx: ModelOpening<Env, Self>): MaybePromise<Embedder>
}

/** The providers of a plugin, by what stands before the first slash of a name in MODEL. */
export type ModelSection<Env, Self> = Readonly<Record<string, ModelProvider<Env, Self>>>

/** A model of the app and what it costs, as far as that is known before the first call. */
export interface PricedModel {
  readonly id: string
  /** Absent where nobody has said. A model for which nobody pays has a price of 0. */
  readonly price?: ModelPrice
}

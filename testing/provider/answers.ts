import type { ModelUsage } from '../../core/plugin.ts'

/** The forms in which the fake provider is asked. */
export type ProviderWire = 'messages' | 'responses' | 'generateContent' | 'chat' | 'ollama'

/** A call of a tool that the provider's model makes. */
export interface ProviderCall {
  /** The name of the tool; null leaves it out, as broken servers do. */
  readonly name: string | null
  /** The arguments; text goes out as it is, to try what is no JSON. By default none. */
  readonly args?: unknown
  /** The id; by default a new one. Calls with the same id are what some servers send. */
  readonly id?: string
}

/** How an answer goes wrong after its words: nothing more comes, the connection breaks, or an error stands in the stream. */
export type ProviderEnd = 'silence' | 'break' | { readonly error: string; readonly status?: number }

/** What the provider's model says, and how well the server sends it. */
export interface ProviderSpeech {
  /** The reply: a text is sent word by word, an array piece by piece. */
  readonly text?: string | readonly string[]
  /** Instead of a text: names each picture, sound and file of the request, as `image/png 70`, or says `nothing`. */
  readonly describes?: boolean
  /** What the model thinks before it answers: a block for each text of an array. It goes out signed. */
  readonly reasoning?: string | readonly string[]
  /** The thinking is sent redacted, where the wire has such a form: without words, to be given back as it came. */
  readonly redacted?: boolean
  readonly calls?: readonly ProviderCall[]
  /**
   * What the call cost, in the words of the port: the server converts it to its own, and leaves out what its wire has no
   * field for. Several are reported one after the other, also smaller ones; `false` reports nothing. By default from bytes.
   */
  readonly usage?: ModelUsage | readonly ModelUsage[] | false
  /** Why the model stops; by default it has said everything. */
  readonly finish?: 'length' | 'refused'
  /** Thinking and calls go out without their signatures. */
  readonly unsigned?: boolean
  /** How many bytes the first signature is long at least. */
  readonly signatureBytes?: number
  /** How many bytes a write has, so that chunks end anywhere, in the middle of a letter too. */
  readonly bytesPerWrite?: number
  /** How many characters of arguments stand in a chunk, where the wire streams arguments; by default 8. */
  readonly argsPerChunk?: number
  /** What the head of the answer says that it is, instead of what it is. */
  readonly contentType?: string
  /** What happens after the words, before the end of the answer. */
  readonly then?: ProviderEnd
}

/** An answer that is none: a status, a page, or nothing. */
export interface ProviderFailure {
  /** The status of the answer, with an error in the words of the wire. 200 is an answer without a model's words. */
  readonly status: number
  /** How many requests fail so; by default one. */
  readonly times?: number
  /** What `Retry-After` says, in seconds or as a date. */
  readonly retryAfter?: number | string
  /** Instead of the usual error of this status. */
  readonly why?: 'quota' | 'content' | 'context'
  /** Instead of the wire's own error: this text. What begins with `<` is sent as an HTML page. */
  readonly body?: string
  readonly headers?: Readonly<Record<string, string>>
}

/**
 * How the fake provider answers one request: a text, a speech, a failure, silence from the start, a broken connection, or
 * a function of the request that gives one of these.
 */
export type ProviderAnswer =
  | string
  | ProviderSpeech
  | ProviderFailure
  | 'silence'
  | 'break'
  | ((request: ProviderRequest) => ProviderAnswer | Promise<ProviderAnswer>)

/** A request as the fake provider saw it. */
export interface ProviderRequest {
  /** How the provider was asked; undefined for lists, embeddings and what no wire knows. */
  readonly wire: ProviderWire | undefined
  readonly method: string
  /** The path with its query. */
  readonly path: string
  /** The name of the model, from the body or the path. */
  readonly model: string
  /** The headers, with their names in lower case. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
  /** The body as it came. */
  readonly text: string
  /** The parsed body; empty where there is none. */
  readonly body: Readonly<Record<string, unknown>>
  /** How many tokens the fake provider takes the request for: a quarter of its bytes. */
  readonly tokens: number
  /** The pictures, sounds and files of the request that lie in it. */
  readonly media: readonly ProviderMedia[]
  /** Fires when the client goes away before the answer is whole. */
  readonly gone: AbortSignal
}

/** A picture, a sound or a file that came within a request. */
export interface ProviderMedia {
  readonly mediaType: string
  readonly bytes: Uint8Array
}

/** A field that the fake provider does not know, or does not take, and names in its 400. */
export type RefusedField =
  | 'stream_options'
  | 'temperature'
  | 'adaptive'
  | 'enabled'
  | 'reasoning_content'
  | 'object'
  | 'tools'

/** What the fake provider is. Everything can be changed later by `provider.rules`. */
export interface ProviderRules {
  /** The models that there are; asked for another one the server answers 404. By default any name is one. */
  models?: readonly string[]
  /** How many tokens a request may hold; a longer one is refused with the number. A token is four bytes. */
  window?: number
  /** How many tokens an answer may be asked for. */
  maxOutputTokens?: number
  /** The fields that are refused by name. */
  refuses?: readonly RefusedField[]
  /** Two messages of one role in a row are refused, as the templates of many local models do. */
  alternates?: boolean
  /** What chat completions want back: nothing, or what servers of three kinds add to the wire. */
  chat?: 'plain' | 'extra_content' | 'reasoning_details' | 'reasoning_content'
  /** False answers whatever came, as a server does that checks nothing. */
  strict?: boolean
  /** How many numbers an embedding has; by default 8. */
  dimensions?: number
}

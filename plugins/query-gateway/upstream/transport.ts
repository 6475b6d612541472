/** Metadata of a call, in or out. Names are lower case; a `-bin` value is base64. */
export type Metadata = Readonly<Record<string, string | readonly string[] | undefined>>

/** One call of the upstream. */
export interface Call {
  /** `/package.Service/Method` */
  readonly path: string
  /** Encoded messages: one, except where a service is asked with several. */
  readonly messages: readonly Uint8Array[]
  readonly metadata: Metadata
  /** Milliseconds from now; a call without one lasts as long as both sides like. */
  readonly deadlineMs?: number
  readonly signal?: AbortSignal
}

/** The answer to a call for one message. */
export interface UnaryAnswer {
  readonly message: Uint8Array
  readonly metadata: Metadata
}

/** The answer to a call for a stream. */
export interface StreamAnswer {
  /** Resolves with the first headers of the upstream. */
  readonly metadata: Promise<Metadata>
  readonly messages: AsyncIterable<Uint8Array>
}

/** Calls methods of one upstream. Every failure is a CallError. */
export interface Transport {
  unary(call: Call): Promise<UnaryAnswer>
  serverStream(call: Call): StreamAnswer
  /** Calls `listener` when the upstream is there again after its connection broke: it may be another now. */
  onReturn(listener: () => void): void
  close(): void
}

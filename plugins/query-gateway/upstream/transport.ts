/** The metadata of a call or of its answer. Names are in lower case; the value of a name with `-bin` at its end is base64. */
export type Metadata = Readonly<Record<string, string | readonly string[] | undefined>>

/** A call of the upstream. */
export interface Call {
  /** The path of the method: `/package.Service/Method`. */
  readonly path: string
  /** The encoded messages of the request: one, except for methods that take a stream. */
  readonly messages: readonly Uint8Array[]
  readonly metadata: Metadata
  /** The deadline in milliseconds from now; a call without a deadline may last for any time. */
  readonly deadlineMs?: number
  readonly signal?: AbortSignal
  /** Whether the call only reads, so that another upstream may be asked when this one is away. */
  readonly isSafe?: boolean
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

/** Calls methods of an upstream. Every failure is a CallError. */
export interface Transport {
  unary(call: Call): Promise<UnaryAnswer>
  serverStream(call: Call): StreamAnswer
  /** Registers a listener for a new connection after the former broke, because the upstream may have other descriptors now. */
  onReturn(listener: () => void): void
  close(): void
}

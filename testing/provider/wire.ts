import type { ModelUsage } from '../../core/plugin.ts'
import type { ProviderFailure, ProviderRequest, ProviderRules, ProviderWire } from './answers.ts'
import type { CallMemory } from './memory.ts'
import type { Signer } from './signer.ts'

/** What all wires of one fake provider share. */
export interface Provider {
  readonly rules: ProviderRules
  readonly signer: Signer
  readonly memory: CallMemory
}

/** A call as it goes out. */
export interface SpokenCall {
  readonly id: string
  readonly name: string | null
  /** The arguments as the text that the model wrote. */
  readonly json: string
}

/** A speech in which everything is decided that its wire needs. */
export interface Spoken {
  /** The id of the answer. */
  readonly answer: string
  readonly model: string
  readonly thoughts: readonly string[]
  readonly isRedacted: boolean
  readonly words: readonly string[]
  readonly calls: readonly SpokenCall[]
  readonly usages: readonly ModelUsage[]
  readonly finish: 'stop' | 'length' | 'refused'
  readonly isSigned: boolean
  readonly signatureBytes: number
  readonly argsPerChunk: number
  /** The answer goes wrong after its words: its last frames do not go out. */
  readonly isCut: boolean
}

/** One event of a stream, or one line of it. */
export interface Frame {
  readonly event?: string
  readonly data: unknown
}

/** Why a request is refused: the status, and the body in the form of the wire. */
export interface Refusal {
  readonly status: number
  readonly body: unknown
  /** The sentence in it. */
  readonly message: string
}

/** One of the forms in which the fake provider is asked. */
export interface Wire {
  readonly name: ProviderWire
  /** Whether a path is this wire's. */
  matches(path: string): boolean
  /** The name of the model in the path; undefined where it stands in the body. */
  modelIn?(path: string): string | undefined
  /** The key in the headers of a request. */
  keyOf(request: ProviderRequest): string
  /** Why a strict server would not take the request. */
  refusal(request: ProviderRequest, provider: Provider): Refusal | undefined
  /** The answer, frame by frame. */
  frames(spoken: Spoken, request: ProviderRequest, provider: Provider): Iterable<Frame>
  /** The status for a wrong key, where it is not 401. */
  readonly keyStatus?: number
  /** The type of the answer, where it is no event stream. */
  readonly contentType?: string
  /** Answers without a key, as a server in one's own house does. */
  readonly isOpen?: boolean
  /** What stands in the stream before the connection closes; none for most. */
  readonly last?: string
  /** An error as the wire words it. */
  error(status: number, message: string, code?: string): unknown
  /** The sentence and the code for a failure that was asked for. */
  failure(failure: ProviderFailure, request: ProviderRequest): { message: string; code?: string }
  /** An error in the middle of a stream. */
  streamError(status: number, message: string): Frame
}

import type { Delta, ModelRequest } from '../../../plugin.ts'
import type { Asked } from './provider-fault.ts'

/** What a server has refused by name, and what its requests do about it. The transport remembers it for the model. */
export type Changes = ReadonlyMap<string, unknown>

/** What one request sends. */
export interface WireBody {
  readonly body: string
  /** Headers of this one request, over those of the transport. */
  readonly headers?: Readonly<Record<string, string>>
}

/** A refusal with status 400 or 422, as the server wrote it. */
export interface WireRefusal {
  readonly status: number
  readonly text: string
}

/** The language of a provider: how a request becomes a body, and how an answer becomes deltas. */
export interface Wire {
  /** Writes the body of a request, as the `changes` that the server asked for before want it. */
  body(request: ModelRequest, changes: Changes): string | WireBody | Promise<string | WireBody>
  /** Makes the reader of one answer. */
  reader(asked: Asked, request: ModelRequest): FrameReader
  /**
   * What of a request to change, because the server refused it by name: the name of the change and what to remember with it.
   * The request then goes out once more. Undefined where no change helps. A change that belongs to `request` alone is
   * remembered by the wire itself; what it returns then has to differ from what it returned before.
   */
  change?(
    refusal: WireRefusal,
    changes: Changes,
    request: ModelRequest,
  ): readonly [name: string, value: unknown] | undefined
}

/** Reads the frames of one answer, in order, into deltas. A foreign server writes the frames, so each field is checked where it is used. */
export interface FrameReader {
  /** Set when the provider has said why it stopped: after that only counts may follow, and nobody waits long for them. */
  readonly finished: boolean
  /** Set when nothing at all can follow. */
  readonly done?: boolean
  /** How many characters the reader holds for the provider's own data. */
  readonly kept?: number
  /** Reads one frame, parsed from JSON, and adds its deltas to `onto`. `event` is the name of a server-sent event. */
  take(frame: unknown, onto: Delta[], event?: string): void
  /** The deltas that end the answer, asked for once: the usage, what the provider wants back. */
  last(): readonly Delta[]
}

/** How long each step of an answer may take, how large an answer may be, and how often a call is tried. */
export interface CallLimits {
  /** How often a call is tried. After its first word a call is not tried again. */
  readonly attempts: number
  /** How long connecting may take. */
  readonly connectMs: number
  /** The time until the answer begins, and from there until its first words: a model may think in silence. */
  readonly firstTokenMs: number
  /** The longest time without a byte in the middle of an answer. */
  readonly idleMs: number
  /** The longest time with bytes but without a word, such as comments and empty deltas. */
  readonly stallMs: number
  /** The most characters of one answer. */
  readonly maxAnswer: number
}

/** The limits of a call whose model sets none; a minute without a byte ends an answer that has begun. */
export const usualLimits: CallLimits = {
  attempts: 4,
  connectMs: 10_000,
  firstTokenMs: 300_000,
  idleMs: 60_000,
  stallMs: 300_000,
  maxAnswer: 16 * 1024 * 1024,
}

/** The most bytes of JSON that an answer may give to be sent back with the next request. */
export const maxProviderData = 1024 * 1024

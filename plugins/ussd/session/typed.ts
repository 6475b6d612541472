import type { Pins } from '../accounts/pins.ts'
import { sanitised, type Session } from './session.ts'

/** Where a session stands in what was typed: what `WholeText` and `OneInput` compare. */
export type Place = Pick<Session, 'length' | 'mark'>

/** One input of a phone, as a telecom gateway hands it over. */
export type Input = {
  readonly sessionId: string
  readonly phoneNumber: string
  readonly network?: string | undefined
  readonly operator?: string | undefined
} & (
  | { readonly text: string }
  /** A gateway that sends each input by itself. `sequence` numbers the requests of a session, where the gateway does that. */
  | { readonly input: string; readonly isFirst: boolean; readonly sequence?: number | undefined }
)

/** What a request says was typed, compared with a session. */
export interface Typed {
  /** Whether it is the first request of a session, so that no session has to be looked for. */
  readonly isFirst: boolean
  /** The inputs that a session which begins with this request goes through. */
  readonly inputs: readonly string[]
  /** Whether the session stands where this very request took it: the request is a repeat. */
  isOf(session: Session): boolean
  /** Whether the request takes the session one input further. */
  follows(session: Session): boolean
  /** The input that comes after what the session has. */
  inputAfter(session: Session): string
  /** Where the session stands after the request. */
  placeAfter(session: Session | undefined): Place
}

/** What a request says was typed, by the kind of its gateway. */
export const typedOf = (request: Input, pins: Pins): Typed =>
  'text' in request ? new WholeText(request, pins) : new OneInput(request, pins)

/** Everything that was typed in the call so far, with `*` between the inputs. */
class WholeText implements Typed {
  readonly #id: string
  readonly #text: string
  readonly #pins: Pins

  constructor({ sessionId, text }: { sessionId: string; text: string }, pins: Pins) {
    this.#id = sessionId
    this.#text = text
    this.#pins = pins
  }

  get isFirst(): boolean {
    return this.#text === ''
  }

  get inputs(): readonly string[] {
    return this.isFirst ? [] : this.#text.split('*').map(sanitised)
  }

  isOf({ length, mark }: Session): boolean {
    return length === this.#text.length && this.#pins.isMarkOf(mark, this.#id, this.#text)
  }

  follows({ length, mark }: Session): boolean {
    const text = this.#text
    if (text.length <= length) return false
    if (length === 0) return true
    return text[length] === '*' && this.#pins.isMarkOf(mark, this.#id, text.slice(0, length))
  }

  inputAfter({ length }: Session): string {
    return sanitised(this.#text.slice(length === 0 ? 0 : length + 1))
  }

  placeAfter(): Place {
    return { length: this.#text.length, mark: this.#pins.mark(this.#id, this.#text) }
  }
}

/**
 * One input alone. The length of a session then counts requests: by the gateway's own numbers, which tell a repeat from
 * the same input typed again, or by counting where the gateway has no numbers.
 */
class OneInput implements Typed {
  readonly isFirst: boolean
  /** A session that this server does not know begins anew, because nobody says what was typed before. */
  readonly inputs: readonly string[] = []
  readonly #id: string
  readonly #input: string
  readonly #sequence: number | undefined
  readonly #pins: Pins

  constructor(
    request: { sessionId: string; input: string; isFirst: boolean; sequence?: number | undefined },
    pins: Pins,
  ) {
    this.isFirst = request.isFirst
    this.#id = request.sessionId
    this.#input = request.input
    this.#sequence = request.sequence
    this.#pins = pins
  }

  isOf({ length, mark }: Session): boolean {
    if (this.#sequence === undefined) return this.isFirst && length === 0
    return (
      length === this.#sequence && this.#pins.isMarkOf(mark, this.#id, this.#marked(this.#sequence))
    )
  }

  follows({ length }: Session): boolean {
    if (this.isFirst) return false
    return this.#sequence === undefined || this.#sequence > length
  }

  inputAfter(): string {
    return sanitised(this.#input)
  }

  placeAfter(session: Session | undefined): Place {
    const length = this.#sequence ?? (session === undefined ? 0 : session.length + 1)
    return { length, mark: this.#pins.mark(this.#id, this.#marked(length)) }
  }

  #marked(nth: number): string {
    return `${nth} ${this.#input}`
  }
}

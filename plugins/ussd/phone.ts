import { randomUUID } from 'node:crypto'
import type { UssdRequest } from './request.ts'

/** Hands a request to a gateway and brings its answer. */
export type Send = (request: UssdRequest) => Promise<string>

/** A phone as the network sees it: a number, a call, and everything typed in it so far. */
export class Phone {
  readonly number: string
  readonly #send: Send
  readonly #serviceCode: string
  sessionId = ''
  text = ''

  constructor(number: string, send: Send, serviceCode = '*384#') {
    this.number = number
    this.#send = send
    this.#serviceCode = serviceCode
  }

  /** Begins a new call. */
  dial(sessionId: string = randomUUID()): Promise<string> {
    this.sessionId = sessionId
    this.text = ''
    return this.again()
  }

  /** Types one input after the other; the answer to the last. */
  async type(...inputs: string[]): Promise<string> {
    let answer = ''
    for (const input of inputs) {
      this.text = this.text === '' ? input : `${this.text}*${input}`
      answer = await this.again()
    }
    return answer
  }

  /** The same request once more, as a network does that lost the answer. */
  again(): Promise<string> {
    return this.#send({
      sessionId: this.sessionId,
      serviceCode: this.#serviceCode,
      phoneNumber: this.number,
      text: this.text,
    })
  }
}

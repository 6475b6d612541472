import { randomUUID } from 'node:crypto'
import type { UssdRequest } from './request.ts'

/** What a phone's network sends for an input. */
export type Sent = Pick<UssdRequest, 'sessionId' | 'serviceCode' | 'phoneNumber' | 'text'>
/** Sends a request to a gateway, and resolves to the answer. */
export type Send = (request: Sent) => Promise<string>

/** A phone as a telecom network sees it: its number, its call, and everything that was typed in the call so far. */
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

  /** Types one input after the other, and resolves to the answer to the last input. */
  async type(...inputs: string[]): Promise<string> {
    let answer = ''
    for (const input of inputs) {
      this.text = this.text === '' ? input : `${this.text}*${input}`
      answer = await this.again()
    }
    return answer
  }

  /** Sends the last request again, as a network does that lost the answer. */
  again(): Promise<string> {
    return this.#send({
      sessionId: this.sessionId,
      serviceCode: this.#serviceCode,
      phoneNumber: this.number,
      text: this.text,
    })
  }
}

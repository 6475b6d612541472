import { z } from 'zod'
import { keepable } from '../keepable.ts'

/** What a facilitator is asked about: what the payer signed, and what we asked for. */
export interface Question {
  readonly x402Version: 2
  readonly paymentPayload: unknown
  readonly paymentRequirements: unknown
}

/** A facilitator's answer; `unknown` where nobody can say what it did. */
export type Verdict =
  | { readonly is: 'good'; readonly transaction: string; readonly payer: string }
  | { readonly is: 'bad'; readonly reason: string }
  | { readonly is: 'unknown'; readonly reason: string }

/** How long a question may take, and how large an answer may be: both questions fit into the time of an admission. */
const limits = { verifyMs: 3_000, settleMs: 5_000, bytes: 64 * 1024 }

const reason = z.string().max(1_000).nullish()
const verified = z.object({ isValid: z.boolean(), invalidReason: reason, payer: reason })
const settled = z.object({
  success: z.boolean(),
  errorReason: reason,
  transaction: z.string().max(200).transform(keepable).nullish(),
  payer: reason,
})

/** The service that checks signatures and brings them onto their ledger. */
export class Facilitator {
  readonly #url: string
  readonly #authorization: string | undefined
  readonly #fetch: typeof globalThis.fetch

  constructor(url: string, authorization: string | undefined, fetch: typeof globalThis.fetch) {
    this.#url = url.replace(/\/+$/, '')
    this.#authorization = authorization
    this.#fetch = fetch
  }

  /** Whether a signature is good. Nothing is moved by it. */
  async verify(question: Question): Promise<Verdict> {
    const answer = await this.#ask('/verify', question, limits.verifyMs)
    if (typeof answer === 'string') return { is: 'unknown', reason: answer }
    const { success, data } = verified.safeParse(answer)
    if (!success) return { is: 'unknown', reason: 'the answer to /verify is no verdict' }
    if (!data.isValid) return { is: 'bad', reason: data.invalidReason ?? 'invalid' }
    return { is: 'good', transaction: '', payer: data.payer ?? '' }
  }

  /** Moves the money. */
  async settle(question: Question): Promise<Verdict> {
    const answer = await this.#ask('/settle', question, limits.settleMs)
    if (typeof answer === 'string') return { is: 'unknown', reason: answer }
    const { success, data } = settled.safeParse(answer)
    if (!success) return { is: 'unknown', reason: 'the answer to /settle is no verdict' }
    if (!data.success) return { is: 'bad', reason: data.errorReason ?? 'not settled' }
    return { is: 'good', transaction: data.transaction ?? '', payer: data.payer ?? '' }
  }

  /** The JSON that is answered, or why there is none. Some facilitators say no with a status of 4xx. */
  async #ask(path: string, question: Question, ms: number): Promise<object | string> {
    try {
      const response = await this.#fetch(this.#url + path, {
        method: 'POST',
        redirect: 'error',
        headers: {
          'content-type': 'application/json',
          ...(this.#authorization !== undefined && { authorization: this.#authorization }),
        },
        body: JSON.stringify(question),
        signal: AbortSignal.timeout(ms),
      })
      const text = await response.text()
      if (response.status >= 500 || response.status === 429 || text.length > limits.bytes)
        return `${path} answered ${response.status}`
      const json: unknown = JSON.parse(text)
      return typeof json === 'object' && json !== null ? json : `${path} answered no object`
    } catch (error) {
      return `${path}: ${error instanceof Error ? error.name : 'no answer'}`
    }
  }
}

import { randomUUID } from 'node:crypto'
import type { Kysely } from 'kysely'
import { type Log, RuntimeError, type Turns } from '#core'
import { plain } from './plain.ts'
import type { Tables } from '../tables.ts'
import { Transcript } from './transcript.ts'

/** How a question stands. */
export type Answer =
  | { readonly status: 'none' | 'working' | 'consent' | 'lost' }
  | { readonly status: 'answered'; readonly text: string }

/** Who asks: a customer, or a phone whose owner has not logged in. */
export interface Owner {
  readonly did: string
  readonly isGuest: boolean
}

/** What questions to the agent are asked with. */
export interface OracleOptions {
  readonly db: Kysely<Tables>
  readonly turns: Turns
  readonly log: Log
  /** How long a phone is kept waiting for an answer before it is told that there is none yet. */
  readonly waitMs: number
}

type Question = Tables['ussd_questions']

/** After this long without an answer a question is given up. */
const patienceMs = 5 * 60_000
const pollMs = 500
/** How long an answer waits to be read. */
const keptMs = 24 * 60 * 60_000

/**
 * Asks the agent for people at phones. A question goes on when the phone session ends, and its
 * answer waits for the next one: the last of each owner is kept. A turn outlives the server that
 * began it, and whichever server is asked next reads it from its first event.
 */
export class Oracle {
  readonly #db: Kysely<Tables>
  readonly #turns: Turns
  readonly #log: Log
  readonly #waitMs: number
  /** The turns that are read here, by their keys. */
  readonly #reading = new Map<string, Promise<void>>()
  /** Those who wait for an answer, to be woken when the server closes. */
  readonly #waiting = new Set<() => void>()
  #isClosing = false

  constructor({ db, turns, log, waitMs }: OracleOptions) {
    this.#waitMs = waitMs
    this.#db = db
    this.#turns = turns
    this.#log = log
  }

  /** Starts a turn. The answer is looked for with `answer`. */
  async ask(owner: Owner, question: string): Promise<void> {
    const asked: Question = {
      owner: owner.did,
      question,
      request_id: randomUUID(),
      outcome: '',
      answer: '',
      asked_at: Date.now(),
      answered_at: 0,
    }
    const { owner: _, ...again } = asked
    await this.#db
      .deleteFrom('ussd_questions')
      .where('asked_at', '<', asked.asked_at - keptMs)
      .execute()
    await this.#db
      .insertInto('ussd_questions')
      .values(asked)
      .onConflict((conflict) => conflict.column('owner').doUpdateSet(again))
      .execute()
    this.#read(owner, asked)
  }

  /** Waits a while for the answer to the last question, wherever its turn is carried out. */
  async settled(owner: Owner): Promise<Answer> {
    const until = performance.now() + this.#waitMs
    for (;;) {
      const row = await this.#row(owner)
      const answer = this.#answerOf(owner, row)
      const left = until - performance.now()
      if (answer.status !== 'working' || left <= 0 || this.#isClosing) return answer
      const reading = row && this.#reading.get(row.request_id)
      if (reading) await this.#orClosed(left, reading)
      if ((await this.answer(owner)).status === 'working')
        await this.#orClosed(Math.min(pollMs, Math.max(0, until - performance.now())))
    }
  }

  async answer(owner: Owner): Promise<Answer> {
    return this.#answerOf(owner, await this.#row(owner))
  }

  /** Lets go of the turns; they go on at another server, or here after a restart. */
  close(): void {
    this.#isClosing = true
    for (const wake of this.#waiting) wake()
  }

  #row({ did }: Owner): Promise<Question | undefined> {
    return this.#db
      .selectFrom('ussd_questions')
      .selectAll()
      .where('owner', '=', did)
      .executeTakeFirst()
  }

  #answerOf(owner: Owner, row: Question | undefined): Answer {
    const age = row ? Date.now() - row.asked_at : Infinity
    if (row === undefined || age > keptMs) return { status: 'none' }
    if (row.outcome === 'answered') return { status: 'answered', text: row.answer }
    if (row.outcome !== '') return { status: row.outcome }
    if (age > patienceMs) return { status: 'lost' }
    this.#read(owner, row)
    return { status: 'working' }
  }

  /** Reads a turn to its end, unless that is being done here already. */
  #read(owner: Owner, question: Question): void {
    const { request_id: key } = question
    if (this.#reading.has(key) || this.#isClosing) return
    const reading = this.#answerTo(owner, question)
      .catch((error: unknown) =>
        this.#log.warn({ err: error }, 'an answer could not be read; it is looked for again'),
      )
      .finally(() => this.#reading.delete(key))
    this.#reading.set(key, reading)
  }

  async #answerTo(owner: Owner, { question, request_id, asked_at }: Question): Promise<void> {
    const patience = AbortSignal.timeout(Math.max(0, asked_at + patienceMs - Date.now()))
    const giveUp = new AbortController()
    const said = new Transcript()
    try {
      for await (const event of this.#turns.start({
        user: { did: owner.did },
        session: sessionOf(owner),
        message: question,
        requestId: request_id,
        signal: AbortSignal.any([patience, giveUp.signal]),
      }))
        said.hear(event)
    } catch (error) {
      // Whoever cannot have a turn is told so; a server in trouble is asked again.
      if (!(error instanceof RuntimeError) || error.code === 'UNAVAILABLE') throw error
      this.#log.warn({ err: error }, 'a question was not answered')
      return this.#keep(request_id, 'lost', '')
    }
    // Without its end the turn goes on elsewhere.
    if (said.end === undefined) return
    // Nobody at a phone can agree, and what waits for that would wait for ever.
    if (said.end === 'waiting') giveUp.abort()
    const answer = plain(said.text)
    if (said.end === 'waiting') await this.#keep(request_id, 'consent', '')
    else if (said.end === 'finished' && answer !== '')
      await this.#keep(request_id, 'answered', answer)
    // Half an answer is worth less on a small screen than a plain word that it failed.
    else await this.#keep(request_id, 'lost', '')
  }

  async #keep(requestId: string, outcome: Question['outcome'], answer: string): Promise<void> {
    await this.#db
      .updateTable('ussd_questions')
      .set({ outcome, answer, question: '', answered_at: Date.now() })
      .where('request_id', '=', requestId)
      .execute()
  }

  /** Waits so long, or for the work, or until the server closes. */
  #orClosed(ms: number, work?: Promise<void>): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer)
        this.#waiting.delete(wake)
        resolve()
      }
      const timer = setTimeout(wake, ms)
      this.#waiting.add(wake)
      void work?.then(wake)
    })
  }
}

const phones = 'ussd-'
const guests = 'ussd-guest-'

/** The conversation of who asks: one, which goes on from call to call. */
const sessionOf = ({ did, isGuest }: Owner): string => `${isGuest ? guests : phones}${did}`

/** Whether a conversation is held by somebody at a phone. */
export const isPhoneSession = (session: string): boolean => session.startsWith(phones)

/** Whether a conversation is held by somebody who has not logged in. */
export const isGuestSession = (session: string): boolean => session.startsWith(guests)

import { randomUUID } from 'node:crypto'
import type { Kysely } from 'kysely'
import { type Log, RuntimeError, type Turns } from '#core'
import { plain } from './plain.ts'
import type { Tables } from '../tables.ts'
import { Transcript } from './transcript.ts'

/** The state of the last question of an owner, with the answer if there is one. */
export type Answer =
  | { readonly status: 'none' | 'working' | 'consent' | 'lost' }
  | { readonly status: 'answered'; readonly text: string }

/** The person who asks: a customer, or a phone whose owner has not logged in. */
export interface Owner {
  readonly did: string
  readonly isGuest: boolean
}

/** What `Oracle` needs to ask the agent. */
export interface OracleOptions {
  readonly db: Kysely<Tables>
  readonly turns: Turns
  readonly log: Log
  /** How long a phone waits for an answer before its screen says that there is no answer yet. */
  readonly waitMs: number
}

type Question = Tables['ussd_questions']

/** How long a question may stay without an answer before the gateway gives up. */
const patienceMs = 5 * 60_000
const pollMs = 500
/** How long the gateway keeps an answer. */
const keptMs = 24 * 60 * 60_000

/**
 * Asks the agent for people at phones. A question continues after its phone session has ended, and its answer waits for
 * the next session of the owner; the gateway keeps the last question of each owner. A turn outlives the server that
 * started it: the server that the owner reaches next reads the turn from its first event.
 */
export class Oracle {
  readonly #db: Kysely<Tables>
  readonly #turns: Turns
  readonly #log: Log
  readonly #waitMs: number
  /** The turns that this server reads now, by their keys. */
  readonly #reading = new Map<string, Promise<void>>()
  /** The callbacks that end each wait for an answer, which `close` calls. */
  readonly #waiting = new Set<() => void>()
  #isClosing = false

  constructor({ db, turns, log, waitMs }: OracleOptions) {
    this.#waitMs = waitMs
    this.#db = db
    this.#turns = turns
    this.#log = log
  }

  /** Starts a turn for a question. `answer` reads its state later. */
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

  /** Waits up to `waitMs` for the answer to the last question, whichever server carries out its turn. */
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

  /** Stops reading turns. The turns continue on another server, or on this one after a restart. */
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

  /** Reads a turn to its end, unless this server reads the turn already. */
  #read(owner: Owner, question: Question): void {
    const { request_id: key } = question
    if (this.#reading.has(key) || this.#isClosing) return
    const reading = this.#answerTo(owner, question)
      .catch((error: unknown) =>
        this.#log.warn({ err: error }, 'could not read an answer; the next look tries again'),
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
        // Who asks anew does not want the last answer any more.
        whenBusy: 'interrupt',
        signal: AbortSignal.any([patience, giveUp.signal]),
      }))
        said.hear(event)
    } catch (error) {
      // UNAVAILABLE and unknown errors pass, so the next look tries again; any other refusal of the turn is final.
      if (!(error instanceof RuntimeError) || error.code === 'UNAVAILABLE') throw error
      this.#log.warn({ err: error }, 'the runtime refused the turn of a question')
      // Asking again would not help who has to pay or to wait, so the phone shows what the refusal says.
      if (error.status === 402 || error.status === 429)
        return this.#keep(request_id, 'answered', plain(error.message))
      return this.#keep(request_id, 'lost', '')
    }
    // Without an end event the turn continues on another server.
    if (said.end === undefined) return
    // A phone cannot show an approval, so a turn that waits for one is aborted.
    if (said.end === 'waiting') giveUp.abort()
    const answer = plain(said.text)
    if (said.end === 'waiting') await this.#keep(request_id, 'consent', '')
    else if (said.end === 'finished' && answer !== '')
      await this.#keep(request_id, 'answered', answer)
    // A failed turn may have left half an answer, which the phone does not show.
    else await this.#keep(request_id, 'lost', '')
  }

  async #keep(requestId: string, outcome: Question['outcome'], answer: string): Promise<void> {
    await this.#db
      .updateTable('ussd_questions')
      .set({ outcome, answer, question: '', answered_at: Date.now() })
      .where('request_id', '=', requestId)
      .execute()
  }

  /** Waits for the given time, for the work, or for the close of the server, whichever comes first. */
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

/** The session of an owner's conversation, which continues from call to call. */
const sessionOf = ({ did, isGuest }: Owner): string => `${isGuest ? guests : phones}${did}`

/** Whether a session is a conversation over a phone. */
export const isPhoneSession = (session: string): boolean => session.startsWith(phones)

/** Whether a session is a conversation with a phone whose owner has not logged in. */
export const isGuestSession = (session: string): boolean => session.startsWith(guests)

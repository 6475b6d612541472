import { setTimeout as sleep } from 'node:timers/promises'
import type { Kysely } from 'kysely'
import type { Log, Turns } from '#core'
import type { Tables } from './tables.ts'

/** How a question stands. */
export type Answer =
  | { readonly status: 'none' }
  | { readonly status: 'working' }
  | { readonly status: 'answered'; readonly text: string }
  | { readonly status: 'lost' }

/** Who asks: a customer, or a phone whose owner has not logged in. */
export interface Owner {
  readonly did: string
  readonly isGuest: boolean
}

/** After this long without an answer a question is given up, also when the server that asked has gone. */
const patienceMs = 5 * 60_000
const waitMs = 50_000
const pollMs = 500
/** How long an answer waits to be read. */
const keptMs = 24 * 60 * 60_000
/** Some sixty screens: nobody pages further, and a row stays small. */
const mostCharacters = 10_000

/**
 * Asks the agent for people at phones. A question goes on when the phone session ends, and its
 * answer waits for the next one: the last of each owner is kept.
 */
export class Oracle {
  readonly #db: Kysely<Tables>
  readonly #turns: Turns
  readonly #log: Log
  readonly #open = new Map<string, Promise<void>>()
  readonly #closing = new AbortController()

  constructor(db: Kysely<Tables>, turns: Turns, log: Log) {
    this.#db = db
    this.#turns = turns
    this.#log = log
  }

  /** Starts a turn. The answer is looked for with `answer`. */
  async ask(owner: Owner, question: string): Promise<void> {
    const askedAt = Date.now()
    const asked = { owner: owner.did, answer: '', asked_at: askedAt, answered_at: 0 }
    const { owner: _, ...again } = asked
    await this.#db
      .deleteFrom('ussd_questions')
      .where('asked_at', '<', askedAt - keptMs)
      .execute()
    await this.#db
      .insertInto('ussd_questions')
      .values(asked)
      .onConflict((conflict) => conflict.column('owner').doUpdateSet(again))
      .execute()
    const work = this.#run(owner, question, askedAt)
      .catch((error: unknown) => this.#log.error({ err: error }, 'an answer could not be kept'))
      .finally(() => {
        if (this.#open.get(owner.did) === work) this.#open.delete(owner.did)
      })
    this.#open.set(owner.did, work)
  }

  /** Waits for the answer to the last question, on its way here or to another replica. */
  async settled(owner: string): Promise<Answer> {
    await this.#open.get(owner)
    for (const until = Date.now() + waitMs; ; await sleep(pollMs)) {
      const answer = await this.answer(owner)
      if (answer.status !== 'working' || Date.now() > until) return answer
    }
  }

  async answer(owner: string): Promise<Answer> {
    const row = await this.#db
      .selectFrom('ussd_questions')
      .selectAll()
      .where('owner', '=', owner)
      .executeTakeFirst()
    const now = Date.now()
    if (row === undefined || row.asked_at < now - keptMs) return { status: 'none' }
    if (row.answered_at === 0)
      return { status: row.asked_at < now - patienceMs ? 'lost' : 'working' }
    return row.answer === '' ? { status: 'lost' } : { status: 'answered', text: row.answer }
  }

  close(): void {
    this.#closing.abort()
  }

  async #run(owner: Owner, question: string, askedAt: number): Promise<void> {
    const patience = AbortSignal.timeout(patienceMs)
    const signal = AbortSignal.any([this.#closing.signal, patience])
    let text = ''
    try {
      for await (const { event, data } of this.#turns.start({
        user: { did: owner.did },
        session: sessionOf(owner),
        message: question,
        signal,
      })) {
        if (event === 'message' && typeof data.content === 'string' && text.length < mostCharacters)
          text += data.content
        // Half an answer is worth less on a small screen than a plain word that it failed.
        if (event === 'error') text = ''
      }
    } catch (error) {
      this.#log.warn({ err: error }, 'a question was not answered')
      text = ''
    }
    if (this.#closing.signal.aborted) return
    await this.#db
      .updateTable('ussd_questions')
      .set({ answer: plain(text), answered_at: Date.now() })
      .where('owner', '=', owner.did)
      .where('asked_at', '=', askedAt)
      .execute()
  }
}

const guests = 'ussd-guest-'

/** The conversation of who asks: one, which goes on from call to call. */
const sessionOf = ({ did, isGuest }: Owner): string => `${isGuest ? guests : 'ussd-'}${did}`

/** Whether a conversation is held by somebody who has not logged in. */
export const isGuestSession = (session: string): boolean => session.startsWith(guests)

/** Text for a screen without letters of its own: no markup, one paragraph. */
function plain(text: string): string {
  return text
    .slice(0, mostCharacters)
    .replace(/[*_`#>]+/g, '')
    .replace(/[’‘]/g, "'")
    .replace(/[“”]/g, '"')
    .replace(/[–—]/g, '-')
    .replace(/…/g, '...')
    .replace(/\s+/g, ' ')
    .trim()
    .toWellFormed()
}

import { RuntimeError } from '../../../errors.ts'
import type { Audience } from './audience.ts'
import type { RunRow, RunStore } from '../journal/store.ts'

/** The result or the error that a client sends for a call of one of its own tools. */
export interface ClientAnswer {
  readonly result?: unknown
  readonly error?: string
}

/** An answer as a client sends it: with the user's DID, and for one run or for any open run of a session. */
export interface IncomingAnswer extends ClientAnswer {
  readonly did: string
  readonly toolCallId: string
  readonly runId?: string
  readonly sessionId?: string
}

/** A run that asks a client. A run that was taken over has asked before, so its client gets time to connect again. */
export interface AskingRun {
  readonly runId: string
  readonly sessionId: string
  readonly takenOver: boolean
  readonly signal: AbortSignal
}

/** The pauses between tries to hand in an answer whose question is still on its way to the database. */
const pausesMs = [0, 25, 50, 100, 200, 400]

const keyOf = (runId: string, toolCallId: string) => `${runId} ${toolCallId}`

/**
 * Questions to the clients' own tools. Question and answer go through the database, so that the answer may come
 * to another server, and is there when the server that asked has died.
 */
export class ClientAnswers {
  readonly #store: RunStore
  readonly #tellOthers: (sessionId: string, runId: string) => void
  readonly #audience: Audience
  readonly #waiting = new Map<string, (answer: ClientAnswer) => void>()

  /** `tellOthers` says to the other replicas that an answer came for a run. */
  constructor(
    store: RunStore,
    tellOthers: (sessionId: string, runId: string) => void,
    audience: Audience,
  ) {
    this.#store = store
    this.#tellOthers = tellOthers
    this.#audience = audience
  }

  /**
   * Resolves to the client's answer; rejects when no client is there, when none answers in time, or
   * when the run is stopped. `tell` tells the clients of the question once the question is in the database: a socket that
   * opens at that moment, at any server, is told by `tell` or reads the question from the database.
   */
  async ask(
    { runId, sessionId, takenOver, signal }: AskingRun,
    toolCallId: string,
    timeoutMs: number,
    tell?: () => void,
  ): Promise<ClientAnswer> {
    const key = keyOf(runId, toolCallId)
    const answered = Promise.withResolvers<ClientAnswer>()
    // The promise may reject before this function waits for the promise; without this handler Node would report the rejection.
    answered.promise.catch(() => {})
    this.#waiting.set(key, answered.resolve)
    const late = () =>
      answered.reject(
        new RuntimeError(
          'CLIENT_TIMEOUT',
          `The client did not answer within ${timeoutMs / 1000} seconds.`,
          { hint: 'The page may be closed. Go on without the answer, or ask the user.' },
        ),
      )
    const stop = () => answered.reject(signal.reason)
    const timer = setTimeout(late, timeoutMs)
    signal.addEventListener('abort', stop, { once: true })
    if (signal.aborted) stop()
    if (!takenOver)
      void this.#audience.isThere(runId, sessionId).then((isThere) => {
        if (!isThere) answered.reject(absent())
      })
    let answer: ClientAnswer | undefined
    try {
      const known = await this.#question(runId, toolCallId)
      if (known) answered.resolve(known)
      else tell?.()
      answer = await answered.promise
      return answer
    } finally {
      clearTimeout(timer)
      signal.removeEventListener('abort', stop)
      this.#waiting.delete(key)
      // No run waits any more: a client that answers later must hear that its answer was not taken.
      if (!answer && !signal.aborted) await this.#withdraw(runId, toolCallId)
    }
  }

  /** Hands in an answer. False when nobody asked, or somebody answered before. */
  async answer({ result, error, ...about }: IncomingAnswer): Promise<boolean> {
    for (const pauseMs of pausesMs) {
      if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs))
      const taken = await this.#accept(about, JSON.stringify({ result, error }))
      if (taken === undefined) return false
      if (taken === 'not asked yet') continue
      const { id: runId, session_id: sessionId } = taken
      const waiting = this.#waiting.get(keyOf(runId, about.toolCallId))
      if (waiting) waiting({ result, error })
      else this.#tellOthers(sessionId, runId)
      return true
    }
    return false
  }

  /** Called when another server took an answer for a run that this process may carry. */
  async arrived(runId: string): Promise<void> {
    for (const [key, resolve] of this.#waiting) {
      if (!key.startsWith(`${runId} `)) continue
      const answer = await this.#answerTo(runId, key.slice(runId.length + 1))
      if (answer) resolve(answer)
    }
  }

  /** Looks for answers whose notification may have been lost. */
  async look(): Promise<void> {
    const runs = new Set([...this.#waiting.keys()].map((key) => key.slice(0, key.indexOf(' '))))
    for (const runId of runs) await this.arrived(runId)
  }

  async #question(runId: string, toolCallId: string): Promise<ClientAnswer | undefined> {
    const { numInsertedOrUpdatedRows } = await this.#store.commits.single((db) =>
      db
        .insertInto('kernel_client_answers')
        .values({ run_id: runId, tool_call_id: toolCallId, answer: null })
        .onConflict((conflict) => conflict.doNothing())
        .executeTakeFirst(),
    )
    return numInsertedOrUpdatedRows ? undefined : this.#answerTo(runId, toolCallId)
  }

  async #answerTo(runId: string, toolCallId: string): Promise<ClientAnswer | undefined> {
    const row = await this.#store.db
      .selectFrom('kernel_client_answers')
      .select('answer')
      .where('run_id', '=', runId)
      .where('tool_call_id', '=', toolCallId)
      .executeTakeFirst()
    return row?.answer ? JSON.parse(row.answer) : undefined
  }

  /** The run that takes the answer; undefined when none can. */
  async #accept(
    { did, toolCallId, runId, sessionId }: Omit<IncomingAnswer, keyof ClientAnswer>,
    answer: string,
  ): Promise<Pick<RunRow, 'id' | 'session_id'> | 'not asked yet' | undefined> {
    let runs = this.#store.db
      .selectFrom('kernel_runs')
      .select(['id', 'session_id'])
      .where('did', '=', did)
      .where('status', '=', 'running')
    if (runId !== undefined) runs = runs.where('id', '=', runId)
    if (sessionId !== undefined) runs = runs.where('session_id', '=', sessionId)
    const rows = await runs.execute()
    const open = rows.map(({ id }) => id)
    if (open.length === 0) return undefined
    const taken = await this.#store.commits.single((db) =>
      db
        .updateTable('kernel_client_answers')
        .set({ answer })
        .where('run_id', 'in', open)
        .where('tool_call_id', '=', toolCallId)
        .where('answer', 'is', null)
        .returning('run_id')
        .execute(),
    )
    const [first] = taken
    if (first) return rows.find(({ id }) => id === first.run_id)
    const asked = await this.#store.db
      .selectFrom('kernel_client_answers')
      .select('answer')
      .where('run_id', 'in', open)
      .where('tool_call_id', '=', toolCallId)
      .executeTakeFirst()
    // The question may have been asked between the two statements.
    return asked && asked.answer !== null ? undefined : 'not asked yet'
  }

  async #withdraw(runId: string, toolCallId: string): Promise<void> {
    await this.#store.commits.single((db) =>
      db
        .deleteFrom('kernel_client_answers')
        .where('run_id', '=', runId)
        .where('tool_call_id', '=', toolCallId)
        .where('answer', 'is', null)
        .execute(),
    )
  }
}

const absent = () =>
  new RuntimeError('CLIENT_ABSENT', 'No page of the user is connected that could do this.', {
    hint: 'Go on without it, or tell the user that their page has to be open for it.',
  })

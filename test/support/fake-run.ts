import type { User } from '#core'
import {
  RunLost,
  type Decision,
  type EffectState,
  type JournalEntry,
  type RunEnd,
  type Run,
  type TurnRequest,
} from '../../core/runtime/turns/run.ts'
import type { Message } from '../../core/plugin.ts'

/** An event of a run as its listeners got it. */
export interface Heard {
  readonly event: string
  readonly data: any // any: a test asserts on it right away
}

interface StoredRun {
  readonly runId: string
  readonly request: TurnRequest
  readonly entries: JournalEntry[]
  readonly continues?: string
  readonly decision?: Decision
}

/**
 * A fake of the run store, in memory: sessions, their runs, journals and marks. It keeps what a database
 * would keep, so a run can be taken over by an engine of "another process" that knows nothing else.
 */
export class FakeRuns {
  readonly effects = new Map<string, EffectState>()
  readonly #sessions = new Map<string, { runs: StoredRun[]; checkpoint?: string }>()
  #count = 0

  /** A run of a session; `request` may be the user's words alone. */
  begin(request: string | TurnRequest, options: FakeRunOptions = {}): FakeRun {
    const { session = 'session-1' } = options
    const known = this.#session(session)
    const previous = known.runs.at(-1)
    const stored: StoredRun = {
      runId: `run-${++this.#count}`,
      request: typeof request === 'string' ? { message: request } : request,
      entries: [],
    }
    known.runs.push(stored)
    return this.#handle(session, stored, previous, false, options)
  }

  /** The same run as a process finds it that takes it over. */
  takeOver(run: FakeRun, options: FakeRunOptions = {}): FakeRun {
    run.lose()
    const { runs } = this.#session(run.sessionId)
    const index = runs.findIndex(({ runId }) => runId === run.runId)
    return this.#handle(run.sessionId, runs[index]!, runs[index - 1], true, options)
  }

  /** A run that continues one which waits. */
  resume(run: FakeRun, decision: Decision, options: FakeRunOptions = {}): FakeRun {
    const { runs } = this.#session(run.sessionId)
    const stored: StoredRun = {
      runId: `run-${++this.#count}`,
      request: run.request,
      entries: [],
      continues: run.runId,
      decision,
    }
    runs.push(stored)
    return this.#handle(run.sessionId, stored, runs.at(-2), false, options)
  }

  /** Every message of a session, as a transcript reads them. */
  transcript(session = 'session-1'): Message[] {
    return this.#session(session).runs.flatMap(messagesOf)
  }

  entries(session = 'session-1'): JournalEntry[] {
    return this.#session(session).runs.flatMap(({ entries }) => entries)
  }

  /** Where the session goes on. */
  head(session = 'session-1'): string | undefined {
    return this.#session(session).checkpoint
  }

  setHead(session: string, checkpoint: string | undefined): void {
    this.#session(session).checkpoint = checkpoint
  }

  #session(id: string) {
    let session = this.#sessions.get(id)
    if (!session) this.#sessions.set(id, (session = { runs: [] }))
    return session
  }

  #handle(
    session: string,
    stored: StoredRun,
    previous: StoredRun | undefined,
    takenOver: boolean,
    options: FakeRunOptions,
  ): FakeRun {
    const known = this.#session(session)
    const chain = (run: StoredRun): StoredRun[] => {
      const before = known.runs.find(({ runId }) => runId === run.continues)
      return before ? [...chain(before), run] : [run]
    }
    const own = chain(stored)
    return new FakeRun(
      {
        runId: stored.runId,
        requestId: `request-${stored.runId}`,
        sessionId: session,
        user: options.user ?? anybody(options.did ?? 'did:key:z6MkAmina'),
        room: options.room ?? `room of ${session}`,
        request: stored.request,
        previous: previous?.runId,
        checkpoint: known.checkpoint,
        takenOver,
        continues:
          stored.continues === undefined
            ? undefined
            : { runId: stored.continues, decision: stored.decision! },
        effects: {
          begin: async (toolCallId) => {
            const key = `${own[0]!.runId} ${toolCallId}`
            const state = this.effects.get(key)
            // Begun and never finished, and asked about again: the process that began it is gone.
            if (state) return state
            this.effects.set(key, { state: 'unknown' })
            return { state: 'new' }
          },
          finish: async (toolCallId, content, failed) => {
            this.effects.set(`${own[0]!.runId} ${toolCallId}`, { state: 'done', content, failed })
          },
        },
      },
      stored.entries,
      () => own.flatMap(({ entries }) => entries),
      () => known.runs.slice(0, known.runs.indexOf(own[0]!)).flatMap(messagesOf),
      (end) => {
        if (end.checkpoint) known.checkpoint = end.checkpoint
      },
    )
  }
}

export interface FakeRunOptions {
  readonly session?: string
  readonly did?: string
  readonly user?: User
  readonly room?: string
}

const messagesOf = ({ runId, request, entries, continues }: StoredRun): Message[] => [
  ...(continues ? [] : [{ role: 'user', id: `user-${runId}`, content: request.message } as const]),
  ...entries.filter(({ within }) => within === undefined).flatMap(({ messages }) => messages),
]

/** One run as the engine is handed it, and what a test may do to it. */
export class FakeRun implements Run {
  readonly runId: string
  readonly requestId: string
  readonly sessionId: string
  readonly user: User
  readonly room: string
  readonly request: TurnRequest
  readonly previous: string | undefined
  readonly checkpoint: string | undefined
  readonly takenOver: boolean
  readonly continues: Run['continues']
  readonly signal: AbortSignal
  readonly journal: Run['journal']
  readonly effects: Run['effects']
  /** What listeners heard, in order. */
  readonly heard: Heard[] = []
  /** How often the earlier messages were read from the journal. */
  historyReads = 0
  /** Called before an entry is written, with how many were written before; what it throws, the write throws. */
  beforeAppend: (entry: JournalEntry, count: number) => void | Promise<void> = () => undefined
  readonly #stop = new AbortController()
  readonly #answers = new Map<string, PromiseWithResolvers<{ result?: unknown; error?: string }>>()
  readonly #settle: (end: RunEnd) => void
  #appended: Promise<void> = Promise.resolve()
  #count = 0

  constructor(
    given: Omit<Run, 'signal' | 'journal' | 'emit' | 'clientResult'>,
    own: JournalEntry[],
    past: () => JournalEntry[],
    history: () => Message[],
    settle: (end: RunEnd) => void,
  ) {
    this.runId = given.runId
    this.requestId = given.requestId
    this.sessionId = given.sessionId
    this.user = given.user
    this.room = given.room
    this.request = given.request
    this.previous = given.previous
    this.checkpoint = given.checkpoint
    this.takenOver = given.takenOver
    this.continues = given.continues
    this.signal = this.#stop.signal
    const { begin, finish } = given.effects
    const ours = () => {
      if (this.signal.reason instanceof RunLost) throw this.signal.reason
    }
    this.effects = {
      begin: async (...args) => (ours(), await begin(...args)),
      finish: async (...args) => (ours(), await finish(...args)),
    }
    this.#settle = settle
    this.journal = {
      read: async () => structuredClone(past()),
      history: async (characters) => {
        this.historyReads++
        return structuredClone(newest(history(), characters))
      },
      flush: async () => undefined,
      append: (entry) => {
        const append = async () => {
          ours()
          await this.beforeAppend(entry, this.#count++)
          ours()
          // As a database would give it back: plain data, and nothing that was shared.
          own.push(JSON.parse(JSON.stringify(entry)))
        }
        // One after the other, as they stand in a table, however long one of them takes.
        return (this.#appended = this.#appended.then(append))
      },
    }
  }

  emit(event: string, data: Readonly<Record<string, unknown>>): void {
    this.heard.push({ event, data: JSON.parse(JSON.stringify(data)) })
  }

  clientResult(toolCallId: string, timeoutMs: number) {
    const answer = Promise.withResolvers<{ result?: unknown; error?: string }>()
    this.#answers.set(toolCallId, answer)
    const late = () => answer.reject(new Error(`no answer within ${timeoutMs} ms`))
    const timer = setTimeout(late, timeoutMs)
    this.signal.addEventListener('abort', () => answer.reject(this.signal.reason), { once: true })
    return answer.promise.finally(() => clearTimeout(timer))
  }

  /** The client's answer to a call of its own tools. */
  answer(toolCallId: string, answer: { result?: unknown; error?: string }): void {
    this.#answers.get(toolCallId)!.resolve(answer)
  }

  /** A person presses Stop. */
  stop(): void {
    this.#stop.abort(new DOMException('stopped by the user', 'AbortError'))
  }

  /** The process lost the run. */
  lose(): void {
    this.#stop.abort(new RunLost('the run is another process’s now'))
  }

  /** What the run store does when the engine comes back: the end is written after all that came before it. */
  async settle(end: RunEnd, save: () => unknown): Promise<RunEnd> {
    await this.#appended
    await save()
    this.#settle(end)
    return end
  }

  /** The events of one name. */
  of(event: string): Heard['data'][] {
    return this.heard.filter((heard) => heard.event === event).map(({ data }) => data)
  }

  /** All that was said, as a client joins it. */
  get text(): string {
    return this.of('message')
      .map(({ content }) => content)
      .join('')
  }
}

function newest(messages: readonly Message[], characters: number): Message[] {
  let left = characters
  const from = messages.findLastIndex((message) => (left -= JSON.stringify(message).length) < 0)
  return messages.slice(from + 1)
}

/** A user who may do everything. */
export function anybody(did: string, grants?: readonly string[]): User {
  const can = (ability: string) => grants === undefined || grants.includes(ability)
  return {
    did,
    can,
    denial: (ability) => (can(ability) ? [] : [`The delegation lacks ${ability}.`]),
  }
}

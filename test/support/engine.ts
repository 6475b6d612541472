import { randomUUID } from 'node:crypto'
import type { AnyPlugin, User } from '#core'
import type { Message, Model } from '../../core/plugin.ts'
import { Agent } from '../../core/runtime/agent/agent.ts'
import { boot } from '../../core/runtime/app.ts'
import { models } from '../../plugins/models.ts'
import { kernelMigrations } from '../../core/runtime/kernel-tables.ts'
import { openDataDir } from '../../core/runtime/store/data-dir.ts'
import { RoomState } from '../../core/runtime/store/room-state.ts'
import { openStore, type Store } from '../../core/runtime/store/store.ts'
import { Runs } from '../../core/runtime/turns/carry/runs.ts'
import { toEntries } from '../../core/runtime/turns/journal/steps.ts'
import { withRunTables } from '../../core/runtime/turns/journal/tables.ts'
import {
  type Decision,
  type JournalEntry,
  type RunEnd,
  type Run,
  RunLost,
  type TurnRequest,
} from '../../core/runtime/turns/run.ts'
import { anybody } from './anybody.ts'
import { silent } from './silent-log.ts'
import { TestRun, type Carried, type Ended, type Outcome } from './test-run.ts'

/** What a test engine is made of. */
export interface EngineOptions {
  readonly plugins?: readonly AnyPlugin[]
  readonly model: Model | ((name?: string) => Model)
  /** A store that outlives the engine; without one, the engine has its own, in memory or in a folder. */
  readonly store?: Store
  readonly folder?: string
  readonly clientToolTimeoutMs?: number
}

/** Whose run it is, and what a test wants to do on its way. */
export interface BeginOptions {
  readonly session?: string
  readonly user?: User
  readonly room?: string
  /** Called when the engine is handed the run. */
  onStart?(carried: Carried): void
  /** Called before a step is written, with how many were written before. What this function throws, the write throws. */
  beforeStep?(carried: Carried, entry: JournalEntry, nth: number): void
  /** Called when a step is written, before the engine knows that. */
  afterStep?(carried: Carried, entry: JournalEntry, nth: number): unknown
}

/** A run under way: how a test reaches the run from within, and how the run came out of the engine. */
interface Watched {
  readonly options: BeginOptions
  readonly outcome: PromiseWithResolvers<Outcome>
  carried: Carried | undefined
  historyReads: number
}

type Words = string | TurnRequest
const usual = 'did:key:z6MkAmina'

/**
 * The engine on the run store that servers have, in memory, and without HTTP around them. A run may lose its process
 * at any step; another process, which knows only what stands in the store, then carries it on.
 */
export class TestEngine implements AsyncDisposable {
  readonly store: Store
  readonly log: readonly string[]
  readonly #start: (engine: TestEngine) => { readonly agent: Agent; readonly runs: Runs }
  readonly #close: () => Promise<void>
  /** Every process that there was; the last one carries the runs that begin now. */
  readonly #processes: { readonly agent: Agent; readonly runs: Runs }[] = []
  readonly #watched = new Map<string, Watched>()
  readonly #users = new Map<string, User>()
  readonly #rooms = new Map<string, string>()

  private constructor(
    store: Store,
    log: readonly string[],
    start: (engine: TestEngine) => { readonly agent: Agent; readonly runs: Runs },
    close: () => Promise<void>,
  ) {
    this.store = store
    this.log = log
    this.#start = start
    this.#close = close
    this.#processes.push(start(this))
  }

  static async open(options: EngineOptions): Promise<TestEngine> {
    const { plugins = [], model, clientToolTimeoutMs } = options
    const log: string[] = []
    const ofApp = {
      plugins,
      env: { DATA_DIR: ':memory:', LOG_LEVEL: 'debug', EVENT_LOOP_LIMIT_MS: '0' },
      fetch: () => Promise.reject(new TypeError('no network in tests')),
      log: (line: string) => void log.push(line),
    }
    const app = await boot(ofApp, { bundled: async () => models })
    const store = options.store ?? (await ownStore(options.folder))
    const start = (engine: TestEngine) => {
      const agent = new Agent({
        records: app.records,
        tools: app.tools,
        db: store.db,
        rooms: new RoomState({ db: store.db, log: app.log, oracleDid: 'did:key:oracle' }),
        log: app.log,
        name: 'Oracle',
        oracleDid: 'did:key:oracle',
        model: typeof model === 'function' ? model : () => model,
        clientToolTimeoutMs,
      })
      const runs = new Runs({
        store,
        log: app.log,
        engine: (handle) => engine.#carry(agent, handle),
        oracle: { name: 'Oracle', did: 'did:key:oracle' },
        leaseMs: 60_000,
        retentionHours: 72,
        roomOf: (_, session) => engine.#rooms.get(session) ?? `room of ${session}`,
        restoreUser: (did) => engine.#users.get(did) ?? anybody(did),
        onSessionDeleted: (session) => agent.forget(session),
      })
      return { agent, runs }
    }
    return new TestEngine(store, log, start, async () => {
      await app.close()
      if (!options.store) await store.close()
    })
  }

  get agent(): Agent {
    return this.#now.agent
  }

  get runs(): Runs {
    return this.#now.runs
  }

  get #now() {
    const now = this.#processes.at(-1)
    if (!now) throw new Error('An engine has at least one process.')
    return now
  }

  /** Begins a run of a session; the user's words may stand alone. */
  async begin(words: Words, options: BeginOptions = {}): Promise<TestRun> {
    const { session = 'session-1', user = anybody(usual), room } = options
    this.#users.set(user.did, user)
    if (room !== undefined) this.#rooms.set(session, room)
    await this.runs.sessions.ensure(user.did, { id: session })
    const requestId = randomUUID()
    const watched = this.#watch(requestId, options)
    const request = typeof words === 'string' ? { message: words } : words
    const { runId } = await this.runs.send({ user, sessionId: session, requestId, request })
    return this.#follow({ runId, requestId, sessionId: session, user }, watched)
  }

  /** One whole turn. */
  async turn(words: Words, options: BeginOptions | string = {}): Promise<Ended> {
    return ended(
      await this.begin(words, typeof options === 'string' ? { session: options } : options),
    )
  }

  /** Goes on with a run that waits for a person. */
  async resume(run: TestRun, decision: Decision, options: BeginOptions = {}): Promise<TestRun> {
    const watched = this.#watch(`resume ${run.runId}`, options)
    const { sessionId } = run
    const user = options.user ?? run.user
    const { runId, requestId } = await this.runs.resume(user, run.runId, decision)
    return this.#follow({ runId, requestId, sessionId, user }, watched)
  }

  /** What `resume` begins, to its end. */
  async decide(run: TestRun, decision: Decision, options: BeginOptions = {}): Promise<Ended> {
    return ended(await this.resume(run, decision, options))
  }

  /** A run that its process has lost, carried on by a process that knows nothing of it. */
  async takeOver(run: TestRun, options: BeginOptions = {}): Promise<TestRun> {
    this.#users.set(run.user.did, run.user)
    const watched = this.#watch(`take over ${run.runId}`, options)
    // As when the lease of a dead process has run out.
    const { last_seq: after } = await withRunTables(this.store.db)
      .updateTable('kernel_runs')
      .set({ owner: null, lease_until: 0 })
      .where('id', '=', run.runId)
      .returning('last_seq')
      .executeTakeFirstOrThrow()
    this.#processes.push(this.#start(this))
    await this.runs.open()
    const { runId, requestId, sessionId, user } = run
    return this.#follow({ runId, requestId, sessionId, user }, watched, after)
  }

  /** What `takeOver` carries on, to its end. */
  async carryOn(run: TestRun, options: BeginOptions = {}): Promise<Ended> {
    return ended(await this.takeOver(run, options))
  }

  /** Every message of a session. */
  async transcript(session = 'session-1'): Promise<Message[]> {
    const rows = await this.#steps(session)
    return rows.filter(({ kind }) => isSaid(kind)).map(({ body }) => JSON.parse(body))
  }

  /** The steps of a session's runs, as a process reads them that takes a run over. */
  async entries(session = 'session-1'): Promise<JournalEntry[]> {
    return toEntries(await this.#steps(session))
  }

  /** What the store knows of every write that began. */
  async effects() {
    const rows = await withRunTables(this.store.db)
      .selectFrom('kernel_effects')
      .selectAll()
      .execute()
    return rows.map(({ state, content, failed }) => ({
      state,
      content: content === null ? null : JSON.parse(content),
      failed: failed === 1,
    }))
  }

  /** Makes the store say of a run that the run waits for a person, which is not so. */
  async markWaiting(run: TestRun): Promise<void> {
    await withRunTables(this.store.db)
      .updateTable('kernel_runs')
      .set({ status: 'waiting' })
      .where('id', '=', run.runId)
      .execute()
  }

  /** Where a session goes on. */
  head(session = 'session-1'): Promise<string | undefined> {
    return this.runs.headOf(session)
  }

  /** Loads capabilities by hand, as the route for that does. */
  async load(names: readonly string[], session = 'session-1') {
    const { result, checkpoint } = await this.agent.load(
      { id: session, checkpoint: await this.head(session) },
      names,
      anybody(usual),
    )
    if (checkpoint) await this.runs.moveHead(session, checkpoint)
    return { result, checkpoint }
  }

  async close(): Promise<void> {
    for (const { runs } of this.#processes) await runs.close(0)
    await this.#close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  /** The engine of a process: the agent, with the hooks of the test around every step. */
  async #carry(agent: Agent, handle: Run): Promise<RunEnd> {
    const key = handle.takenOver
      ? `take over ${handle.runId}`
      : handle.continues
        ? `resume ${handle.continues.runId}`
        : handle.requestId
    const watched = this.#watched.get(key)
    if (!watched) throw new Error(`No test began "${key}".`)
    const { options, outcome } = watched
    const carried = (watched.carried = carriedOf(handle))
    const { history } = handle.journal
    Object.assign(handle.journal, {
      history: (characters: number) => {
        watched.historyReads++
        return history(characters)
      },
    })
    const steps = stepByStep(carried, options)
    try {
      options.onStart?.(carried)
      const end = await agent.engine(handle)
      await steps()
      if (handle.signal.reason instanceof RunLost) throw handle.signal.reason
      const { save: _, inserts: __, ...rest } = end
      outcome.resolve(rest)
      return end
    } catch (error) {
      outcome.resolve({ status: 'lost' })
      throw error
    }
  }

  #watch(key: string, options: BeginOptions): Watched {
    const watched: Watched = {
      options,
      outcome: Promise.withResolvers(),
      carried: undefined,
      historyReads: 0,
    }
    this.#watched.set(key, watched)
    return watched
  }

  async #follow(
    facts: Pick<TestRun, 'runId' | 'requestId' | 'sessionId' | 'user'>,
    watched: Watched,
    after = 0,
  ): Promise<TestRun> {
    const { runs } = this
    return new TestRun(facts, {
      events: await runs.subscribe(facts.runId, after, true),
      outcome: watched.outcome.promise,
      historyReads: () => watched.historyReads,
      carried: () => watched.carried,
      stop: () => runs.abort(facts.user.did, facts.sessionId, facts.requestId),
      answer: (toolCallId, answer) =>
        runs.clientResult({ did: facts.user.did, runId: facts.runId, toolCallId, ...answer }),
    })
  }

  #steps(session: string) {
    return withRunTables(this.store.db)
      .selectFrom('kernel_steps')
      .selectAll()
      .where('session_id', '=', session)
      .orderBy('position')
      .execute()
  }
}

const isSaid = (kind: string) => kind === 'user' || kind === 'assistant' || kind === 'tool'

const ended = async (run: TestRun): Promise<Ended> => Object.assign(run, { end: await run.ended })

/** What a test may do to a run in the process that carries it. A handle is the live run itself. */
function carriedOf(handle: Run): Carried {
  const live = handle as Run & {
    readonly feed: { lose(why: string): void }
    stop(why: 'aborted'): void
  }
  return {
    handle,
    die: () => live.feed.lose('its process died'),
    stop: () => live.stop('aborted'),
  }
}

/**
 * Lets a test look at every step: each is written at once, and alone, where a server writes some together. Resolves
 * when the last one is written.
 */
function stepByStep(carried: Carried, { beforeStep, afterStep }: BeginOptions) {
  let written: Promise<void> = Promise.resolve()
  if (!beforeStep && !afterStep) return () => written
  const { journal } = carried.handle
  const { append } = journal
  let steps = 0
  const write = async (entry: JournalEntry) => {
    const nth = steps++
    beforeStep?.(carried, entry, nth)
    await append(entry, 'now')
    await afterStep?.(carried, entry, nth)
  }
  Object.assign(journal, {
    append: (entry: JournalEntry) => (written = written.then(() => write(entry))),
    flush: () => written,
  })
  return () => written
}

/** An engine on the real run store. */
export const testEngine = (options: EngineOptions): Promise<TestEngine> => TestEngine.open(options)

/** A store in memory, with the kernel's tables. */
export const memoryStore = (): Promise<Store> => ownStore()

/** A store in memory, or in a folder, which a second process can open after the first. */
async function ownStore(folder?: string): Promise<Store> {
  const dataDir = folder === undefined ? undefined : await openDataDir(folder)
  return await withTables(await openStore({ dataDir, log: silent }))
}

/** The kernel's tables, where there is no app that makes them. */
export async function withTables(store: Store): Promise<Store> {
  for (const [owner, migrations] of Object.entries(kernelMigrations))
    await store.migrate(owner, migrations)
  return store
}

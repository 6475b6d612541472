import type { AnyPlugin } from '#core'
import type { Model } from '../../core/plugin.ts'
import { Agent } from '../../core/runtime/agent/agent.ts'
import { boot } from '../../core/runtime/app.ts'
import { checkpointMigrations } from '../../core/runtime/agent/state/checkpoint-tables.ts'
import { openDataDir } from '../../core/runtime/store/data-dir.ts'
import { createRoomState, roomStateMigration } from '../../core/runtime/store/room-state.ts'
import type { RunEnd } from '../../core/runtime/turns/run.ts'
import { openStore, type Store } from '../../core/runtime/store/store.ts'
import { FakeRuns, type FakeRun } from './fake-run.ts'

export interface EngineOptions {
  readonly plugins?: readonly AnyPlugin[]
  readonly model: Model | ((name?: string) => Model)
  readonly store?: Store
  readonly runs?: FakeRuns
  readonly clientToolTimeoutMs?: number
}

/** The engine with everything real around it but the run store, which is a fake in memory. */
export interface TestEngine extends AsyncDisposable {
  readonly agent: Agent
  readonly runs: FakeRuns
  readonly store: Store
  readonly log: readonly string[]
  /** Carries out a run and settles it, as the run store does. */
  carryOut(run: FakeRun): Promise<RunEnd>
  /** One whole turn of a session. */
  turn(message: string, session?: string): Promise<FakeRun & { readonly end: RunEnd }>
}

export async function testEngine(options: EngineOptions): Promise<TestEngine> {
  const { plugins = [], model, runs = new FakeRuns(), clientToolTimeoutMs } = options
  const log: string[] = []
  const app = await boot({
    plugins,
    env: { DATA_DIR: ':memory:', LOG_LEVEL: 'debug' },
    fetch: () => Promise.reject(new TypeError('no network in tests')),
    log: (line) => void log.push(line),
  })
  const store = options.store ?? (await memoryStore())
  const agent = new Agent({
    records: app.records,
    tools: app.tools,
    db: store.db,
    rooms: createRoomState({ db: store.db, log: app.log }),
    log: app.log,
    name: 'Oracle',
    oracleDid: 'did:key:oracle',
    model: typeof model === 'function' ? model : () => model,
    clientToolTimeoutMs,
  })
  const carryOut = async (run: FakeRun) => {
    const { save, ...end } = await agent.engine(run)
    return await run.settle(end, () => save && store.db.transaction().execute(save))
  }
  return {
    agent,
    runs,
    store,
    log,
    carryOut,
    async turn(message, session) {
      const run = runs.begin(message, { session })
      return Object.assign(run, { end: await carryOut(run) })
    },
    async [Symbol.asyncDispose]() {
      await app.close()
      if (!options.store) await store.close()
    },
  }
}

const quiet = { debug() {}, info() {}, warn() {}, error() {} }

export async function memoryStore(): Promise<Store> {
  return await withTables(await openStore({ log: quiet }))
}

/** A store in a folder, which a second process can open after the first. */
export async function fileStore(folder: string): Promise<Store> {
  return await withTables(await openStore({ dataDir: await openDataDir(folder), log: quiet }))
}

export async function withTables(store: Store): Promise<Store> {
  await store.migrate('kernel', { ...checkpointMigrations, '002-room-state': roomStateMigration })
  return store
}

import type { Logger } from 'pino'
import { RuntimeError } from '../errors.ts'
import type { EnvSource } from '../manifest/env.ts'
import type { Features } from '../manifest/features.ts'
import { kernelEnv, type KernelEnv } from '../manifest/kernel-env.ts'
import { secretValues } from '../manifest/select.ts'
import type { AnyPlugin, Fetch, Model, RouteContext } from '../plugin.ts'
import { openDataDir, type DataDir, type Lock } from './data-dir.ts'
import { readEnvironment, withGenerated } from './environment.ts'
import { createHttp, type Http, type ServedRoute } from './http.ts'
import { kernelRoutes } from './kernel-routes.ts'
import { createLog } from './log.ts'
import { checkToolNames, planBoot, type Plan } from './plan.ts'
import { isActive, stateLine, type PluginRecord } from './plugin-record.ts'
import { reportOf, type BootReport } from './report.ts'
import { checkRoutes } from './routes.ts'
import { Setups } from './setup.ts'
import { openStore, type Store } from './store.ts'
import { Tools } from './tools.ts'
import { runtimeVersion } from './version.ts'

export interface AppOptions {
  readonly plugins: readonly AnyPlugin[]
  /** By plugin name: false never loads it, true loads it or stops the boot. FEATURES overrides this. */
  readonly features?: Features
  /** A model of your own; otherwise the variable MODEL chooses. */
  readonly model?: Model
  /** The whole environment; by default the process's, over a `.env` file. */
  readonly env?: EnvSource
  /** What plugins reach the network through. */
  readonly fetch?: Fetch
  /** Takes the log's lines instead of standard output. */
  readonly log?: (line: string) => void
}

export interface App {
  /** Starts answering. By default on HOST and PORT; port 0 takes a free one. */
  listen(address?: {
    readonly port?: number
    readonly host?: string
  }): Promise<{ readonly url: string; readonly port: number }>
  /** Ends streams, waits for requests in flight, closes plugins in reverse order, then the database. */
  close(): Promise<void>
  readonly report: BootReport
}

/** A promise of the app that can be told to listen, or to close, at once. */
export type StartingApp = Promise<App> & Pick<App, 'listen' | 'close'>

/**
 * Boots the plugins and returns the app, not yet listening. Every fault of the boot is collected, logged
 * and thrown as one `BOOT_FAILED`.
 */
export function createApp(options: AppOptions): StartingApp {
  const booting = boot(options)
  return Object.assign(booting, {
    listen: async (address?: { port?: number; host?: string }) => (await booting).listen(address),
    close: async () => (await booting).close(),
  })
}

/** Kept out of memory's way: nothing is written, everything is gone when the process ends. */
const inMemory = ':memory:'

/** What `createApp` does; core/testing reaches further into the result than authors do. */
export async function boot(options: AppOptions): Promise<RunningApp> {
  const startedAt = performance.now()
  const given = options.env ?? (await readEnvironment())
  const production = given.NODE_ENV === 'production'
  const path = given.DATA_DIR || '.data'
  const needsFolder = path !== inMemory && !(production && given.DATABASE_URL)
  const dataDir = needsFolder ? await openDataDir(path) : undefined
  const shapes = [kernelEnv, ...options.plugins.map((plugin) => plugin?.definition?.env ?? {})]
  const source = production ? given : await withGenerated(given, shapes, dataDir)

  const plan = planBoot(options.plugins, options.features ?? {}, source)
  const log = createLog({
    level: plan.config.LOG_LEVEL ?? 'info',
    pretty: !production,
    secrets: secretValues(shapes, source),
    write: options.log,
  })
  log.info(`oracle-runtime ${runtimeVersion} on node ${process.versions.node}`)
  for (const sentence of plan.suspects) log.warn(sentence)
  stopOn(plan.faults, log)

  const app = new RunningApp({ options, plan, source, log, dataDir, startedAt })
  try {
    await app.start()
  } catch (error) {
    await app.close()
    throw error
  }
  return app
}

interface Parts {
  readonly options: AppOptions
  readonly plan: Plan
  readonly source: EnvSource
  readonly log: Logger
  readonly dataDir: DataDir | undefined
  readonly startedAt: number
}

/** An app in the making, then running: each part it owns is closed in the reverse order of its making. */
export class RunningApp implements App {
  readonly config: KernelEnv
  readonly records: readonly PluginRecord[]
  readonly log: Logger
  readonly #parts: Parts
  #lock?: Lock
  #store?: Store
  #setups?: Setups
  #tools?: Tools
  #http?: Http
  #closing?: Promise<void>

  constructor(parts: Parts) {
    this.#parts = parts
    this.config = parts.plan.config
    this.records = parts.plan.records
    this.log = parts.log
  }

  get report(): BootReport {
    return reportOf(this.records, this.#parts.source)
  }

  get tools(): Tools {
    return this.#tools!
  }

  async start(): Promise<void> {
    const { plan, options, dataDir, log } = this.#parts
    const active = this.records.filter(isActive)
    if (dataDir && !this.config.DATABASE_URL) this.#lock = await dataDir.lock({ pid: process.pid })
    this.#store = await openStore({ databaseUrl: this.config.DATABASE_URL, dataDir, log })
    for (const { name, definition } of active)
      if (definition.migrations) await this.#store.migrate(name, definition.migrations)

    this.#setups = new Setups({
      log,
      db: this.#store.db,
      fetch: options.fetch ?? globalThis.fetch,
      turns: notYet,
      envOf: plan.envOf,
      onLate: (record) => this.#joinLate(record),
    })
    const setupFaults = await this.#setups.run(active)
    const served = this.#servedRoutes()
    stopOn([...setupFaults, ...checkToolNames(active), ...checkRoutes(served)], log)

    this.#tools = new Tools(active)
    this.#http = createHttp({ log, routes: served, web: this.#webMounts() })
    for (const record of this.records) log.info(stateLine(record))
  }
}

function stopOn(faults: readonly RuntimeError[], log: Logger) {
  if (faults.length === 0) return
  const lines = faults.map(
    ({ code, message, hint }) => `${message}${hint ? ` ${hint}` : ''} (${code})`,
  )
  for (const [i, line] of lines.entries()) log.error({ fault: faults[i]!.code }, line)
  const count = faults.length === 1 ? 'a fault' : `${faults.length} faults`
  throw new RuntimeError(
    'BOOT_FAILED',
    `The boot found ${count}:\n${lines.map((line) => `  - ${line}`).join('\n')}`,
    {
      details: {
        faults: faults.map(({ code, message, hint, details }) => ({
          code,
          message,
          hint,
          details,
        })),
      },
    },
  )
}

import type { Logger } from 'pino'
import { RuntimeError } from '../../errors.ts'
import { checkTools } from '../../manifest/manifest.ts'
import { requirementsOf } from '../../manifest/load-order.ts'
import type { Boot, Booted, Database, Fetch, Oracle, Turns } from '../../plugin.ts'
import { settledState, type PluginRecord } from '../base/plugin-record.ts'

/** How long boot waits for one setup before the server starts answering without it. */
const graceMs = 1000

/** What setups are given, beside what each plugin has of its own. */
export interface SetupOptions {
  readonly log: Logger
  readonly db: Database
  readonly fetch: Fetch
  readonly oracle: Oracle
  readonly holdsCredential: Boot['holdsCredential']
  /** The parsed environment slice of each active plugin. */
  readonly envOf: ReadonlyMap<string, Record<string, unknown>>
}

/** What there is for plugins once the tools and the routes of all of them are known. */
export interface AfterSetup {
  readonly turns: Turns
  /** A plugin whose setup finished after boot went on: its tools and routes can join now. */
  joinLate(record: PluginRecord): void
}

/** Owns what setups hand over: close callbacks, health checks, and the work that is still pending. */
export class Setups {
  readonly #options: SetupOptions
  readonly #closers: { readonly plugin: string; readonly close: () => unknown }[] = []
  readonly #checks: { readonly record: PluginRecord; readonly check: () => unknown }[] = []
  readonly #watches = new Set<NodeJS.Timeout>()
  readonly #finished = new Map<string, Promise<void>>()
  /** Plugins whose setup the server did not wait for. */
  readonly #late = new Set<PluginRecord>()
  readonly #turns: Turns = {
    start: (turn) => {
      if (this.#after) return this.#after.turns.start(turn)
      throw new RuntimeError('UNAVAILABLE', 'Turns begin once every plugin is set up.')
    },
  }
  /** Set when the boot no longer waits for setups. Until then a plugin that is done is taken along. */
  #after: AfterSetup | undefined
  #closed = false

  constructor(options: SetupOptions) {
    this.#options = options
  }

  /** Runs every setup in load order. Faults come back together; a setup that takes long goes on behind. */
  async run(records: readonly PluginRecord[]): Promise<RuntimeError[]> {
    const faults: RuntimeError[] = []
    for (const record of records) {
      const work = this.#setUp(record, records)
      this.#finished.set(record.name, work)
      const outcome = await withinGrace(work)
      if (outcome === 'done') continue
      if (outcome === 'late') this.#goOnBehind(record, work)
      else if (lacksVariable(outcome.thrown) && !record.isForced)
        enter(record, 'excluded', sentenceOf(outcome.thrown))
      else faults.push(asFault(record, outcome.thrown))
    }
    return faults
  }

  /** From now on turns may begin, and plugins that are still being set up join one by one. */
  goOn(after: AfterSetup): void {
    this.#after = after
  }

  async #setUp(record: PluginRecord, records: readonly PluginRecord[]): Promise<void> {
    const { definition, name } = record
    const required = requirementsOf({ name, definition }).map((plugin) => plugin!.name)
    await Promise.all(required.map((peer) => this.#finished.get(peer)))
    const peers: Record<string, unknown> = {}
    for (const peer of required)
      peers[peer] = records.find((other) => other.name === peer)!.base!.self

    const { log, db, fetch, envOf } = this.#options
    const { oracle, holdsCredential } = this.#options
    const known = { turns: this.#turns, oracle, holdsCredential }
    const shared = {
      env: envOf.get(name) ?? {},
      log: log.child({ plugin: name }),
      db,
      fetch,
      plugins: peers,
    }
    const pendings: Promise<void>[] = []
    const boot: Boot = {
      ...shared,
      ...known,
      pending: (promise, what) => void pendings.push(this.#watch(record, promise, what)),
      onClose: (close) => void this.#closers.push({ plugin: name, close }),
      health: (check) => void this.#checks.push({ record, check }),
    }
    const self = await definition.setup?.(boot)
    const booted: Booted = { ...shared, ...known, self }
    if (typeof definition.tools === 'function') record.tools = definition.tools(booted)
    if (typeof definition.routes === 'function') record.routes = definition.routes(booted)
    if (typeof definition.web === 'function') record.web = definition.web(booted)
    const faults =
      typeof definition.tools === 'function' ? checkTools(definition, record.tools) : []
    if (faults[0]) throw faults[0]
    record.base = { ...shared, self }
    if (this.#late.has(record) && !this.#closed) this.#after?.joinLate(record)
    if (pendings.length > 0) void Promise.all(pendings).then(() => this.#settle(record))
    else if (this.#late.has(record)) this.#settle(record)
    else enter(record, settledState(record))
  }

  /** The setup itself did not finish in time: the server answers meanwhile, and says what it waits for. */
  #goOnBehind(record: PluginRecord, work: Promise<void>) {
    this.#late.add(record)
    const variables = Object.keys(record.definition.env ?? {})
    const check = variables.length
      ? `check what it connects to (${variables.join(', ')})`
      : 'check what it waits for'
    void this.#watch(record, work, `its setup has not finished; ${check}`, true)
  }

  #settle(record: PluginRecord) {
    if (record.state !== 'pending' || this.#closed) return
    enter(record, settledState(record))
    this.#options.log.info(`${record.name} pending -> ${record.state}`)
  }

  /** Follows work that outlives boot: keeps naming it while it lasts, and tells how it ended. */
  async #watch(
    record: PluginRecord,
    work: Promise<unknown>,
    what: string,
    isSetup = false,
  ): Promise<void> {
    enter(record, 'pending', what)
    const { log } = this.#options
    const tell = () =>
      log.warn(
        `${record.name} pending for ${Math.round((Date.now() - record.since.getTime()) / 1000)} s: ${what}`,
      )
    const watch = setInterval(tell, 10_000).unref()
    this.#watches.add(watch)
    try {
      await work
    } catch (thrown) {
      if (this.#closed) return
      const sentence = thrown instanceof Error ? thrown.message : String(thrown)
      enter(record, 'failed', isSetup ? `setup failed: ${sentence}` : `${what}: ${sentence}`)
      log.error({ err: thrown }, `${record.name} pending -> failed: ${sentence}`)
    } finally {
      clearInterval(watch)
      this.#watches.delete(watch)
    }
  }

  /** Asks every health check, within a second. A complaint is kept on the plugin's record. */
  async checkHealth(): Promise<void> {
    await Promise.all(
      this.#checks.map(async ({ record, check }) => {
        try {
          await within(1000, check)
          record.complaint = undefined
        } catch (thrown) {
          record.complaint = thrown instanceof Error ? thrown.message : String(thrown)
        }
      }),
    )
  }

  /** Runs the close callbacks, last registered first. One that fails is logged and stops nothing. */
  async close(): Promise<void> {
    this.#closed = true
    for (const watch of this.#watches) clearInterval(watch)
    for (const { plugin, close } of this.#closers.reverse()) {
      try {
        await close()
      } catch (err) {
        this.#options.log.error({ err, plugin }, 'onClose failed')
      }
    }
  }
}

function enter(record: PluginRecord, state: PluginRecord['state'], reason?: string) {
  record.state = state
  record.reason = reason
  record.since = new Date()
}

async function withinGrace(work: Promise<void>): Promise<'done' | 'late' | { thrown: unknown }> {
  let timer: NodeJS.Timeout | undefined
  const grace = new Promise<'late'>((resolve) => (timer = setTimeout(resolve, graceMs, 'late')))
  const outcome = await Promise.race([
    work.then(
      () => 'done' as const,
      (thrown: unknown) => ({ thrown }),
    ),
    grace,
  ])
  clearTimeout(timer)
  return outcome
}

async function within(ms: number, check: () => unknown): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${ms} ms`)), ms)
  })
  try {
    await Promise.race([check(), late])
  } finally {
    clearTimeout(timer)
  }
}

/** A variable that only some settings require is missed in the setup, and costs the plugin alone, like any other. */
const lacksVariable = (thrown: unknown): thrown is RuntimeError =>
  thrown instanceof RuntimeError && thrown.code === 'ENV_MISSING'

const sentenceOf = ({ message, hint }: RuntimeError) => (hint ? `${message} ${hint}` : message)

function asFault(record: PluginRecord, thrown: unknown): RuntimeError {
  if (thrown instanceof RuntimeError) return thrown
  const sentence = thrown instanceof Error ? thrown.message : String(thrown)
  return new RuntimeError('SETUP_FAILED', `Plugin ${record.name}: setup failed: ${sentence}`, {
    hint: `Mend it, or turn the plugin off with FEATURES=${record.name}=off.`,
    cause: thrown,
  })
}

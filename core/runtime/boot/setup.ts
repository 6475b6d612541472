import type { Logger } from 'pino'
import { RuntimeError } from '../../errors.ts'
import {
  checkBorrowedMade,
  checkFacts,
  checkMadeSection,
  checkModels,
  checkRuns,
  checkSubAgents,
  checkTools,
} from '../../manifest/manifest.ts'
import { requirementsOf, usesOf } from '../../manifest/load-order.ts'
import type {
  AnyDefinition,
  AnyJobs,
  Boot,
  Booted,
  Database,
  Fetch,
  Metrics,
  Oracle,
  OutsideTools,
  PluginSessions,
  RoomChange,
  Turns,
} from '../../plugin.ts'
import { settleLimits } from '../http/routes/settle-limits.ts'
import type { Now } from '../base/clock.ts'
import { fieldsIn } from '../base/fields.ts'
import {
  capabilitiesOf,
  enter,
  isActive,
  settledState,
  type ModelsWithin,
  type PluginRecord,
} from '../base/plugin-record.ts'
import type { Leases } from '../leases/leases.ts'
import type { RoomState } from '../store/room-state.ts'
import type { Members } from '../told/members.ts'
import { PendingWork, type Work } from './pending-work.ts'
import { ReadyCalls } from './ready.ts'

/** How long boot waits for one setup before the server starts answering without it. */
const graceMs = 1000

/** How long boot waits for the setup of a plugin that makes its models in a function: without them nobody knows what answers. */
const modelsGraceMs = 30_000

/** What every setup gets, beside what its plugin has of its own. */
export interface SetupOptions {
  readonly log: Logger
  readonly db: Database
  readonly fetch: Fetch
  readonly environment: Boot['environment']
  readonly oracle: Oracle
  readonly holdsCredential: Boot['holdsCredential']
  readonly prices: () => Boot['prices']
  /** `jobs` of a plugin. */
  readonly jobsOf: (definition: AnyDefinition) => AnyJobs
  /** `models` of a plugin. */
  readonly modelsOf: (plugin: string) => ModelsWithin
  readonly rooms: RoomState
  /** `metrics` of a plugin. */
  readonly metricsOf: (plugin: string) => Metrics
  /** Who is told of the members of rooms. */
  readonly members: Members
  readonly leases: Leases
  readonly now: Now
  /** The parsed environment slice of each active plugin. */
  readonly envOf: ReadonlyMap<string, Record<string, unknown>>
}

/** What there is for plugins once the tools and the routes of all of them are known. */
export interface AfterSetup {
  /** `sessions` of a plugin. */
  sessionsOf(plugin: string): PluginSessions
  /** `turns` of a plugin. */
  turnsOf(plugin: string): Turns
  /** The tools of all plugins, for calls outside a turn. */
  readonly tools: OutsideTools
  /** Takes in the tools and routes of a plugin whose setup finished after the boot went on. */
  joinLate(record: PluginRecord): void
}

/** Owns what setups hand over: close callbacks, health checks, and the work that is still pending. */
export class Setups {
  readonly #options: SetupOptions
  readonly #closers: { readonly plugin: string; readonly close: () => unknown }[] = []
  readonly #checks: { readonly record: PluginRecord; readonly check: () => unknown }[] = []
  readonly #pending: PendingWork
  readonly #ready: ReadyCalls
  readonly #finished = new Map<string, Promise<void>>()
  /** Plugins whose setup the server did not wait for. */
  readonly #late = new Set<PluginRecord>()
  /** Set when the boot no longer waits for setups. Until then the boot itself takes in every plugin that is done. */
  #after: AfterSetup | undefined
  #closed = false

  constructor(options: SetupOptions) {
    this.#options = options
    this.#pending = new PendingWork(options.log)
    this.#ready = new ReadyCalls(options.log)
  }

  /** Runs every setup in load order and returns all faults together. A setup that takes long goes on in the background. */
  async run(records: readonly PluginRecord[]): Promise<RuntimeError[]> {
    const faults: RuntimeError[] = []
    for (const record of records) {
      const work = this.#setUp(record, records)
      this.#finished.set(record.name, work)
      const outcome = await withinGrace(work, graceOf(record))
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

  /** Notes that the server answers. Once every setup has returned too, the functions of `onReady` run. */
  async answering(): Promise<void> {
    await Promise.allSettled(this.#finished.values())
    this.#ready.open()
  }

  /** Ends what the functions of `onReady` began, before the server stops answering. */
  async leave(): Promise<void> {
    await this.#ready.close()
  }

  async #setUp(record: PluginRecord, records: readonly PluginRecord[]): Promise<void> {
    const { definition, name } = record
    const required = requirementsOf({ name, definition }).map((plugin) => plugin!.name)
    await Promise.all(required.map((peer) => this.#finished.get(peer)))
    const peers: Record<string, unknown> = {}
    for (const peer of required)
      peers[peer] = records.find((other) => other.name === peer)!.base!.self
    for (const used of usesOf({ name, definition })) {
      await this.#finished.get(used!.name)?.catch(() => undefined)
      peers[used!.name] ??= records.find((other) => other.name === used!.name)?.base?.self
    }

    const { log, db, fetch, envOf } = this.#options
    const { oracle, holdsCredential, jobsOf, modelsOf, prices, environment } = this.#options
    const modelsWithin = modelsOf(name)
    const { models, model } = modelsWithin({})
    const metrics = this.#options.metricsOf(name)
    const known = {
      ...{ oracle, holdsCredential, prices: prices(), environment, metrics },
      tools: this.#tools(),
    }
    const shared = {
      env: envOf.get(name) ?? {},
      log: log.child({ plugin: name }),
      db,
      fetch,
      plugins: peers,
      turns: this.#turnsOf(name),
      jobs: jobsOf(definition),
      models,
      rooms: {
        ...this.#options.rooms.ofPlugin(record),
        changed: async (change: RoomChange) => this.#options.members.tell(name, change),
      },
      sessions: this.#sessionsOf(name),
      now: this.#options.now,
    }
    const boot: Boot = {
      ...shared,
      ...known,
      pending: (promise, what, { gates = true } = {}) =>
        void this.#follow(record, promise, { what, gates }),
      lease: (lease, work) => this.#options.leases.take(name, lease, work),
      capabilities: () => capabilitiesOf(records),
      toolNames: () => records.filter(isActive).flatMap(({ tools }) => Object.keys(tools)),
      onReady: (call) => this.#ready.add(record, call),
      onClose: (close) => void this.#closers.push({ plugin: name, close }),
      health: (check) => void this.#checks.push({ record, check }),
    }
    const self = await definition.setup?.(boot)
    const booted: Booted = { ...shared, ...known, self }
    this.#takeMade(record, booted, records)
    record.base = { ...shared, self, model }
    record.modelsWithin = modelsWithin
    if (this.#late.has(record) && !this.#closed) this.#after?.joinLate(record)
    this.#settle(record)
  }

  /** Takes the sections that functions of the plugin make, or throws the first fault of them. */
  #takeMade(record: PluginRecord, booted: Booted, records: readonly PluginRecord[]): void {
    const { definition, name } = record
    const faults: RuntimeError[] = []
    const made = <T>(section: 'tools' | 'routes' | 'web', make: (boot: Booted) => T) => {
      const entries = make(booted)
      const wrong = checkMadeSection(name, section, entries)
      faults.push(...wrong)
      return wrong.length === 0 ? entries : undefined
    }
    const { tools, routes, web, runs } = definition
    if (typeof tools === 'function') {
      const entries = made('tools', tools)
      if (entries)
        faults.push(...checkTools(definition, entries), ...checkSubAgents(definition, entries))
      // Whoever looks at the tools before the boot stops finds no broken ones.
      if (entries && faults.length === 0) record.tools = entries
    }
    if (typeof routes === 'function') {
      const entries = made('routes', routes)
      const settled = settleLimits(name, entries ?? {}, this.#options.envOf.get(name) ?? {})
      record.routes = settled.routes
      faults.push(...settled.faults)
    }
    if (typeof web === 'function') record.web = made('web', web) ?? {}
    const toolsOf = (plugin: string) => {
      const lender = records.find((other) => other.name === plugin)
      return lender?.base && lender.tools
    }
    faults.push(...checkBorrowedMade(definition, toolsOf))
    if (typeof runs === 'function') {
      record.runs = runs(booted)
      faults.push(...checkRuns(name, record.runs))
    }
    if (definition.facts) {
      record.facts = definition.facts(booted)
      faults.push(...checkFacts(name, record.facts))
    }
    if (typeof definition.models === 'function') {
      record.models = definition.models(booted)
      faults.push(...checkModels(name, record.models))
    }
    if (faults[0]) throw faults[0]
  }

  #sessionsOf(plugin: string): PluginSessions {
    const sessions = () => {
      if (this.#after) return this.#after.sessionsOf(plugin)
      throw new RuntimeError('UNAVAILABLE', 'Sessions are there once every plugin is set up.')
    }
    return {
      say: async (words) => sessions().say(words),
      ensure: async (wanted) => sessions().ensure(wanted),
      message: async (wanted) => sessions().message(wanted),
      messages: async (read) => sessions().messages(read),
      shared: async (session) => sessions().shared(session),
      delete: async (session) => sessions().delete(session),
    }
  }

  /** The tools of all plugins, which answer once every plugin is set up. */
  #tools(): OutsideTools {
    const tools = () => {
      if (this.#after) return this.#after.tools
      throw new RuntimeError('UNAVAILABLE', 'Tools are called once every plugin is set up.')
    }
    return {
      list: async (whose) => tools().list(whose),
      asksNobody: (whose) => tools().asksNobody(whose),
      call: async (call) => tools().call(call),
    }
  }

  /** `turns` of a plugin, which work once every plugin is set up. */
  #turnsOf(plugin: string): Turns {
    const turns = () => {
      if (this.#after) return this.#after.turnsOf(plugin)
      throw new RuntimeError('UNAVAILABLE', 'Turns begin once every plugin is set up.')
    }
    return {
      start: (turn) => turns().start(turn),
      resume: (answer) => turns().resume(answer),
      events: (run) => turns().events(run),
      open: async (session) => turns().open(session),
      list: async (wanted) => turns().list(wanted),
      abort: async (turn) => turns().abort(turn),
      redact: async (turn) => turns().redact(turn),
      follow: (session) => turns().follow(session),
      cut: async (reply) => turns().cut(reply),
    }
  }

  /** Leaves a setup running that did not finish in time: the server answers meanwhile, and says what the plugin waits for. */
  #goOnBehind(record: PluginRecord, work: Promise<void>) {
    this.#late.add(record)
    const variables = Object.keys(record.definition.env ?? {})
    const check = variables.length
      ? `check what it connects to (${variables.join(', ')})`
      : 'check what it waits for'
    const what = `its setup has not finished; ${check}`
    void this.#follow(record, work, { what, gates: false, failure: 'setup failed' })
  }

  /** Follows work of a plugin; the plugin is at work when this was the last of it. */
  async #follow(record: PluginRecord, promise: Promise<unknown>, work: Work): Promise<void> {
    await this.#pending.follow(record, promise, work)
    this.#settle(record)
  }

  /** Lets a plugin be at work, once its setup has returned and nothing of it is pending. */
  #settle(record: PluginRecord) {
    if (record.state !== 'pending' || !record.base || this.#closed) return
    if (this.#pending.has(record)) return
    const hasWaited = record.reason !== undefined
    enter(record, settledState(record))
    if (hasWaited) this.#options.log.info(`${record.name} pending -> ${record.state}`)
    this.#ready.tryNow(record)
  }

  /** Asks every health check, within a second. The plugin's record keeps what the check says. */
  async checkHealth(): Promise<void> {
    await Promise.all(
      this.#checks.map(async ({ record, check }) => {
        try {
          const remark = await within(1000, check)
          record.remark = typeof remark === 'string' ? remark.slice(0, longestRemark) : undefined
          record.complaint = undefined
        } catch (thrown) {
          record.complaint = thrown instanceof Error ? thrown.message : String(thrown)
          record.remark = undefined
        }
      }),
    )
  }

  /** Runs the close callbacks, last registered first, ten seconds each. What fails, or is not done by then, is logged. */
  async close(): Promise<void> {
    this.#closed = true
    this.#pending.close()
    for (const { plugin, close } of this.#closers.reverse()) {
      try {
        await within(10_000, close, 'not done')
      } catch (err) {
        this.#options.log.error({ err, plugin }, `onClose of ${plugin} failed`)
      }
    }
  }
}

const graceOf = ({ definition }: PluginRecord): number =>
  typeof definition.models === 'function' ? modelsGraceMs : graceMs

async function withinGrace(
  work: Promise<void>,
  ms: number,
): Promise<'done' | 'late' | { thrown: unknown }> {
  let timer: NodeJS.Timeout | undefined
  const grace = new Promise<'late'>((resolve) => (timer = setTimeout(resolve, ms, 'late')))
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

/** How much of what a health check says stands in `/health`. */
const longestRemark = 300

async function within(ms: number, check: () => unknown, late = 'no answer'): Promise<unknown> {
  let timer: NodeJS.Timeout | undefined
  const over = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${late} within ${ms} ms`)), ms)
  })
  try {
    return await Promise.race([check(), over])
  } finally {
    clearTimeout(timer)
  }
}

/**
 * Whether a setup missed a variable that only some settings require. As with any unset variable, the boot then excludes
 * this plugin alone, unless the app would be unsafe without the plugin: `details: { stopsBoot: true }` says so.
 */
const lacksVariable = (thrown: unknown): thrown is RuntimeError =>
  thrown instanceof RuntimeError &&
  thrown.code === 'ENV_MISSING' &&
  fieldsIn(thrown.details).stopsBoot !== true

const sentenceOf = ({ message, hint }: RuntimeError) =>
  hint ? `${message}${/[.!?]$/.test(message) ? '' : '.'} ${hint}` : message

function asFault(record: PluginRecord, thrown: unknown): RuntimeError {
  if (thrown instanceof RuntimeError) return thrown
  const sentence = thrown instanceof Error ? thrown.message : String(thrown)
  return new RuntimeError('SETUP_FAILED', `Plugin ${record.name}: setup failed: ${sentence}`, {
    hint: `Mend the setup, or turn the plugin off with FEATURES=${record.name}=off.`,
    cause: thrown,
  })
}

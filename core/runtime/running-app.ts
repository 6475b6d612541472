import type { Logger } from 'pino'
import type { Model } from '../plugin.ts'
import { type EnvSource, isForAuthors, unsaidEnvironment } from '../manifest/env.ts'
import { kernelEnv, type KernelEnv } from '../manifest/kernel-env.ts'
import type { Tools } from './agent/tools/tools.ts'
import { setTimeout as pause } from 'node:timers/promises'
import type { App, ListenOptions } from './app.ts'
import type { Grants } from './auth/grants/grants.ts'
import type { Grant } from './auth/grants/rows.ts'
import { readGrantRequest } from './auth/grants/request.ts'
import { isActive, type PluginRecord } from './base/plugin-record.ts'
import { runtimeVersion } from './base/version.ts'
import type { Blueprint } from './blueprint.ts'
import { withGenerated } from './boot/environment.ts'
import { offerLines } from './model/offer-lines.ts'
import { reportOf, type BootReport } from './boot/report.ts'
import { mindSignals, type Minding } from './watchdog/signals.ts'
import type { Closers } from './closers.ts'
import type { Erasures } from './kept/erasures.ts'
import { MetricsServer } from './metrics.ts'
import type { Parts } from './parts.ts'
import { readVariableFiles } from './variables/from-files.ts'

/** How long the heavy imports wait, so that the server answers the first probes before. */
const warmAfterMs = 500

/** The thread of the watchdog starts when the first probes have been answered, unless a run is taken over before. */
const guardAfterMs = 250

/** What a running app holds beside its parts. */
export interface RunningOptions {
  readonly blueprint: Blueprint
  readonly parts: Parts
  readonly closers: Closers
  /** When the boot began, as `performance.now()` tells it. */
  readonly startedAt: number
  /** Reads the environment again, as the boot did. */
  readEnvironment(): Promise<EnvSource>
}

/** An app whose parts are open: it can listen, reload its keys, and close. */
export class RunningApp implements App {
  readonly config: KernelEnv
  readonly records: readonly PluginRecord[]
  readonly log: Logger
  readonly #options: RunningOptions
  readonly #parts: Parts
  #minding: Minding | undefined
  #isListening = false
  #closing: Promise<void> | undefined

  constructor(options: RunningOptions) {
    const { config, records, log } = options.blueprint
    this.config = config
    this.records = records
    this.log = log
    this.#options = options
    this.#parts = options.parts
  }

  get report(): BootReport {
    const { source, plans, chosen, embedder } = this.#options.blueprint
    return reportOf(this.records, source, plans, [...offerLines(chosen.models), embedder.line])
  }

  get oracleDid(): string {
    return this.#parts.identity.oracleDid
  }

  get grants(): Grants {
    return this.#parts.identity.grants
  }

  get erasures(): Erasures {
    return this.#parts.erasures
  }

  get tools(): Tools {
    return this.#parts.tools
  }

  /** The model that answers where nobody chose one. */
  get model(): Model {
    return this.#options.blueprint.chosen.models.default
  }

  /** Grants as `POST /grants` does. */
  async grant(request: unknown): Promise<Grant> {
    return (await this.grants.issue(await readGrantRequest(this.#parts.grantable, request))).grant
  }

  async listen({ port, host, signals = true }: ListenOptions = {}) {
    const { ground, addresses, http, identity, setups, guard } = this.#parts
    const { blueprint, closers, startedAt } = this.#options
    const at = { port: port ?? this.config.PORT, host: host ?? addresses.host }
    const unsaid = unsaidEnvironment(blueprint.source, at.host)
    if (unsaid) throw unsaid
    if (signals) this.#mind()
    await this.#serveMetrics()
    const address = await http.listen(at)
    this.#isListening = true
    addresses.listensAt(address.url)
    ground.lock?.describe({ address: address.url })
    const ms = Math.round(performance.now() - startedAt)
    const everywhere = ['0.0.0.0', '::'].includes(at.host)
    const reach = everywhere ? ' and all addresses of this machine,' : ''
    this.log.info(
      `oracle-runtime ${runtimeVersion} listening on ${address.url}${reach} after ${ms} ms`,
    )
    closers.add(() => setups.leave())
    void setups.answering()
    void identity.compareRegistration(addresses.told)
    void this.#parts.jobs.runner.open()
    const warming = setTimeout(() => void this.#warm(), warmAfterMs).unref()
    closers.add(() => clearTimeout(warming))
    setTimeout(() => guard.begin(), guardAfterMs).unref()
    return address
  }

  /** Begins to watch the process, and serves its metrics where METRICS_PORT says so. */
  async #serveMetrics(): Promise<void> {
    const { METRICS_PORT: port, METRICS_HOST: host } = this.config
    const { telemetry } = this.#parts.ground
    telemetry.open()
    if (port === undefined) return
    const server = new MetricsServer(telemetry.registry, this.log)
    this.#options.closers.add(() => server.close())
    this.log.info(`metrics on ${await server.open(port, host)}/metrics, without a token`)
  }

  #mind(): void {
    const reload = async () => {
      // A key that is wrong now must not end a server whose old keys still hold.
      await this.reload().catch((err: unknown) =>
        this.log.error({ err }, 'the keys could not be read anew, those of before stay'),
      )
    }
    this.#minding ??= mindSignals({ close: () => this.close(), reload })
    const { elsewhere } = this.#minding
    if (elsewhere.length > 0)
      this.log.info(
        `this process handles ${elsewhere.join(' and ')} itself: its handlers have to call close()`,
      )
  }

  /** Loads the modules that the first caller needs, so that the caller does not wait for them. */
  async #warm(): Promise<void> {
    const goesOn = () => this.#closing === undefined
    try {
      this.tools.warm()
      await this.#parts.identity.auth.warm(goesOn)
      await this.grants.warm()
      // Node loads its own fetch with the first mention of this name.
      void globalThis.Response
      // An author's server starts again and again, and mostly gets no chat before it does.
      if (!isForAuthors({ NODE_ENV: this.config.NODE_ENV }))
        await this.#parts.conversations.warmInPieces(goesOn)
    } catch (err) {
      this.log.error({ err }, 'a part of the runtime could not be loaded')
    }
  }

  async reload(): Promise<void> {
    const { blueprint, readEnvironment } = this.#options
    const shapes = [
      kernelEnv,
      ...this.records.filter(isActive).map(({ definition }) => definition.env ?? {}),
    ]
    const read = await readVariableFiles(await readEnvironment(), shapes)
    const { source: given, faults } = read
    if (faults[0]) throw faults[0]
    const source = isForAuthors({ NODE_ENV: this.config.NODE_ENV })
      ? await withGenerated(given, [kernelEnv], blueprint.dataDir)
      : given
    const { variables, apply } = blueprint.rotation.plan(read)
    blueprint.rotation.hide([kernelEnv], source)
    this.#parts.identity.reload(source)
    apply()
    if (variables.length > 0) {
      blueprint.chosen.reopen()
      blueprint.embedder.reopen()
      this.log.info({ variables }, 'Variables of plugins were read anew')
    }
    await this.#parts.ground.audit.write({
      who: 'operator:process',
      task: 'reload keys',
      what: { variables: ['API_KEY', 'OPERATOR_TOKEN', ...variables].join(', ') },
      outcome: 'accepted',
    })
  }

  close(): Promise<void> {
    this.#closing ??= this.#leave()
    return this.#closing
  }

  /** Tells balancers, gives them DRAIN_MS to notice while everything still serves, then closes. */
  async #leave(): Promise<void> {
    this.#parts.ground.readiness.leave()
    try {
      if (this.#isListening && this.config.DRAIN_MS > 0) {
        this.log.info(`about to stop: requests are still served for ${this.config.DRAIN_MS} ms`)
        await pause(this.config.DRAIN_MS)
      }
      await this.#options.closers.close()
    } catch (err) {
      this.log.error({ err }, 'the app could not be closed in an orderly way')
      throw err
    } finally {
      this.#minding?.leave()
    }
  }

  /** The environment, with what was generated for authors. */
  get source(): EnvSource {
    return this.#options.blueprint.source
  }

  /**
   * Stops as the death of the process would, as far as one process can: the database is cut off, connections are reset,
   * leases stay. No close of a plugin runs until the app is forsaken.
   */
  async crash(): Promise<void> {
    const { ground, http, runs, jobs, leases } = this.#parts
    this.#options.blueprint.clock?.drop()
    const cut = ground.store.cut()
    http.drop()
    runs.drop()
    jobs.runner.drop()
    leases.drop()
    ground.lock?.drop()
    await cut
  }

  /** Closes what plugins opened, and timers, of an app that crashed; waits for nothing. */
  forsake(): void {
    this.#options.closers.forsake()
  }
}

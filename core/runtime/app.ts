import type { Logger } from 'pino'
import { RuntimeError } from '../errors.ts'
import type { EnvSource } from '../manifest/env.ts'
import { environmentOf, isForAuthors, unsaidEnvironment } from '../manifest/environments.ts'
import type { Features } from '../manifest/features.ts'
import { kernelEnv, type KernelEnv } from '../manifest/kernel-env.ts'
import { secretValues } from '../manifest/select.ts'
import type { AnyPlugin, AnyRoute, Fetch, RouteContext } from '../plugin.ts'
import type { Redis } from 'ioredis'
import { auditRoutes } from './audit/routes.ts'
import { AuditTable } from './audit/table.ts'
import { auditMigrations } from './audit/tables.ts'
import { AuditTrail } from './audit/trail.ts'
import { createCallers } from './auth/callers.ts'
import { Channel } from './channel/channel.ts'
import { openDataDir, type DataDir } from './store/data-dir.ts'
import type { Lock } from './store/data-dir-lock.ts'
import { isConnectionError } from './store/database-errors.ts'
import type { Did } from './auth/did/did.ts'
import { delegationMigrations } from './auth/grants/delegations.ts'
import { type Grants, grantsMigration } from './auth/grants/grants.ts'
import type { Grant } from './auth/grants/rows.ts'
import { authorsWords, readEnvironment, withGenerated } from './boot/environment.ts'
import { connectionsAllowed } from './http/limits/connections.ts'
import { Http } from './http/http.ts'
import { Places } from './http/limits/places.ts'
import { idempotencyMigration } from './http/limits/idempotency.ts'
import { createConversations, type Conversations } from './agent/conversations.ts'
import { createIdentity, type Addresses, type Identity } from './auth/identity.ts'
import { chooseModels, type GivenModel, type Models } from './model/choose.ts'
import { signerFromMnemonic } from './auth/did/signer.ts'
import { kernelNamesMigration } from './store/kernel-names.ts'
import { type Grantable, readGrantRequest } from './auth/grants/request.ts'
import { grantRoutes } from './auth/grants/routes.ts'
import { kernelRoutes } from './boot/kernel-routes.ts'
import { createLog, masking } from './base/log.ts'
import { checkToolNames, mountsOf, planBoot, type Plan } from './boot/plan.ts'
import { isActive, stateLine, type PluginRecord } from './base/plugin-record.ts'
import { reportOf, type BootReport } from './boot/report.ts'
import { pluginRoutes, type Rooms } from './boot/plugin-routes.ts'
import { RateLimits } from './http/limits/rate-limit.ts'
import { openRedis } from './http/limits/redis.ts'
import { checkMounts, checkRoutes } from './http/routes/routes.ts'
import type { ServedRoute } from './http/routes/run-route.ts'
import { checkpointMigrations } from './agent/state/checkpoint-tables.ts'
import { createRoomState, roomOf, roomStateMigration } from './store/room-state.ts'
import { runMigrations } from './turns/journal/tables.ts'
import { Setups } from './boot/setup.ts'
import { surviveStrayRejections } from './watchdog/stray-faults.ts'
import { openStore, type Store } from './store/store.ts'
import { Tools } from './agent/tools/tools.ts'
import { runtimeVersion } from './base/version.ts'
import { watchEventLoop } from './watchdog/watchdog.ts'

export interface AppOptions {
  readonly plugins: readonly AnyPlugin[]
  /** By plugin name: false never loads it, true loads it or stops the boot. FEATURES overrides this. */
  readonly features?: Features
  /** Models of your own, LangChain's or ours, the default first; otherwise the variable MODEL chooses. */
  readonly model?: GivenModel | readonly GivenModel[]
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
  /** Reads the keys of a changed environment: API_KEY and OPERATOR_TOKEN rotate without a restart. */
  reload(): Promise<void>
}

/** A promise of the app that can be told to listen, or to close, at once. */
export type StartingApp = Promise<App> & Pick<App, 'listen' | 'close'>

/**
 * Boots the plugins and returns the app, not yet listening. Every fault of the boot is collected, logged
 * and thrown as one `BOOT_FAILED`.
 */
export function createApp(options: AppOptions): StartingApp {
  const booting: Promise<App> = boot(options)
  booting.catch(() => undefined) // whoever awaits it, or listens, gets the fault
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
  const environment = environmentOf(given)
  const path = given.DATA_DIR || '.data'
  // A boot that stops for one of these leaves nothing behind.
  const isSaid = environment !== undefined && !unsaidEnvironment(given, given.HOST || undefined)
  const needsFolder =
    isSaid && path !== inMemory && !(environment === 'production' && given.DATABASE_URL)
  const dataDir = needsFolder ? await openDataDir(path) : undefined
  const shapes = [kernelEnv, ...options.plugins.map((plugin) => plugin?.definition?.env ?? {})]
  const source = isForAuthors(given) ? await withGenerated(given, shapes, dataDir) : given

  const plan = planBoot(options.plugins, options.features ?? {}, source)
  const secrets = secretValues(shapes, source)
  const log = createLog({
    level: plan.config.LOG_LEVEL ?? 'info',
    pretty: isForAuthors(given),
    secrets,
    write: options.log,
  })
  log.info(`oracle-runtime ${runtimeVersion} on node ${process.versions.node}`)
  for (const sentence of plan.suspects) log.warn(sentence)
  const chosen = chooseModels(options.model, plan.config)
  const modelFaults = 'faults' in chosen ? chosen.faults : []
  stopOn([...plan.faults, ...modelFaults], log)

  const { models } = chosen as Extract<typeof chosen, { models: unknown }> // no faults: there they are
  const app = new RunningApp({ options, plan, models, source, secrets, log, dataDir, startedAt })
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
  readonly models: Models
  readonly source: EnvSource
  readonly secrets: readonly string[]
  readonly log: Logger
  readonly dataDir: DataDir | undefined
  readonly startedAt: number
}

/** An app in the making, then running. What it opened is closed in reverse order. */
export class RunningApp implements App {
  readonly config: KernelEnv
  readonly records: readonly PluginRecord[]
  readonly log: Logger
  readonly #parts: Parts
  #lock: Lock | undefined
  #store: Store | undefined
  #audit: AuditTrail | undefined
  #redis: Redis | undefined
  #identity: Identity | undefined
  #setups: Setups | undefined
  #tools: Tools | undefined
  #conversations: Conversations | undefined
  #http: Http | undefined
  #channel: Channel | undefined
  #closing: Promise<void> | undefined
  #warming: NodeJS.Timeout | undefined
  #unwatch: (() => void) | undefined
  #forgetStrays: (() => void) | undefined
  /** Where the server listens, once it does. */
  #url: string | undefined

  constructor(parts: Parts) {
    this.config = parts.plan.config
    this.records = parts.plan.records
    this.log = parts.log
    this.#parts = parts
  }

  get report(): BootReport {
    return reportOf(this.records, this.#parts.source)
  }

  get oracleDid(): string {
    return this.#identity!.oracleDid
  }

  get grants(): Grants {
    return this.#identity!.grants
  }

  /** Grants as `POST /grants` does. */
  async grant(request: unknown): Promise<Grant> {
    return (await this.grants.issue(await readGrantRequest(this.#grantable, request))).grant
  }

  get #grantable(): Grantable {
    const { oracleDid, signer } = this.#identity!
    const others = [signer?.did, this.config.ORACLE_ENTITY_DID]
    const ownDids = [oracleDid, ...others.filter((did) => did !== undefined)]
    return { records: this.records, ownDids }
  }

  get tools(): Tools {
    return this.#tools!
  }

  /** Everything up to listening: database, migrations, setups, tools, routes. */
  async start(): Promise<void> {
    this.#forgetStrays = surviveStrayRejections(this.log)
    const { plan, options, models, dataDir, log } = this.#parts
    const { DATABASE_URL } = this.config
    const chosen = this.records.filter(isActive)
    if (dataDir && !DATABASE_URL) this.#lock = await dataDir.lock({ pid: process.pid })
    const store = (this.#store = await openStore({ databaseUrl: DATABASE_URL, dataDir, log }))
    for (const [owner, migrations] of Object.entries(kernelMigrations))
      await store.migrate(owner, migrations)
    const audit = (this.#audit = this.#openAudit(store))
    this.#redis = await openRedis(this.config.REDIS_URL, log)
    const fetch = options.fetch ?? globalThis.fetch
    const identity = (this.#identity = createIdentity({
      config: this.config,
      store,
      fetch,
      log,
      addresses: () => this.#addresses(),
      onRevoked: (did) => this.#channel?.revoked(did),
      model: models.default,
      author: await this.#author(),
    }))
    for (const { name, definition } of chosen)
      if (definition.migrations) await store.migrate(name, definition.migrations)

    const setups = (this.#setups = new Setups({
      log,
      db: store.db,
      fetch,
      turns: {
        start: (turn) => {
          if (this.#conversations) return this.#conversations.start(turn)
          throw new RuntimeError('UNAVAILABLE', 'Turns begin once every plugin is set up.')
        },
      },
      oracle: {
        did: identity.oracleDid,
        aliases: identity.aliases,
        keysOf: identity.keysOf,
        url: () => this.#addresses().apiUrl,
        ...(identity.signer && { key: identity.signer }),
      },
      holdsCredential: identity.holdsCredential,
      envOf: plan.envOf,
      onLate: (record) => this.#joinLate(record),
    }))
    const setupFaults = await setups.run(chosen)
    const active = chosen.filter(isActive) // a setup may have missed a variable
    this.#tools = new Tools(active)
    const streams = new Places(this.config.STREAMS_PER_ADDRESS, 'event streams of this address')
    const conversations = (this.#conversations = createConversations({
      streams,
      config: this.config,
      oracleDid: identity.oracleDid,
      records: this.records,
      tools: this.#tools,
      store,
      rooms: this.#rooms(),
      models,
      rights: identity.grants,
      restoreUser: (did) => identity.auth.restore(did),
      isRevoked: (cids) => identity.isRevoked(cids),
      // One of these may be what froze the process before.
      onTakeover: () => this.#watch(),
      audit,
      log,
    }))
    const routes = this.#routes()
    const web = mountsOf(active)
    stopOn(
      [...setupFaults, ...checkToolNames(active), ...checkRoutes(routes), ...checkMounts(web)],
      log,
    )

    await identity.open()
    await conversations.runs.open()
    const rateLimits = new RateLimits({ log, redis: this.#redis })
    const callers = createCallers({
      ...identity,
      rights: identity.grants,
      rateLimits,
      authFailuresPerMinute: this.config.AUTH_FAILURES_PER_MINUTE,
      callsPerMinute: this.config.CALLS_PER_MINUTE,
      openToLoopback: this.config.NODE_ENV === 'development',
      isOwnOrigin: (origin) =>
        origin === new URL(this.#addresses().apiUrl).origin || origin === this.#url,
      log,
    })
    this.#http = new Http({
      log,
      routes,
      web,
      access: callers,
      audit,
      limits: {
        ratePerMinute: this.config.RATE_LIMIT_PER_MINUTE,
        trustProxy: this.config.TRUST_PROXY_ENABLED,
        connections: this.#connections(),
      },
      streams,
      cors: this.config.CORS_ORIGIN,
      db: store.db,
      rateLimits,
      publicUrl: this.config.PUBLIC_URL,
      name: this.config.ORACLE_NAME,
      version: runtimeVersion,
      isUnreachable: isConnectionError,
    })
    this.#channel = new Channel({
      http: this.#http,
      runs: conversations.runs,
      bySocket: callers.bySocket,
      isRevoked: (cids) => identity.isRevoked(cids),
      store,
      log,
      cors: this.config.CORS_ORIGIN,
      publicUrl: this.config.PUBLIC_URL,
      limits: {
        perAddress: this.config.SOCKETS_PER_ADDRESS,
        perDid: this.config.SOCKETS_PER_DID,
      },
    })
    await this.#channel.open()
    for (const record of this.records) log.info(stateLine(record))
    log.info(`model: ${models.default.label ?? models.default.id}`)
  }

  async listen({
    port = this.config.PORT,
    host = this.#host(),
  }: { port?: number; host?: string } = {}) {
    const unsaid = unsaidEnvironment(this.#parts.source, host)
    if (unsaid) throw unsaid
    const address = await this.#http!.listen({ port, host })
    this.#url = address.url
    this.#lock?.describe({ address: address.url })
    const ms = Math.round(performance.now() - this.#parts.startedAt)
    const everywhere = ['0.0.0.0', '::'].includes(host) ? ' and all addresses of this machine,' : ''
    this.log.info(
      `oracle-runtime ${runtimeVersion} listening on ${address.url}${everywhere} after ${ms} ms`,
    )
    void this.#identity!.compareRegistration(this.#addresses())
    this.#warming = setTimeout(() => void this.#warm(), warmAfterMs).unref()
    setTimeout(() => this.#watch(), watchAfterMs).unref()
    return address
  }

  /** From now on a frozen event loop ends the process. */
  #watch() {
    if (this.#closing) return
    this.#unwatch ??= watchEventLoop(this.config.EVENT_LOOP_LIMIT_MS, this.log)
  }

  /** What the first caller needs. */
  async #warm() {
    try {
      this.tools.warm()
      await this.#identity!.auth.warm()
      await this.grants.warm()
    } catch (err) {
      this.log.error({ err }, 'a part of the runtime could not be loaded')
    }
  }

  async reload(): Promise<void> {
    const given = this.#parts.options.env ?? (await readEnvironment())
    const { dataDir } = this.#parts
    const source = isForAuthors({ NODE_ENV: this.config.NODE_ENV })
      ? await withGenerated(given, [kernelEnv], dataDir)
      : given
    this.#identity!.reload(source)
    const what = { variables: 'API_KEY, OPERATOR_TOKEN' }
    await this.#audit?.write({
      who: 'operator:process',
      task: 'reload keys',
      what,
      outcome: 'accepted',
    })
  }

  close(): Promise<void> {
    this.#closing ??= (async () => {
      this.log.info('stopping: nothing new is taken, runs are handed over')
      clearTimeout(this.#warming)
      // Runs are handed over while their readers are told, and requests in flight get their answers.
      await Promise.all([this.#http?.close(), this.#conversations?.runs.close()])
      await this.#channel?.close()
      await this.#setups?.close()
      await this.#identity?.close()
      await this.#audit?.close()
      this.#redis?.disconnect()
      await this.#store?.close()
      await this.#lock?.release()
      this.#unwatch?.()
      this.#forgetStrays?.()
      this.log.info('stopped')
    })()
    return this.#closing
  }

  /** What clients are told. Never taken from a Host header, which the client writes itself. */
  #addresses(): Addresses {
    const apiUrl = (
      this.config.PUBLIC_URL ??
      this.#url ??
      `http://${this.#host()}:${this.config.PORT}`
    ).replace(/\/$/, '')
    return { apiUrl, wsUrl: apiUrl.replace(/^http/, 'ws') }
  }

  /** The user that `npm run chat` and `npm run token` sign as; there is none where others are served. */
  async #author(): Promise<Did | undefined> {
    const { dataDir } = this.#parts
    if (!dataDir || !isForAuthors({ NODE_ENV: this.config.NODE_ENV })) return undefined
    return signerFromMnemonic(await authorsWords(dataDir)).did
  }

  #rooms(): Rooms {
    const { oracleDid } = this.#identity!
    return {
      ...createRoomState({ db: this.#store!.db, log: this.log }),
      of: (did) => roomOf(did, oracleDid),
    }
  }

  /** How many connections there may be, and a line of the log where that is fewer than was asked for. */
  #connections(): number {
    const { CONNECTIONS_TOTAL: asked } = this.config
    const allowed = connectionsAllowed(asked)
    if (allowed < asked)
      this.log.warn(
        `CONNECTIONS_TOTAL is ${asked}, but the process may open too few files for that: it takes ${allowed} connections. Raise the limit (ulimit -n), or lower CONNECTIONS_TOTAL.`,
      )
    return allowed
  }

  #openAudit(store: Store): AuditTrail {
    const { AUDIT_TABLE, AUDIT_RETENTION_DAYS: retentionDays } = this.config
    const { log } = this
    const table = AUDIT_TABLE ? new AuditTable({ store, log, retentionDays }) : undefined
    return new AuditTrail(log, table, masking(this.#parts.secrets))
  }

  #host(): string {
    return this.config.HOST ?? (this.config.NODE_ENV === 'production' ? '0.0.0.0' : '127.0.0.1')
  }

  #routes(): ServedRoute[] {
    const kernel: Record<string, AnyRoute> = {
      ...this.#identity!.routes,
      ...this.#conversations!.routes,
      ...grantRoutes(this.grants, this.#grantable),
      ...auditRoutes(this.config.AUDIT_TABLE ? this.#store!.db : undefined),
      ...kernelRoutes({
        environment: this.config.NODE_ENV,
        records: this.records,
        signingKeyLoaded: () => this.#identity!.signer !== undefined,
        databaseConnected: () => this.#store!.ping(),
        checkHealth: () => this.#setups!.checkHealth(),
        openapi: () => this.#http!.openapi(),
      }),
    }
    const kernelContext = { log: this.log, db: this.#store!.db, env: this.config }
    return [
      ...Object.entries(kernel).map(([key, route]): ServedRoute => ({
        key,
        owner: 'the kernel',
        route,
        context: (base) => Object.assign(base, kernelContext) as unknown as RouteContext,
      })),
      ...this.records.filter(isActive).flatMap((record) => pluginRoutes(record, this.#rooms())),
    ]
  }

  /** A plugin whose setup took longer than boot waited: its tools and late-made routes are served from now on. */
  #joinLate(record: PluginRecord) {
    if (!this.#tools || !this.#http) return // boot is still on its way and takes it along
    const web = mountsOf(this.records)
    const faults = [
      ...checkToolNames(this.records.filter(isActive)),
      ...checkRoutes(this.#routes()),
      ...checkMounts(web),
    ]
    if (faults.length === 0) {
      this.#tools.join(record)
      this.#conversations!.join()
      this.#http.reroute(this.#routes(), web)
      return
    }
    for (const { message } of faults) this.log.error(message)
    Object.assign(record, {
      state: 'failed',
      reason: faults[0]!.message,
      base: undefined,
      since: new Date(),
    })
  }
}

/** What is heavy to import comes after the first probes have been answered. */
const warmAfterMs = 500

/** The thread of the watchdog starts when the first probes have been answered, unless a run is taken over before. */
const watchAfterMs = 250

/** The kernel's own tables, by owner: each of these has a history of its own. */
export const kernelMigrations = {
  kernel: {
    '001-idempotency': idempotencyMigration,
    ...delegationMigrations,
    '002-room-state': roomStateMigration,
    '003-kernel-names': kernelNamesMigration,
    '004-grants': grantsMigration,
  },
  'kernel-runs': runMigrations,
  'kernel-audit': auditMigrations,
  'kernel-checkpoints': checkpointMigrations,
}

function stopOn(faults: readonly RuntimeError[], log: Logger) {
  if (faults.length === 0) return
  const lines = faults.map(
    ({ code, message, hint }) => `${message}${hint ? ` ${hint}` : ''} (${code})`,
  )
  for (const line of lines) log.error(line)
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

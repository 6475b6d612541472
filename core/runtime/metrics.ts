import type { Server } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import type { KernelEnv } from '../manifest/kernel-env.ts'
import { RuntimeError } from '../errors.ts'
import type { AnyRoute, Log } from '../plugin.ts'
import { nodeHttp } from './base/node-http.ts'
import type { PluginRecord } from './base/plugin-record.ts'
import type { Backups } from './backups.ts'
import type { Channel } from './channel/channel.ts'
import type { Http } from './http/http.ts'
import { reply } from './http/answer/reply.ts'
import { listen } from './http/listen.ts'
import type { AppJobs } from './jobs/jobs.ts'
import { measureStorage } from './retention/storage-metrics.ts'
import type { Store } from './store/store.ts'
import type { Registry } from './telemetry/registry.ts'

/** The key of the route of metrics. */
export const metricsRouteKeys = ['GET /metrics'] as const

/** The type of the text that Prometheus reads. */
const metricsType = 'text/plain; version=0.0.4; charset=utf-8'
/** How long a reading waits for the database; then the figures of the database are left out. */
const databaseMs = 1_000
/** How long such figures are told again: whoever reads every second must not make the database count every second. */
const freshMs = 5_000

/** The route at which the operator's Prometheus reads the figures of this process. */
export function metricsRoutes(
  registry: Registry,
): Record<(typeof metricsRouteKeys)[number], AnyRoute> {
  return {
    'GET /metrics': {
      auth: 'operator',
      summary: 'The figures of this process, in the text format of Prometheus.',
      answers: { 200: ['text/plain'] },
      async run(_, { koa }) {
        koa.set('Cache-Control', 'no-store')
        return reply(200, await registry.text(), { type: metricsType })
      },
    },
  }
}

/** What the figures of an app are read from. */
export interface MeasuredParts {
  readonly registry: Registry
  readonly records: readonly PluginRecord[]
  readonly http: Http
  readonly channel: Channel
  readonly jobs: AppJobs
  readonly store: Store
  readonly backups: Backups | undefined
  readonly log: Log
}

/** Adds the figures that are only known when somebody reads them. */
export function measureApp(parts: MeasuredParts): void {
  const { registry, records, http, channel, jobs, store } = parts
  const gauge = (name: string, help: string, labels?: readonly string[]) =>
    registry.make({ kind: 'gauge', name, help, labels })
  const states = gauge('oracle_plugin_state', 'Where each plugin stands: 1 for its state.', [
    'plugin',
    'state',
  ])
  const streams = gauge('oracle_streams_open', 'Event streams that are open.', ['kind'])
  const sockets = gauge('oracle_sockets_open', 'Sockets that are open.', ['framing'])
  const runs = gauge('oracle_runs_open', 'Runs of the whole database that have not ended.', [
    'status',
  ])
  const waiting = gauge(
    'oracle_waiting_turns',
    'Turns of the whole database that wait for their session.',
  )
  const jobCounts = gauge('oracle_jobs', 'Jobs of the whole database.', ['state'])
  const late = gauge('oracle_jobs_late_seconds', 'How late the first due job is.')
  const listening = gauge('oracle_listening', 'How this process hears the others: 1 for its way.', [
    'way',
  ])
  const bus = gauge('oracle_bus_up', 'Whether the bus of BUS_URL carries what processes tell.')
  const counts = new OpenCounts(store)
  registry.beforeReading(async () => {
    states.clear()
    for (const { name, state } of records) states.set(1, { plugin: name, state })
    streams.set(http.openStreams, { kind: 'sse' })
    for (const [framing, count] of Object.entries(channel.byFraming))
      sockets.set(count, { framing })
    listening.clear()
    listening.set(1, { way: store.listening() })
    const busState = store.bus()
    if (busState) bus.set(busState.isUp ? 1 : 0)
    runs.clear()
    const [open, health] = await Promise.all([counts.read(), jobs.health().catch(() => undefined)])
    for (const [status, count] of Object.entries(open?.runs ?? {})) runs.set(count, { status })
    if (open) waiting.set(open.waiting)
    if (!health) return
    for (const state of ['due', 'running', 'dead'] as const) jobCounts.set(health[state], { state })
    late.set(health.lateMs / 1000)
  })
  measureDatabase(parts)
}

/** Adds the figures of the database, of the way of notifications, and of backups. */
function measureDatabase({ registry, store, backups, log }: MeasuredParts): void {
  const gauge = (name: string, help: string, labels?: readonly string[]) =>
    registry.make({ kind: 'gauge', name, help, labels })
  const pool = gauge('oracle_db_pool', 'Connections of the pool, and queries that wait for one.', [
    'state',
  ])
  const way = gauge(
    'oracle_bus_seconds',
    'How long a notification of this process to itself took last.',
    ['way'],
  )
  const backup = gauge('oracle_backup_age_seconds', 'How old the newest copy in BACKUP_DIR is.')
  registry.beforeReading(() => {
    for (const [state, count] of Object.entries(store.pool() ?? {})) pool.set(count, { state })
    way.clear()
    const heardInMs = store.heardInMs()
    if (heardInMs !== undefined) way.set(heardInMs / 1000, { way: store.listening() })
    const age = backups?.state.ageSeconds
    if (age !== undefined) backup.set(age)
  })
  measureStorage(registry, store, log)
}

interface Open {
  readonly runs: Readonly<Record<string, number>>
  readonly waiting: number
}

/** Counts what is open in the database, at most every few seconds and one question at a time. */
class OpenCounts {
  readonly #store: Store
  #known: { readonly at: number; readonly open: Open } | undefined
  #asking: Promise<Open | undefined> | undefined

  constructor(store: Store) {
    this.#store = store
  }

  /** Undefined while the database takes too long to say. */
  async read(): Promise<Open | undefined> {
    if (this.#known && performance.now() - this.#known.at < freshMs) return this.#known.open
    this.#asking ??= this.#ask().finally(() => (this.#asking = undefined))
    const timer = new AbortController()
    const tooLate = sleep(databaseMs, undefined, { signal: timer.signal }).catch(() => undefined)
    const open = await Promise.race([this.#asking, tooLate])
    timer.abort()
    if (open) this.#known = { at: performance.now(), open }
    return open
  }

  async #ask(): Promise<Open | undefined> {
    const { db } = this.#store
    try {
      const { rows } = await sql<{ status: string; count: number }>`
        select status, count(*) as count from kernel_runs
        where status in ('queued', 'running', 'waiting') group by status
        union all select 'turns', count(*) from kernel_waiting_turns`.execute(db)
      const runs: Record<string, number> = { queued: 0, running: 0, waiting: 0 }
      let waiting = 0
      for (const { status, count } of rows)
        if (status === 'turns') waiting = Number(count)
        else runs[status] = Number(count)
      return { runs, waiting }
    } catch {
      return undefined
    }
  }
}

/** What is wrong with METRICS_PORT; undefined when nothing is. */
export function metricsPortFault({
  METRICS_PORT: port,
  PORT,
}: KernelEnv): RuntimeError | undefined {
  if (port === undefined || port !== PORT || port === 0) return undefined
  return new RuntimeError('ENV_INVALID', `METRICS_PORT is ${port}, which is PORT.`, {
    hint: 'Take another port for the metrics, or leave METRICS_PORT out: GET /metrics serves them with the operator’s token.',
  })
}

/** Serves the metrics without a token, on a port of their own; for a network that only the operator is in. */
export class MetricsServer {
  readonly #server: Server

  constructor(registry: Registry, log: Log) {
    this.#server = nodeHttp.createServer(
      { headersTimeout: 5_000, requestTimeout: 10_000 },
      (req, res) => {
        const isAsked = req.method === 'GET' && req.url?.split('?')[0] === '/metrics'
        if (!isAsked) return void res.writeHead(404).end()
        registry.text().then(
          (body) => res.writeHead(200, { 'Content-Type': metricsType }).end(body),
          (err: unknown) => {
            log.error({ err }, 'The metrics could not be told')
            res.writeHead(500).end()
          },
        )
      },
    )
    this.#server.maxConnections = 50
    this.#server.unref()
  }

  /** Resolves to the address when the port is open; rejects when it is taken. */
  async open(port: number, host: string): Promise<string> {
    try {
      return (await listen(this.#server, port, host)).url
    } catch (cause) {
      throw new RuntimeError('PORT_IN_USE', `The metrics cannot be served on ${host}:${port}.`, {
        hint: 'Set METRICS_PORT and METRICS_HOST to an address of this machine that is free.',
        cause,
      })
    }
  }

  close(): void {
    this.#server.close()
    this.#server.closeAllConnections()
  }
}

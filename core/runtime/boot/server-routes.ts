import { z } from 'zod'
import type { AnyRoute } from '../../plugin.ts'
import { complaintOf, type PluginRecord } from '../base/plugin-record.ts'
import { runtimeVersion } from '../base/version.ts'
import type { BusState } from '../store/channels/bus-line.ts'
import type { ListeningWay } from '../store/channels/channels.ts'

/** The facts from which the server describes itself. */
export interface ServerFacts {
  readonly environment: string
  readonly records: readonly PluginRecord[]
  readonly signingKeyLoaded: boolean
  databaseConnected(): Promise<boolean>
  /** How this server hears other replicas. */
  listening(): ListeningWay
  /** How the bus of BUS_URL is; undefined where that is not set. */
  bus(): BusState | undefined
  /** Lets plugins say how they are before `/health` answers. */
  checkHealth(): Promise<void>
  /** How the jobs of plugins are; undefined where no plugin has any. */
  jobs(): Promise<JobNumbers | undefined>
  /** How old the newest copy of the database is; undefined where the server makes none. */
  backups(): CopyAge | undefined
  openapi(): unknown
}

/** How old the newest copy of the database is. */
interface CopyAge {
  readonly at?: string
  readonly ageSeconds?: number
  readonly isOverdue: boolean
}

/** The jobs of a server, in numbers. */
interface JobNumbers {
  readonly due: number
  readonly running: number
  readonly dead: number
  readonly lateMs: number
}

/** A job that has waited longer than this for its turn is a sign that too little runs. */
const lateMs = 60_000

/** The keys of the routes by which the server describes itself. */
export const serverRouteKeys = ['GET /', 'GET /health', 'GET /openapi.json'] as const

const timestamp = () => new Date().toISOString()

/** The routes by which the server describes itself: that it is up, how it is, and what it serves. */
export function serverRoutes(
  facts: ServerFacts,
): Record<(typeof serverRouteKeys)[number], AnyRoute> {
  const { environment } = facts
  const records = facts.records.filter(({ isAdded }) => !isAdded)
  return {
    'GET /': {
      auth: 'public',
      summary: 'Says that the server is up.',
      output: z.object({
        status: z.string(),
        message: z.string(),
        environment: z.string(),
        timestamp: z.string(),
      }),
      run: () => ({
        status: 'ok',
        message: 'The oracle runtime is up.',
        environment,
        timestamp: timestamp(),
      }),
    },
    'GET /health': {
      auth: 'public',
      summary: 'Says how the server, its database and its plugins are.',
      answers: { 200: ['application/json'], 503: ['application/json'] },
      limit: { max: 6000, perMs: 60_000 }, // a limit of its own, so that other traffic cannot starve probes
      output: healthSchema,
      async run(_, { koa }) {
        const [connected, jobs] = await Promise.all([
          facts.databaseConnected(),
          // A database that does not answer says so itself.
          facts.jobs().catch(() => undefined),
          facts.checkHealth(),
        ])
        const plugins = Object.fromEntries(
          records.map((record) => [record.name, complaintOf(record) ? 'degraded' : record.state]),
        )
        const backup = facts.backups()
        const unwell =
          !connected ||
          backup?.isOverdue ||
          !facts.signingKeyLoaded ||
          (jobs !== undefined && jobs.lateMs > lateMs) ||
          records.some((record) => complaintOf(record) || record.state === 'failed')
        const notes = records.filter(
          (record) => complaintOf(record) || isOut(record) || record.remark,
        )
        if (!connected) koa.status = 503
        koa.set('Cache-Control', 'no-store')
        return {
          status: unwell ? 'degraded' : 'ok',
          environment,
          timestamp: timestamp(),
          uptime: process.uptime(),
          database: connected ? 'connected' : 'unreachable',
          listening: facts.listening(),
          bus: facts.bus(),
          signingKey: facts.signingKeyLoaded ? 'loaded' : 'missing',
          plugins,
          ...(jobs && { jobs }),
          ...(backup && { backup }),
          ...(notes.length && { notes: notes.map(note) }),
          runtime: runtimeVersion,
        }
      },
    },
    'GET /openapi.json': {
      auth: 'public',
      summary: 'This API as an OpenAPI 3.1 document.',
      run: () => facts.openapi(),
    },
  }
}

const healthSchema = z.object({
  status: z.enum(['ok', 'degraded']),
  environment: z.string(),
  timestamp: z.string(),
  uptime: z.number().describe('Seconds since the process started'),
  database: z.enum(['connected', 'unreachable']),
  listening: z
    .enum(['bus', 'direct', 'redis', 'polling'])
    .describe(
      'How other replicas are heard: by the bus of BUS_URL, from the database, by Redis, or by looking into a table',
    ),
  bus: z
    .object({ kind: z.enum(['nats', 'redis']), isUp: z.boolean(), awaySeconds: z.number() })
    .optional()
    .describe('The bus of BUS_URL, and for how long this server has been without it'),
  signingKey: z.enum(['loaded', 'missing']),
  plugins: z.record(z.string(), z.string()),
  jobs: z
    .object({ due: z.number(), running: z.number(), dead: z.number(), lateMs: z.number() })
    .optional()
    .describe(
      'Jobs whose time has come, that run and that are dead, and how late the first of them is',
    ),
  backup: z
    .object({
      at: z.string().optional(),
      ageSeconds: z.number().optional(),
      isOverdue: z.boolean(),
    })
    .optional()
    .describe('The newest copy in BACKUP_DIR, and whether two of them are missing'),
  notes: z
    .array(
      z.object({ plugin: z.string(), state: z.string(), since: z.string(), check: z.string() }),
    )
    .optional()
    .describe(
      'What is pending, failed, excluded or complaining, since when, and what to check; and what plugins that are well say beside',
    ),
  runtime: z.string(),
})

/** Whether a plugin is missing though no operator switched it off. */
const isOut = ({ state }: PluginRecord): boolean =>
  state === 'pending' || state === 'failed' || state === 'excluded'

function note(record: PluginRecord) {
  const { name, state, since, reason } = record
  const complaint = complaintOf(record)
  return {
    plugin: name,
    state: complaint ? 'degraded' : state,
    since: since.toISOString(),
    check: complaint ?? reason ?? record.remark ?? '',
  }
}

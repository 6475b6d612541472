import { z } from 'zod'
import type { AnyRoute } from '../../plugin.ts'
import type { PluginRecord } from '../base/plugin-record.ts'
import { runtimeVersion } from '../base/version.ts'

/** What the server says of itself is made of these. */
export interface ServerFacts {
  readonly environment: string
  readonly records: readonly PluginRecord[]
  readonly signingKeyLoaded: boolean
  databaseConnected(): Promise<boolean>
  /** Lets plugins say how they are before `/health` answers. */
  checkHealth(): Promise<void>
  openapi(): unknown
}

/** The keys of the routes by which the server describes itself. */
export const serverRouteKeys = ['GET /', 'GET /health', 'GET /openapi.json'] as const

const timestamp = () => new Date().toISOString()

/** The routes by which the server describes itself: that it is up, how it is, and what it serves. */
export function serverRoutes(
  facts: ServerFacts,
): Record<(typeof serverRouteKeys)[number], AnyRoute> {
  const { environment, records } = facts
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
      limit: { max: 6000, perMs: 60_000 }, // a bucket of its own: probes are not starved by other traffic
      output: healthSchema,
      async run(_, { koa }) {
        const [connected] = await Promise.all([facts.databaseConnected(), facts.checkHealth()])
        const plugins = Object.fromEntries(
          records.map((record) => [record.name, record.complaint ? 'degraded' : record.state]),
        )
        const unwell =
          !connected ||
          !facts.signingKeyLoaded ||
          records.some((record) => record.complaint || record.state === 'failed')
        const notes = records.filter((record) => record.complaint || isOut(record))
        if (!connected) koa.status = 503
        koa.set('Cache-Control', 'no-store')
        return {
          status: unwell ? 'degraded' : 'ok',
          environment,
          timestamp: timestamp(),
          uptime: process.uptime(),
          database: connected ? 'connected' : 'unreachable',
          signingKey: facts.signingKeyLoaded ? 'loaded' : 'missing',
          plugins,
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
  signingKey: z.enum(['loaded', 'missing']),
  plugins: z.record(z.string(), z.string()),
  notes: z
    .array(
      z.object({ plugin: z.string(), state: z.string(), since: z.string(), check: z.string() }),
    )
    .optional()
    .describe('What is pending, failed, excluded or complaining, since when, and what to check'),
  runtime: z.string(),
})

/** Not there, though no operator switched it off. */
const isOut = ({ state }: PluginRecord): boolean =>
  state === 'pending' || state === 'failed' || state === 'excluded'

function note({ name, state, since, reason, complaint }: PluginRecord) {
  return {
    plugin: name,
    state: complaint ? 'degraded' : state,
    since: since.toISOString(),
    check: complaint ?? reason ?? '',
  }
}

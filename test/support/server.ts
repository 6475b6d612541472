import { RuntimeError } from '../../core/errors.ts'
import type { Log, RouteContext, User } from '../../core/plugin.ts'
import type { Access } from '../../core/runtime/http/routes/access.ts'
import { type DataDir, openDataDir } from '../../core/runtime/store/data-dir.ts'
import { idempotencyMigration } from '../../core/runtime/http/limits/idempotency.ts'
import { Notices } from '../../core/runtime/notices/notices.ts'
import { noticesMigration } from '../../core/runtime/notices/tables.ts'
import { Http, type HttpOptions } from '../../core/runtime/http/http.ts'
import type { ServedRoute } from '../../core/runtime/http/routes/run-route.ts'
import { fileMigrations } from '../../core/runtime/files/tables.ts'
import { runMigrations } from '../../core/runtime/turns/journal/tables.ts'
import { Runs } from '../../core/runtime/turns/carry/runs.ts'
import type { RunsOptions } from '../../core/runtime/turns/carry/runs-options.ts'
import { turnRoutes, type TurnRoutesOptions } from '../../core/runtime/turns/wire/routes.ts'
import type { SelfTest } from '../../core/runtime/store/channels/channels.ts'
import { openStore, type Store } from '../../core/runtime/store/store.ts'
import { type EventStream, openStream } from './event-stream.ts'

/** What a replica of a test is made of. */
export interface ReplicaOptions
  extends
    Partial<Omit<RunsOptions, 'store' | 'engine'>>,
    Pick<TurnRoutesOptions, 'checkRequest' | 'loadCapabilities'> {
  readonly engine: RunsOptions['engine']
  readonly databaseUrl?: string
  /** What carries the messages of the replicas beside the database. */
  readonly busUrl?: string
  /** How often the replica finds out whether it hears itself. */
  readonly selfTest?: SelfTest
  /** Where SQLite keeps its file, or the path of that folder; without it, in memory. */
  readonly dataDir?: DataDir | string
  readonly sse?: HttpOptions['sse']
  /** Whether clients' addresses are what X-Forwarded-For says. */
  readonly trustProxy?: boolean
  /** False: the replica never hears what other replicas tell it. */
  readonly listening?: boolean
}

/** One line that the runtime logged. */
export interface Logged {
  readonly level: string
  readonly fields: Record<string, unknown>
  readonly message: string
}

/** An answer of a replica. */
export interface Called {
  readonly status: number
  readonly headers: Headers
  // any: a test states what it expects of the value, and fails when the value is another
  readonly body: any
}

/** A server with sessions and runs and nothing else, for an engine that a test makes up. */
export interface Replica {
  readonly url: string
  readonly runs: Runs
  readonly notices: Notices
  readonly store: Store
  readonly http: Http
  readonly logged: Logged[]
  call(method: string, path: string, body?: unknown, did?: string): Promise<Called>
  /** A stream of a GET, or of a POST when there is a body. */
  stream(path: string, body?: unknown, headers?: Record<string, string>): Promise<EventStream>
  /** A new session of the usual user. */
  session(did?: string): Promise<string>
  close(): Promise<void>
}

/** The usual user of these tests, and the fake at the door: a token is the DID of whoever has it. */
export const someone = 'did:key:zSomeone'
const fakeAccess: Access = {
  async byPlugin(_, __, find) {
    const found = await find()
    if (found) return { caller: found.caller }
    throw new RuntimeError('UNAUTHORIZED', 'No valid credential came with the request.')
  },
  async authorize(_, koa) {
    const did = /^Bearer (did:\S+)$/.exec(koa.headers.authorization ?? '')?.[1]
    if (!did) throw new RuntimeError('UNAUTHORIZED', 'No valid credential came with the request.')
    return { caller: did, user: fakeUser(did) }
  },
  demand: () => undefined,
  optional: async () => undefined,
}

/** A user of these tests, who may do everything. */
export const fakeUser = (did: string): User => ({ did, can: () => true, denial: () => [] })

/** Starts a replica. */
export async function startServer(options: ReplicaOptions): Promise<Replica> {
  const {
    engine,
    databaseUrl,
    busUrl,
    selfTest,
    dataDir,
    sse,
    trustProxy = false,
    listening = true,
    checkRequest,
    loadCapabilities,
    ...rest
  } = options
  const logged: Logged[] = []
  const at = (level: string) => (fields: object | string, message?: string) =>
    void logged.push(
      typeof fields === 'string'
        ? { level, fields: {}, message: fields }
        : { level, fields: { ...fields }, message: message ?? '' },
    )
  const log: Log = { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
  const store = await openStore({
    databaseUrl,
    busUrl,
    selfTest,
    dataDir: typeof dataDir === 'string' ? await openDataDir(dataDir) : dataDir,
    log,
  })
  await store.migrate('kernel', {
    '001-idempotency': idempotencyMigration,
    '006-notices': noticesMigration,
  })
  await store.migrate('kernel-runs', runMigrations)
  await store.migrate('kernel-files', fileMigrations)
  const notices = new Notices({ store, log, now: () => store.now })
  const runs = new Runs({
    store: listening ? store : { ...store, listen: async () => async () => {} },
    engine,
    log,
    leaseMs: 10_000,
    retentionHours: 72,
    oracle: { name: 'Test oracle', did: 'did:key:zOracle' },
    notices,
    ...rest,
  })
  await runs.open()
  const http = new Http({
    log,
    routes: Object.entries(
      turnRoutes({ runs, db: store.db, log, checkRequest, loadCapabilities }),
    ).map(([key, route]): ServedRoute => {
      // The real context has more members; these routes use those that the edge adds.
      const context: ServedRoute['context'] = (base) =>
        Object.assign(base, { env: {}, self: {} }) as unknown as RouteContext
      return { key, owner: 'the kernel', route, context }
    }),
    access: fakeAccess,
    limits: { ratePerMinute: 1_000_000, trustProxy },
    cors: '*',
    db: store.db,
    version: '0.0.0',
    sse,
  })
  const { url } = await http.listen({ port: 0, host: '127.0.0.1' })
  let closed: Promise<void> | undefined
  const close = () =>
    (closed ??= Promise.all([runs.close(), http.close(500)]).then(() => store.close()))

  const call = async (method: string, path: string, body?: unknown, did = someone) => {
    const response = await fetch(url + path, {
      method,
      headers: {
        Authorization: `Bearer ${did}`,
        ...(body !== undefined && { 'Content-Type': 'application/json' }),
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    })
    const text = await response.text()
    return { status: response.status, headers: response.headers, body: JSON.parse(text) }
  }
  return {
    url,
    runs,
    notices,
    store,
    http,
    logged,
    call,
    stream: (path, body, headers) =>
      openStream(url + path, { Authorization: `Bearer ${someone}`, ...headers }, body),
    session: async (did) => (await call('POST', '/sessions', undefined, did)).body.sessionId,
    close,
  }
}

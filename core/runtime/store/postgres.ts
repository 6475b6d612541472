import { CompiledQuery, type Kysely, PostgresDialect, PostgresDriver } from 'kysely'
import type {
  AbortableOperationOptions,
  DatabaseConnection,
  PostgresDialectConfig,
  QueryExecutor,
  QueryResult,
  TransactionSettings,
} from 'kysely'
import pg from 'pg'
import type { Log } from '../../plugin.ts'
import { RuntimeError } from '../../errors.ts'
import { type ChannelMessage, toldIn } from './channels/channels.ts'
import { translated } from './database-errors.ts'
import { PoolLine } from './turnstile.ts'
import { forever } from '../base/until-aborted.ts'

const int8 = 20
const numeric = 1700

/** Numbers where pg would give strings. What is not a safe integer stays exact: a bigint, a text. */
const types: pg.CustomTypesConfig = {
  getTypeParser: ((oid: number, format?: 'text' | 'binary') => {
    if (format !== 'binary' && oid === int8) return parseInteger
    // `sum` of bigints is a numeric without a fraction; a sum with a fraction stays text, as money must.
    if (format !== 'binary' && oid === numeric)
      return (text: string) => (/^-?\d+$/.test(text) ? parseInteger(text) : text)
    return pg.types.getTypeParser(oid, format)
  }) as typeof pg.types.getTypeParser, // its overloads cannot be written as one function
}

function parseInteger(text: string): number | bigint {
  const number = Number(text)
  return Number.isSafeInteger(number) ? number : BigInt(text)
}

/**
 * How long PostgreSQL lets a statement run, and a transaction lie idle. A setting in the URL itself (`?statement_timeout=0`)
 * goes first.
 */
const serverLimits = { statement_timeout: 30_000, idle_in_transaction_session_timeout: 60_000 }

/**
 * How PostgreSQL learns of the limits: from the parameters by which a connection starts, or, where something between
 * refuses those, from each transaction. A statement without a transaction then has the client's limit only.
 */
export type LimitsBy = 'startup' | 'transaction'

/** The settings of connections, and what they were made of. */
export interface PostgresSettings {
  readonly settings: pg.PoolConfig
  /** Host, port and database, for messages: the URL holds the password. */
  readonly target: string
  /** What sets the limits at the beginning of a transaction; undefined where connections start with the limits. */
  readonly limits: string | undefined
}

/** The settings of connections to the server at a URL, which stands in the variable `name`. */
export function postgresSettings(
  url: string,
  by: LimitsBy = 'startup',
  name = 'DATABASE_URL',
): PostgresSettings {
  const scheme = /^(\w+):/.exec(url)?.[1]
  const wrong = (why: string) =>
    // Never the URL itself, nor a cause that quotes it: it holds the password.
    new RuntimeError('ENV_INVALID', `${name} ${why}.`, {
      hint: 'It has the form postgres://user:password@host:5432/database; encode special characters of the password (%40 for @).',
    })
  if (scheme !== 'postgres' && scheme !== 'postgresql')
    throw wrong(scheme ? `begins with "${scheme}:"` : 'is not a URL')
  let host: string, port: number, database: string | undefined
  try {
    ;({ host, port, database } = new pg.Client(url))
  } catch {
    throw wrong('cannot be read as a URL')
  }
  const { connectionString, limits } = by === 'startup' ? startingWith(url) : without(url)
  return {
    target: `${host}:${port}/${database}`,
    limits,
    settings: {
      connectionString,
      fallback_application_name: 'oracle-runtime',
      types,
      connectionTimeoutMillis: 5_000,
      idleTimeoutMillis: 30_000,
      ...(by === 'startup' && serverLimits),
      // PostgreSQL ends a slow statement itself; this limit is for a server that fell silent.
      query_timeout: 35_000,
      keepAlive: true,
      keepAliveInitialDelayMillis: 10_000,
    },
  }
}

const startingWith = (url: string) => ({ connectionString: url, limits: undefined })

/** The URL without the limits, and the SQL that sets them: those of the URL where it has some. */
function without(url: string) {
  const asked: Record<string, string> = {}
  const connectionString = url.replaceAll(
    /(?<=[?&])(statement_timeout|idle_in_transaction_session_timeout)=(\d+)(&|$)/g,
    (_, limit: string, ms: string) => {
      asked[limit] = ms
      return ''
    },
  )
  const limits = Object.entries(serverLimits).map(
    ([limit, ms]) => `set local ${limit} = ${asked[limit] ?? ms}`,
  )
  return { connectionString, limits: limits.join('; ') }
}

/** Whether a pooler refused the parameters by which a connection starts. */
export const isParameterRefused = (error: unknown): boolean =>
  error instanceof Error && /\bstartup parameter\b/i.test(error.message)

/**
 * A client that ends itself after an answer failed to come. pg would hand the client back to the pool, and the next
 * query on the client would wait behind the same silence.
 */
export class Client extends pg.Client {
  // any: the overloads of pg, passed through
  override query(...args: any[]): any {
    const answer = Reflect.apply(super.query, this, args)
    if (!(answer instanceof Promise)) return answer
    return answer.catch((error: Error) => {
      if (error.message === 'Query read timeout') void this.end()
      throw error
    })
  }

  /** Says goodbye, but does not wait for an answer beyond `graceMs`. */
  async leave(graceMs: number): Promise<void> {
    const cut = setTimeout(() => this.connection.stream.destroy(), graceMs)
    await this.end()
    clearTimeout(cut)
  }
}

type OnConnect = Parameters<pg.Pool['connect']>[0]

/** A pool whose lost connections are a line in the log and never the end of the process. */
export class Pool extends pg.Pool {
  readonly #open = new Set<pg.PoolClient>()
  readonly #out = new Set<pg.PoolClient>()
  readonly #line: PoolLine
  #isCut = false

  constructor(settings: pg.PoolConfig, log: Log) {
    super({ ...settings, Client: Client as new () => pg.ClientBase }) // pg's type forgets the parameter
    this.on('error', (error) =>
      log.warn({ reason: error.message }, 'A connection to the database was lost'),
    )
    this.on('connect', (client) => {
      this.#open.add(client)
      client.once('end', () => this.#open.delete(client))
      // The pool listens to idle clients only. One that breaks between two statements of a
      // transaction would throw out of its socket; its holder learns of it from the next statement.
      client.on('error', () => {})
    })
    this.#line = new PoolLine(this.options.max)
    this.on('release', (_, client) => this.#out.delete(client) && this.#line.leave())
  }

  /** How many wait for a connection. */
  get inLine(): number {
    return this.waitingCount + this.#line.length
  }

  /** Whether the pool's process counts as dead. */
  get isCut(): boolean {
    return this.#isCut
  }

  /** Breaks every connection as the death of the process would. From then on no query of the pool answers. */
  cut(): void {
    this.#isCut = true
    this.#break()
  }

  override connect(): Promise<pg.PoolClient>
  override connect(callback: OnConnect): void
  override connect(callback?: OnConnect): Promise<pg.PoolClient> | void {
    if (this.#isCut) return callback ? undefined : forever()
    const connecting = this.#line
      .enter()
      .then(() => (this.#isCut ? forever() : this.#takeOut(super.connect())))
    if (!callback) return connecting
    connecting.then(
      (client) => callback(undefined, client, (error) => client.release(error)),
      (error: Error) => callback(error, undefined, () => {}),
    )
  }

  async #takeOut(connecting: Promise<pg.PoolClient>): Promise<pg.PoolClient> {
    try {
      const client = await connecting
      this.#out.add(client)
      return client
    } catch (error) {
      this.#line.leave()
      throw error
    }
  }

  /** Ends when the queries that run are done, or in the middle of them after `graceMs`. */
  async close(graceMs: number): Promise<void> {
    const cut = setTimeout(() => this.#break(), graceMs)
    // Not `once` of node:events, which rejects for a connection that breaks meanwhile: that one has ended too.
    const closed = [...this.#open].map(
      (client) => new Promise<void>((resolve) => void client.once('end', resolve)),
    )
    await this.end()
    await Promise.all(closed)
    clearTimeout(cut)
  }

  #break(): void {
    for (const client of this.#open) (client as pg.PoolClient & Client).connection.stream.destroy()
  }
}

/** What a dialect is made of, and the SQL with which its transactions begin. */
interface PortableConfig extends PostgresDialectConfig {
  readonly limits?: string | undefined
  /** Whom the driver tells, after the commit, what statements have told by `told`. */
  readonly channels?: {
    readonly isTelling: boolean
    /** The words of a statement that notifies, as they are to be said now. */
    adapted(sql: string): string
    told(messages: readonly ChannelMessage[]): void
  }
}

/** Kysely's dialect, with streams (by a cursor) and with errors that say when the database does not answer. */
export class PortableDialect extends PostgresDialect {
  readonly #config: PortableConfig

  constructor(config: PortableConfig) {
    super(config)
    this.#config = config
  }

  override createDriver(): PostgresDriver {
    return new PortableDriver(this.#config)
  }
}

class PortableDriver extends PostgresDriver {
  readonly #pool: PostgresDialectConfig['pool']
  readonly #limits: string | undefined
  readonly #channels: PortableConfig['channels']
  /** What open transactions have told, which counts once they are committed. */
  readonly #toTell = new WeakMap<DatabaseConnection, ChannelMessage[]>()
  readonly #known = new WeakSet<DatabaseConnection>()
  readonly #inTransaction = new WeakSet<DatabaseConnection>()

  constructor(config: PortableConfig) {
    super(config)
    this.#pool = config.pool
    this.#limits = config.limits
    this.#channels = config.channels
  }

  override async acquireConnection(
    options?: AbortableOperationOptions,
  ): Promise<DatabaseConnection> {
    // A process that counts as dead does not even hear that its connection broke.
    const rethrow = (error: unknown): Promise<never> => {
      if (this.#pool instanceof Pool && this.#pool.isCut) return forever()
      throw translated(error)
    }
    const connection = await super.acquireConnection(options).catch(rethrow)
    if (this.#known.has(connection)) return connection
    this.#known.add(connection)
    // Kysely releases the connection that it made, so the driver changes that object instead of wrapping it.
    const executeQuery = connection.executeQuery.bind(connection)
    connection.executeQuery = async (query, abort) => {
      const isNotifying = this.#channels !== undefined && query.sql.includes('pg_notify(')
      const said = isNotifying ? { ...query, sql: this.#channels.adapted(query.sql) } : query
      const result = await executeQuery<any>(said, abort).catch(rethrow)
      if (isNotifying && this.#channels.isTelling) this.#told(connection, toldIn(result.rows))
      return result
    }
    connection.streamQuery = (query, chunkSize) =>
      streamByCursor(connection, query, chunkSize, {
        inTransaction: this.#inTransaction.has(connection),
        begin: this.#withLimits('begin read only'),
      })
    return connection
  }

  override async beginTransaction(
    connection: DatabaseConnection,
    settings: TransactionSettings,
  ): Promise<void> {
    const executeQuery: DatabaseConnection['executeQuery'] = ({ sql }, abort) =>
      connection.executeQuery(CompiledQuery.raw(this.#withLimits(sql)), abort)
    // Kysely's words for the beginning and the limits go to the server together: a far one is asked once.
    await super.beginTransaction(
      this.#limits ? { ...connection, executeQuery } : connection,
      settings,
    )
    this.#inTransaction.add(connection)
  }

  override async commitTransaction(
    connection: Parameters<PostgresDriver['commitTransaction']>[0],
  ): Promise<void> {
    await super.commitTransaction(connection)
    this.#channels?.told(this.#toTell.get(connection) ?? [])
    this.#toTell.delete(connection)
  }

  #told(connection: DatabaseConnection, messages: readonly ChannelMessage[]): void {
    if (!this.#inTransaction.has(connection)) return this.#channels?.told(messages)
    this.#toTell.set(connection, [...(this.#toTell.get(connection) ?? []), ...messages])
  }

  #withLimits(begin: string): string {
    return this.#limits === undefined ? begin : `${begin}; ${this.#limits}`
  }

  override async releaseConnection(
    connection: Parameters<PostgresDriver['releaseConnection']>[0],
  ): Promise<void> {
    this.#inTransaction.delete(connection)
    this.#toTell.delete(connection)
    await super.releaseConnection(connection)
  }
}

/**
 * Has what stands outside of transactions go straight to the pool: Kysely's way there costs as much as the driver itself. What
 * is built with Kysely comes here compiled; streams and transactions go their own way.
 */
export function goStraight(
  db: Pick<Kysely<unknown>, 'getExecutor'>,
  pool: Pool,
  channels: PortableConfig['channels'],
): void {
  const executor: QueryExecutor = db.getExecutor()
  const longWay = executor.executeQuery.bind(executor)
  const isDead = (error: unknown) => (pool.isCut ? forever() : Promise.reject(translated(error)))
  executor.executeQuery = async <R>(query: CompiledQuery<R>, options?: object) => {
    if (options !== undefined) return longWay<R>(query, options)
    const isNotifying = channels !== undefined && query.sql.includes('pg_notify(')
    const text = isNotifying ? channels.adapted(query.sql) : query.sql
    const client = await pool.connect().catch(isDead)
    try {
      const { command, rowCount, rows } = await client.query(text, query.parameters as unknown[])
      if (isNotifying && channels.isTelling) channels.told(toldIn(rows ?? []))
      const isCounted = /^(INSERT|UPDATE|DELETE|MERGE)$/.test(command)
      return { rows: rows ?? [], ...(isCounted && { numAffectedRows: BigInt(rowCount ?? 0) }) }
    } catch (error) {
      return await isDead(error)
    } finally {
      client.release()
    }
  }
}

let cursors = 0

async function* streamByCursor<R>(
  connection: DatabaseConnection,
  query: CompiledQuery,
  chunkSize: number,
  { inTransaction, begin }: { readonly inTransaction: boolean; readonly begin: string },
): AsyncGenerator<QueryResult<R>> {
  const run = (sql: string, parameters: readonly unknown[] = []) =>
    connection.executeQuery<R>(CompiledQuery.raw(sql, [...parameters]))
  const cursor = `rows_${++cursors}`
  if (!inTransaction) await run(begin)
  let broken = false
  try {
    await run(`declare ${cursor} no scroll cursor for ${query.sql}`, query.parameters)
    while (true) {
      const { rows } = await run(`fetch ${chunkSize} from ${cursor}`)
      if (rows.length > 0) yield { rows }
      if (rows.length < chunkSize) break
    }
  } catch (error) {
    broken = true
    throw error
  } finally {
    // After a failure the first error counts. The owner of the transaction rolls it back, and a
    // connection that cannot even roll back is not used again.
    if (!inTransaction) await run('rollback').catch(() => {})
    else if (!broken) await run(`close ${cursor}`)
  }
}

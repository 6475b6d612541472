import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  AbortedTransactionError,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from 'kysely'
import type {
  CompiledQuery,
  DatabaseConnection,
  Dialect,
  Driver,
  QueryResult,
  TransactionSettings,
} from 'kysely'
import { isConnectionError, isFileBusy, translated } from './database-errors.ts'
import { Statement, StatementCache } from './sqlite-statements.ts'
import { Turnstile } from './turnstile.ts'
import type { WalSync } from './wal-sync.ts'

/** How long a file may be held by another process before that is an error. */
const fileBusyMs = 5_000

/** Opens a database file, or `:memory:`, so that what was committed survives a crash, and with `WalSync` a power cut. */
export function openSqlite(path: string): DatabaseSync {
  const database = new DatabaseSync(path)
  database.exec('pragma busy_timeout = 5000')
  database.exec('pragma journal_mode = wal')
  // With FULL every commit stops the event loop until the disk has answered: `WalSync` waits beside it.
  database.exec('pragma synchronous = normal')
  database.exec('pragma foreign_keys = on')
  // Temporary files would lie outside the data directory, readable to others.
  database.exec('pragma temp_store = memory')
  database.exec('pragma journal_size_limit = 67108864')
  // From here on the connection itself waits for a file in use, and the event loop turns meanwhile.
  database.exec('pragma busy_timeout = 10')
  return database
}

interface SqliteOptions {
  /** How long a query waits for its turn. */
  readonly patienceMs?: number
  /** Told whenever the file could not be used: it is full, held by somebody, read-only or broken. */
  readonly onUnusable?: () => void
  /** With it, what changes the database resolves when it is on the disk. */
  readonly wal?: WalSync
}

/**
 * Kysely over `node:sqlite`: one connection, held by one query, transaction or stream at a time. On `unsynced`, a change
 * resolves as soon as it would survive the process.
 */
export function sqliteDialect(
  database: DatabaseSync,
  { patienceMs = 10_000, onUnusable = () => {}, wal }: SqliteOptions = {},
): Dialect & { readonly unsynced: Dialect } {
  const turnstile = new Turnstile(patienceMs)
  const connection = new SqliteConnection(database, turnstile, onUnusable)
  const dialect = (wal?: WalSync): Dialect => ({
    createAdapter: () => new Adapter(),
    createDriver: () => new SqliteDriver({ database, turnstile, connection, wal }),
    createIntrospector: (db) => new SqliteIntrospector(db),
    createQueryCompiler: () => new SqliteQueryCompiler(),
  })
  return { ...dialect(wal), unsynced: dialect() }
}

class Adapter extends SqliteAdapter {
  // "False" puts Kysely's own lock before the connection, which lets newcomers overtake.
  override get supportsMultipleConnections(): boolean {
    return true
  }
  override get supportsTransactionalDdl(): boolean {
    return true
  }
}

interface DriverParts {
  readonly database: DatabaseSync
  readonly turnstile: Turnstile
  readonly connection: SqliteConnection
  readonly wal: WalSync | undefined
}

class SqliteDriver implements Driver {
  readonly #database: DatabaseSync
  readonly #turnstile: Turnstile
  readonly #connection: SqliteConnection
  readonly #wal: WalSync | undefined

  constructor({ database, turnstile, connection, wal }: DriverParts) {
    this.#database = database
    this.#turnstile = turnstile
    this.#connection = connection
    this.#wal = wal
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<DatabaseConnection> {
    await this.#turnstile.enter()
    return this.#connection
  }

  async releaseConnection(): Promise<void> {
    // Somebody's own "begin" without an end would swallow the writes of whoever comes next.
    if (this.#connection.isTransaction) this.#connection.rollback()
    const hasChanged = this.#connection.takeChanged()
    this.#turnstile.leave()
    // The next one is inside already: those who commit in the meantime share a sync.
    if (hasChanged) await this.#wal?.synced()
  }

  beginTransaction(_: DatabaseConnection, settings: TransactionSettings): Promise<void> {
    return this.#connection.begin(settings)
  }

  async commitTransaction(): Promise<void> {
    this.#connection.commit()
  }

  async rollbackTransaction(): Promise<void> {
    this.#connection.rollback()
  }

  async savepoint(_: DatabaseConnection, name: string): Promise<void> {
    this.#connection.savepoint('savepoint', name)
  }

  async rollbackToSavepoint(_: DatabaseConnection, name: string): Promise<void> {
    this.#connection.savepoint('rollback to', name)
  }

  async releaseSavepoint(_: DatabaseConnection, name: string): Promise<void> {
    this.#connection.savepoint('release', name)
  }

  async destroy(): Promise<void> {
    // Whoever is inside may finish; whoever never does is rolled back.
    await this.#turnstile.enter().catch(() => {})
    if (this.#database.isOpen) this.#database.close()
    this.#turnstile.leave()
  }
}

class SqliteConnection implements DatabaseConnection {
  readonly #database: DatabaseSync
  readonly #turnstile: Turnstile
  readonly #statements: StatementCache
  readonly #onUnusable: () => void
  #transaction: 'none' | 'open' | 'aborted' = 'none'
  #hasChanged = false

  constructor(database: DatabaseSync, turnstile: Turnstile, onUnusable: () => void) {
    this.#database = database
    this.#turnstile = turnstile
    this.#onUnusable = onUnusable
    this.#statements = new StatementCache(database)
  }

  /** Whether something was changed since this was asked last. */
  takeChanged(): boolean {
    const hasChanged = this.#hasChanged
    this.#hasChanged = false
    return hasChanged
  }

  /** What SQLite says, which is not always what we asked it for. */
  get isTransaction(): boolean {
    return this.#database.isOpen && this.#database.isTransaction
  }

  executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
    return this.#patiently(() => {
      this.#refuseWhenAborted()
      const statement = this.#statements.get(query.sql)
      const result = statement.execute<R>(query.parameters)
      if (statement.changes) this.#hasChanged = true
      if (statement.changesSchema) this.#statements.clear()
      return result
    })
  }

  async *streamQuery<R>(query: CompiledQuery, chunkSize: number): AsyncGenerator<QueryResult<R>> {
    this.#refuseWhenAborted()
    try {
      // A statement of its own: the same query inside the loop would start the cached one anew.
      const statement = new Statement(this.#database, query.sql)
      if (statement.changes) this.#hasChanged = true
      let rows: R[] = []
      for (const row of statement.iterate<R>(query.parameters)) {
        rows.push(row)
        if (rows.length < chunkSize) continue
        yield { rows }
        rows = []
        await this.#turnstile.breathe()
      }
      if (rows.length > 0) yield { rows }
    } catch (error) {
      throw this.#failed(error)
    }
  }

  async begin({ accessMode }: TransactionSettings): Promise<void> {
    // Taking the write lock only at the first write can fail halfway when another process writes.
    const begin = accessMode === 'read only' ? 'begin' : 'begin immediate'
    await this.#patiently(() => this.#database.exec(begin))
    this.#transaction = 'open'
  }

  commit(): void {
    if (this.#transaction === 'aborted') {
      this.rollback()
      throw new AbortedTransactionError()
    }
    try {
      this.#database.exec('commit')
    } catch (error) {
      throw this.#failed(error)
    }
    this.#transaction = 'none'
  }

  rollback(): void {
    this.#transaction = 'none'
    this.#hasChanged = false
    this.#statements.clear()
    // A full disk, among others, has SQLite roll back by itself.
    if (this.isTransaction) this.#database.exec('rollback')
  }

  savepoint(command: 'savepoint' | 'rollback to' | 'release', name: string): void {
    if (command !== 'rollback to') this.#refuseWhenAborted()
    this.#database.exec(`${command} "${name.replaceAll('"', '""')}"`)
    if (command !== 'rollback to') return
    this.#statements.clear()
    this.#transaction = 'open'
  }

  /** Another process may hold the file: what SQLite refuses as busy has not happened, so try again. */
  async #patiently<T>(work: () => T): Promise<T> {
    for (let since: number | undefined; ;) {
      try {
        return work()
      } catch (error) {
        since ??= performance.now()
        const late = performance.now() - since > fileBusyMs
        if (late || this.#transaction !== 'none' || !isFileBusy(error)) throw this.#failed(error)
        await sleep(10)
      }
    }
  }

  // PostgreSQL refuses every statement after one has failed in a transaction, until it is rolled
  // back. SQLite would go on; then code would pass here and break on the other database.
  #refuseWhenAborted(): void {
    if (this.#transaction === 'aborted')
      throw new Error('A statement of this transaction has failed: it can only be rolled back.')
  }

  #failed(error: unknown): unknown {
    if (this.#transaction === 'open') this.#transaction = 'aborted'
    const failure = translated(error)
    if (isConnectionError(failure)) this.#onUnusable()
    return failure
  }
}

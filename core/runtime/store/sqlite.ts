import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
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
import { forever } from '../base/until-aborted.ts'
import { isInTransaction, isDatabaseOpen } from './sqlite/older-node.ts'
import { Statement, StatementCache } from './sqlite/statements.ts'
import { Stay } from './sqlite/stay.ts'
import { Turnstile } from './turnstile.ts'
import type { WalSync } from './wal-sync.ts'

/** How long a query waits for a file that another process holds. */
const fileBusyMs = 5_000

/** Opens a database file, or `:memory:`, so that what was committed survives a crash, and with `WalSync` a power cut. */
export function openSqlite(path: string): DatabaseSync {
  const database = new DatabaseSync(path)
  try {
    return prepared(database)
  } catch (error) {
    database.close()
    throw error
  }
}

/**
 * Opens a database file as `openSqlite` does, while other processes open it too: the first of them changes the file to
 * its log, and SQLite tells those that come in that moment at once, without waiting, that the file is in use.
 */
export async function openSharedSqlite(path: string): Promise<DatabaseSync> {
  for (const until = performance.now() + fileBusyMs; ; await sleep(20)) {
    try {
      return openSqlite(path)
    } catch (error) {
      if (!isFileBusy(error) || performance.now() > until) throw error
    }
  }
}

function prepared(database: DatabaseSync): DatabaseSync {
  database.exec('pragma busy_timeout = 5000')
  // Of a new file: pages that are free can then be given back a few at a time. A file that has tables stays as it is.
  database.exec('pragma auto_vacuum = incremental')
  database.exec('pragma journal_mode = wal')
  // With FULL every commit stops the event loop until the disk has answered: `WalSync` waits beside the loop.
  database.exec('pragma synchronous = normal')
  // A page that many commits change goes to the database file once in as many pages of the log, which is then 16 MiB.
  database.exec('pragma wal_autocheckpoint = 4000')
  database.exec('pragma foreign_keys = on')
  // Temporary files would lie outside the data directory, readable to others.
  database.exec('pragma temp_store = memory')
  database.exec('pragma journal_size_limit = 67108864')
  // From here on `SqliteConnection` waits for a file in use, and the event loop turns meanwhile.
  database.exec('pragma busy_timeout = 10')
  return database
}

/**
 * Closes a database file and leaves the files on the disk as the death of the process would: SQLite itself brings the
 * log into the database when it closes a file, so the bytes of before are put back, and the next opening recovers them.
 */
export function abandonFile(database: DatabaseSync, path: string): void {
  const files = [path, `${path}-wal`].filter((file) => existsSync(file))
  const left = files.map((file) => [file, readFileSync(file)] as const)
  database.close()
  rmSync(`${path}-shm`, { force: true })
  for (const [file, bytes] of left) writeFileSync(file, bytes, { mode: 0o600 })
}

interface SqliteOptions {
  /** How long a query waits for its turn. */
  readonly patienceMs?: number
  /** How long a transaction or a stream may run no statement while others wait; then it is ended. */
  readonly idleMs?: number
  /** Called with where a transaction began that was ended, as far as that is known. */
  readonly onEnded?: (began: Error | undefined) => void
  /** Called whenever SQLite could not use the file: the disk is full, or the file is held elsewhere, read-only or broken. */
  readonly onUnusable?: () => void
  /** True: the database stays open when the dialect is destroyed. */
  readonly isKept?: boolean
  /** With it, a query that changes the database resolves when the change is on the disk. */
  readonly wal?: WalSync
}

/**
 * Runs a statement on the one connection, past Kysely, whose way to it costs as much as many a statement. For whoever has the
 * connection, in a transaction, and nobody else.
 */
export type Direct = <R>(query: CompiledQuery<R>) => Promise<QueryResult<R>>

/** How long a transaction may run no statement while others wait for the database. */
const longestIdleMs = 20_000

/**
 * Kysely over `node:sqlite`: one connection, held by one query, transaction or stream at a time. On `unsynced`, a change
 * resolves as soon as it would survive the process. `direct` makes the short way for the transaction that is open.
 */
export function sqliteDialect(
  database: DatabaseSync,
  options: SqliteOptions = {},
): Dialect & { readonly unsynced: Dialect; direct(): Direct; cut(): void } {
  const { patienceMs = 10_000, idleMs = longestIdleMs, wal, isKept = false } = options
  const { onUnusable = () => {}, onEnded = () => {} } = options
  const turnstile = new Turnstile(patienceMs, () => {
    const { stay } = connection
    if (stay && stay.idleMs >= idleMs) {
      connection.evict()
      onEnded(stay.began)
      turnstile.leave()
    }
    return stay?.began
  })
  const connection = new SqliteConnection(database, turnstile, onUnusable)
  const dialect = (wal?: WalSync): Dialect => ({
    createAdapter: () => new Adapter(),
    createDriver: () => new SqliteDriver({ database, turnstile, connection, wal, isKept }),
    createIntrospector: (db) => new SqliteIntrospector(db),
    createQueryCompiler: () => new SqliteQueryCompiler(),
  })
  return {
    ...dialect(wal),
    unsynced: dialect(),
    direct() {
      const { stay = new Stay(connection) } = connection
      return (query) => stay.executeQuery(query)
    },
    cut: () => connection.cut(),
  }
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
  readonly isKept: boolean
}

class SqliteDriver implements Driver {
  readonly #database: DatabaseSync
  readonly #turnstile: Turnstile
  readonly #connection: SqliteConnection
  readonly #wal: WalSync | undefined
  readonly #isKept: boolean

  constructor({ database, turnstile, connection, wal, isKept }: DriverParts) {
    this.#isKept = isKept
    this.#database = database
    this.#turnstile = turnstile
    this.#connection = connection
    this.#wal = wal
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<Stay> {
    await this.#turnstile.enter()
    if (this.#connection.isCut) return forever()
    return this.#connection.enter()
  }

  async releaseConnection(stay: Stay): Promise<void> {
    if (this.#connection.isCut) return forever()
    if (!this.#connection.leave(stay)) return
    // A "begin" that a plugin ran itself and never ended would swallow the writes of the next query.
    if (this.#connection.isTransaction) this.#connection.rollback()
    const hasChanged = this.#connection.takeChanged()
    this.#turnstile.leave()
    // The next query has the connection already: queries that commit in the meantime share one sync.
    if (hasChanged) await this.#wal?.synced()
  }

  beginTransaction(stay: Stay, settings: TransactionSettings): Promise<void> {
    stay.begin()
    return this.#connection.begin(settings)
  }

  async commitTransaction(stay: Stay): Promise<void> {
    if (this.#connection.isCut) return forever()
    stay.use()
    this.#connection.commit()
  }

  async rollbackTransaction(stay: Stay): Promise<void> {
    if (this.#connection.isCut) return forever()
    // A transaction that was ended is rolled back already.
    if (stay === this.#connection.stay) this.#connection.rollback()
  }

  async savepoint(stay: Stay, name: string): Promise<void> {
    stay.use()
    this.#connection.savepoint('savepoint', name)
  }

  async rollbackToSavepoint(stay: Stay, name: string): Promise<void> {
    stay.use()
    this.#connection.savepoint('rollback to', name)
  }

  async releaseSavepoint(stay: Stay, name: string): Promise<void> {
    stay.use()
    this.#connection.savepoint('release', name)
  }

  async destroy(): Promise<void> {
    // Whoever has the connection may finish; closing the database rolls back a transaction that never ends.
    await this.#turnstile.enter().catch(() => {})
    if (isDatabaseOpen(this.#database) && !this.#isKept) this.#database.close()
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
  #isCut = false
  #stay: Stay | undefined

  constructor(database: DatabaseSync, turnstile: Turnstile, onUnusable: () => void) {
    this.#database = database
    this.#turnstile = turnstile
    this.#onUnusable = onUnusable
    this.#statements = new StatementCache(database)
  }

  /** Who has the connection; undefined while nobody has. */
  get stay(): Stay | undefined {
    return this.#stay
  }

  /** Gives the connection to whoever has come in. */
  enter(): Stay {
    return (this.#stay = new Stay(this))
  }

  /** Takes the connection back. False where it was taken away before. */
  leave(stay: Stay): boolean {
    if (stay !== this.#stay) return false
    this.#stay = undefined
    return true
  }

  /** Takes the connection away from whoever has it, and undoes an open transaction. */
  evict(): void {
    this.#stay?.end()
    this.#stay = undefined
    if (this.isTransaction) this.rollback()
  }

  /** Undoes an open transaction. From then on no call comes back. */
  cut(): void {
    if (this.isTransaction) this.rollback()
    this.#isCut = true
  }

  /** Whether the callers belong to a process that counts as dead. */
  get isCut(): boolean {
    return this.#isCut
  }

  /** Whether a query has changed something since the last call of this. */
  takeChanged(): boolean {
    const hasChanged = this.#hasChanged
    this.#hasChanged = false
    return hasChanged
  }

  /** Whether SQLite says that a transaction is open, which is not always what the driver asked for. */
  get isTransaction(): boolean {
    return isDatabaseOpen(this.#database) && isInTransaction(this.#database)
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

  /** Repeats the work while another process holds the file: what SQLite refuses as busy has not happened. */
  async #patiently<T>(work: () => T): Promise<T> {
    if (this.#isCut) return forever()
    for (let since: number | undefined; ;) {
      try {
        return work()
      } catch (error) {
        since ??= performance.now()
        const late = performance.now() - since > fileBusyMs
        if (late || this.#transaction !== 'none' || !isFileBusy(error)) throw this.#failed(error)
        await sleep(10)
        if (this.#isCut) return forever()
      }
    }
  }

  // PostgreSQL refuses every statement after one has failed in a transaction, until it is rolled
  // back. SQLite would go on; then code would pass here and break on the other database.
  #refuseWhenAborted(): void {
    if (this.#transaction === 'aborted')
      throw new Error(
        'A statement of this transaction has failed: the transaction can only be rolled back.',
      )
  }

  #failed(error: unknown): unknown {
    if (this.#transaction === 'open') this.#transaction = 'aborted'
    const failure = translated(error)
    if (isConnectionError(failure)) this.#onUnusable()
    return failure
  }
}

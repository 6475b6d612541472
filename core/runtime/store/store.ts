import type { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { Kysely, type RawBuilder, sql } from 'kysely'
import { RuntimeError } from '../../errors.ts'
import type { Database, Log, Migrations } from '../../plugin.ts'
import { databaseNow, setNow } from '../base/clock.ts'
import { fieldsIn } from '../base/fields.ts'
import {
  type Channels,
  type ListeningWay,
  localChannels,
  type SelfTest,
} from './channels/channels.ts'
import { channelMigrations, channelsOwner } from './channels/hearers.ts'
import type { BusState } from './channels/bus-line.ts'
import type { DataDir } from './data-dir.ts'
import { isConnectionError, isRefusal, makeRoomOr } from './database-errors.ts'
import { migrate } from './migrate.ts'
import { giveBackPages } from './sqlite/free-pages.ts'
import { isDatabaseOpen, refuseNewerDatabase } from './sqlite/older-node.ts'
import type { PostgresChannels as ListeningChannels } from './postgres-channels.ts'
import type { LimitsBy } from './postgres.ts'
import { type Direct, abandonFile, openSharedSqlite, openSqlite, sqliteDialect } from './sqlite.ts'
import { WalSync } from './wal-sync.ts'

/** How long a closing store waits for the queries that still run. */
const graceMs = 5_000

/** The connections that queries share: how many are at work and idle, and how many queries wait for one. */
export interface PoolState {
  readonly used: number
  readonly idle: number
  readonly waiting: number
}

/** The database of the runtime, with the same behaviour on SQLite and on PostgreSQL. */
export interface Store extends Omit<Channels, 'close'> {
  readonly kind: 'sqlite' | 'postgres'
  readonly db: Database
  /** The path of a SQLite file. */
  readonly file?: string | undefined
  /** The time by the database's clock, or by the clock of a test. Leases go by `databaseNow`, which no test moves. */
  readonly now: RawBuilder<number>
  /**
   * The same database for what a power cut may take back, which is cheaper: what is committed here survives the death
   * of the process, and a power cut once `synced` has resolved. On PostgreSQL there is no difference.
   */
  readonly unsynced: Database
  /** Runs a statement in the open transaction of a SQLite database without Kysely's way to it; undefined on PostgreSQL. */
  readonly direct?: (() => Direct) | undefined
  /** How this process hears others on the same database. */
  listening(): ListeningWay
  /** How the bus of BUS_URL is; undefined where that is not set. */
  bus(): BusState | undefined
  /** How long a message of this process to itself took last; undefined where none has come back, and on SQLite. */
  heardInMs(): number | undefined
  /** How the connections to PostgreSQL are that the queries share; undefined on SQLite. */
  pool(): PoolState | undefined
  /** Resolves when everything that was committed so far is on the disk. */
  synced(): Promise<void>
  /** Gives at most so many free pages of a SQLite file back to the disk; resolves to how many. Elsewhere there are none. */
  giveBack(most: number): Promise<number>
  /** Whether the database answers a question within the time. Never throws. */
  ping(timeoutMs?: number): Promise<boolean>
  /** Runs what this database has not seen of an owner's migrations; resolves to their names. */
  migrate(owner: string, migrations: Migrations): Promise<string[]>
  close(): Promise<void>
  /**
   * Ends all work with the database as the death of the process would: what is committed stays, an open transaction is
   * undone, and no call of this store answers any more. For tests that crash an app.
   */
  cut(): Promise<void>
}

/** What a store is made of. */
export interface StoreOptions {
  /** A postgres:// URL selects PostgreSQL. */
  readonly databaseUrl?: string
  /** Where the SQLite file lies; without it, and without a URL, the database is in memory. */
  readonly dataDir?: DataDir
  readonly log: Log
  /** How long to wait at the start for a PostgreSQL that is still starting itself. */
  readonly patienceMs?: number
  /** True: `now` is the time of a test's clock, which stands in the table `kernel_clock`. */
  readonly isClockSet?: boolean
  /** An open database in memory that outlives the store. */
  readonly memory?: DatabaseSync
  /** How many connections to PostgreSQL the queries share. */
  readonly poolSize?: number
  /** A postgres:// URL without a pooler, for the connection that listens. */
  readonly listenUrl?: string | undefined
  /** Carries messages between replicas where the connection does not hear them. */
  readonly redisUrl?: string | undefined
  /** What carries messages between replicas in the first place: nats:// or redis://. */
  readonly busUrl?: string | undefined
  /** How often the server finds out whether it hears itself. */
  readonly selfTest?: SelfTest
}

/** Opens PostgreSQL, a SQLite file, or a database in memory: the first of them that is described. */
export function openStore(options: StoreOptions): Promise<Store> {
  return options.databaseUrl ? openPostgres(options.databaseUrl, options) : openFile(options)
}

async function openFile({ dataDir, memory, log, isClockSet }: StoreOptions): Promise<Store> {
  const path = dataDir?.file('oracle.sqlite')
  const database = dataDir ? await openInDir(dataDir) : (memory ?? openSqlite(':memory:'))
  const wal = path === undefined ? undefined : new WalSync(path)
  const isKept = database === memory
  let unusable = false
  const dialect = sqliteDialect(database, {
    wal,
    isKept,
    onUnusable: () => (unusable = true),
    onEnded: (err) => log.error({ err }, transactionEnded),
  })
  const db: Database = new Kysely({ dialect })
  return assemble(log, {
    kind: 'sqlite',
    file: path,
    now: nowOf('sqlite', isClockSet),
    db,
    unsynced: new Kysely({ dialect: dialect.unsynced }),
    direct: () => dialect.direct(),
    synced: async () => wal?.synced(),
    migrationDb: db,
    channels: localChannels(log),
    listening: () => 'direct',
    bus: () => undefined,
    heardInMs: () => undefined,
    pool: () => undefined,
    giveBack: (most) => db.connection().execute(async () => giveBackPages(database, most)),
    // Asks beside the line of queries, so that a long transaction does not look like a dead database.
    async ask() {
      // SQLite reads the pages of a broken file again, for somebody may have repaired the file.
      if (unusable) database.exec('pragma shrink_memory')
      database.prepare('pragma schema_version').get()
      if (!unusable) return
      // A file can be read while its disk is full or another process holds it: only a write shows that the file is well.
      await sql`pragma user_version = 0`.execute(db)
      unusable = false
    },
    async end() {
      await db.destroy()
      if (isDatabaseOpen(database) && !isKept) database.close()
      await wal?.close()
    },
    async cut() {
      dialect.cut()
      if (path !== undefined) abandonFile(database, path)
      else if (!isKept) database.close()
      await wal?.close()
    },
  })
}

const transactionEnded =
  'A transaction, or a stream of rows, was ended: it had run no statement for long while others waited for the database'

const nowOf = (kind: Store['kind'], isClockSet = false): RawBuilder<number> =>
  isClockSet ? setNow() : databaseNow(kind)

async function openInDir(dataDir: DataDir): Promise<DatabaseSync> {
  const path = dataDir.file('oracle.sqlite')
  try {
    // SQLite gives the files beside it (-wal, -shm) the mode of the database.
    await dataDir.restrict('oracle.sqlite', { create: true })
    for (const beside of ['-wal', '-shm']) await dataDir.restrict(`oracle.sqlite${beside}`)
    const database = await openSharedSqlite(path)
    refuseNewerDatabase(database, path)
    return database
  } catch (error) {
    if (error instanceof RuntimeError || !(error instanceof Error)) throw error
    throw new RuntimeError('DATA_DIR_UNUSABLE', `${path} cannot be opened: ${error.message}.`, {
      hint: makeRoomOr(
        error.message,
        'Restore it from a backup, or move it away to start with an empty database.',
      ),
      cause: error,
    })
  }
}

async function openPostgres(
  url: string,
  options: StoreOptions,
  limitsBy: LimitsBy = 'startup',
): Promise<Store> {
  const { log, patienceMs = 10_000, isClockSet, poolSize = 10 } = options
  const postgres = await import('./postgres.ts') // most servers need no pg
  const { Pool, PortableDialect } = postgres
  const { PostgresChannels } = await import('./postgres-channels.ts')
  const { target, settings, limits } = postgres.postgresSettings(url, limitsBy)
  const pool = new Pool({ ...settings, max: poolSize }, log)
  // A pool for `ping` alone, so that a busy pool does not look like a dead database.
  const pinger = new Pool({ ...settings, max: 1, query_timeout: 5_000 }, log)
  // A migration may take its time; the connection goes when the last one has run.
  const migrating = { max: 1, query_timeout: 0, idleTimeoutMillis: 1_000 }
  const unlimited = { statement_timeout: 0, idle_in_transaction_session_timeout: 0 }
  const migrator = new Pool(
    { ...settings, ...migrating, ...(limitsBy === 'startup' && unlimited) },
    log,
  )
  const { listenUrl, redisUrl, busUrl, selfTest } = options
  const listening =
    listenUrl === undefined
      ? settings
      : postgres.postgresSettings(listenUrl, 'transaction', 'DATABASE_LISTEN_URL').settings
  const channels: ListeningChannels = new PostgresChannels({
    pool,
    settings: listening,
    isOtherAddress: listenUrl !== undefined,
    log,
    redisUrl,
    busUrl,
    selfTest,
    migrate: () => store.migrate(channelsOwner, channelMigrations),
  })
  const db: Database = new Kysely({ dialect: new PortableDialect({ pool, limits, channels }) })
  postgres.goStraight(db, pool, channels)
  const store: Store = assemble(log, {
    kind: 'postgres',
    now: nowOf('postgres', isClockSet),
    db,
    unsynced: db,
    synced: async () => undefined,
    migrationDb: new Kysely({ dialect: new PortableDialect({ pool: migrator }) }),
    channels,
    listening: () => channels.way,
    bus: () => channels.bus,
    heardInMs: () => channels.heardInMs,
    pool: () => ({
      used: pool.totalCount - pool.idleCount,
      idle: pool.idleCount,
      waiting: pool.inLine,
    }),
    giveBack: async () => 0,
    ask: () => pinger.query('select 1'),
    async end() {
      await Promise.all([pool, pinger, migrator].map((each) => each.close(graceMs)))
    },
    async cut() {
      channels.cut()
      for (const each of [pool, pinger, migrator]) each.cut()
    },
  })
  try {
    await firstAnswer(store.db, target, log, patienceMs)
  } catch (error) {
    await store.close()
    if (limitsBy === 'transaction' || !postgres.isParameterRefused(causeOf(error))) throw error
    log.warn(
      `A pooler in front of PostgreSQL at ${target} refuses time limits at the start of a connection: ` +
        'each transaction sets them, and other statements have the limit of the client.',
    )
    return openPostgres(url, options, 'transaction')
  }
  return store
}

/** What the driver threw, within the error for the operator. */
const causeOf = (error: unknown): unknown => fieldsIn(fieldsIn(error).cause).cause

/** Waits for a PostgreSQL that is still starting, but not for one that refuses the connection. */
async function firstAnswer(db: Database, target: string, log: Log, patienceMs: number) {
  const deadline = performance.now() + patienceMs
  for (let waiting = false; ; waiting = true) {
    try {
      await sql`select 1`.execute(db)
      return
    } catch (error) {
      const { cause } = fieldsIn(error)
      const reason = cause instanceof Error ? cause.message : String(error)
      const isOver = isRefusal(cause) || performance.now() > deadline
      if (!isConnectionError(error) || isOver)
        throw new RuntimeError(
          'DATABASE_UNREACHABLE',
          `PostgreSQL at ${target} cannot be used: ${reason}.`,
          { hint: 'Check that PostgreSQL runs and that DATABASE_URL is right.', cause: error },
        )
      if (!waiting) log.warn({ reason }, `Waiting for PostgreSQL at ${target}`)
      await sleep(250)
    }
  }
}

interface Parts {
  readonly kind: Store['kind']
  readonly file?: string | undefined
  readonly now: Store['now']
  readonly db: Database
  readonly unsynced: Database
  readonly direct?: () => Direct
  synced(): Promise<void>
  readonly migrationDb: Database
  readonly channels: Channels
  listening(): ListeningWay
  bus(): BusState | undefined
  heardInMs(): number | undefined
  pool(): PoolState | undefined
  giveBack(most: number): Promise<number>
  /** A question that only a living database answers. */
  ask(): Promise<unknown>
  end(): Promise<void>
  cut(): Promise<void>
}

function assemble(log: Log, parts: Parts): Store {
  const { kind, now, db, unsynced, synced, migrationDb, channels, ask, end, cut } = parts
  let asking: Promise<boolean> | undefined
  let migrated: Promise<unknown> = Promise.resolve()
  let closed: Promise<void> | undefined
  return {
    kind,
    file: parts.file,
    now,
    db,
    unsynced,
    direct: parts.direct,
    synced,
    listen: (channel, onPayload, onGap) => channels.listen(channel, onPayload, onGap),
    notify: (channel, payload) => channels.notify(channel, payload),
    listening: parts.listening,
    bus: parts.bus,
    heardInMs: parts.heardInMs,
    pool: parts.pool,
    giveBack: parts.giveBack,

    async ping(timeoutMs = 1_000) {
      // However often `ping` is called, the database gets one question at a time.
      asking ??= ask()
        .then(
          () => true,
          () => false,
        )
        .finally(() => (asking = undefined))
      const timer = new AbortController()
      const late = sleep(timeoutMs, false, { signal: timer.signal }).catch(() => false)
      const answer = await Promise.race([asking, late])
      timer.abort()
      return answer
    },

    migrate(owner, migrations) {
      const run = migrated.then(() => migrate({ kind, db: migrationDb, log }, owner, migrations))
      migrated = run.catch(() => {}) // the caller has the error; the next owner has its own turn
      return run
    },

    cut() {
      closed = Promise.resolve() // a process that is dead closes nothing
      return cut()
    },

    close() {
      // The channels say goodbye to the other processes over the pool.
      closed ??= channels.close().finally(end)
      return closed
    },
  }
}

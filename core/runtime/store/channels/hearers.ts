import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import type { Log, Migration } from '../../../plugin.ts'
import type { ListeningWay } from './channels.ts'

/** Asks the database, each statement by itself. */
export type Ask = <R>(sql: string, values?: readonly unknown[]) => Promise<R[]>

/** The name of the migrations below: they run where a server first needs the tables. */
export const channelsOwner = 'kernel-channels'

/**
 * The tables of those who cannot listen to the database: who they are, by what they hear, and the messages for those who
 * look into a table. A message is deleted after a minute, an entry of a process after three.
 */
export const channelMigrations: Readonly<Record<string, Migration>> = {
  '001-hearers': async (db) => {
    await db.schema
      .createTable('kernel_hearers')
      .addColumn('name', 'text', (column) => column.primaryKey())
      .addColumn('way', 'text', (column) => column.notNull())
      .addColumn('until', 'bigint', (column) => column.notNull())
      .execute()
    await db.schema
      .createTable('kernel_messages')
      .addColumn('id', 'bigserial', (column) => column.primaryKey())
      .addColumn('channel', 'text', (column) => column.notNull())
      .addColumn('payload', 'text', (column) => column.notNull())
      .addColumn('at', 'bigint', (column) => column.notNull())
      .execute()
    // One row: the name by which the channels of this database are told from those of others on the same Redis.
    await db.schema
      .createTable('kernel_channel_space')
      .addColumn('id', 'text', (column) => column.primaryKey())
      .execute()
    await sql`insert into kernel_channel_space values (${randomUUID()})`.execute(db)
  },
}

/** The time by the database's clock, in milliseconds. */
export const clockNow = '(extract(epoch from clock_timestamp()) * 1000)::bigint'

/** The processes on one database that cannot listen to it, so that the others also tell them in another way. */
export class ChannelHearers {
  readonly #ask: Ask
  readonly #log: Log
  readonly #name: string
  readonly #aliveMs: number
  #others: ReadonlySet<ListeningWay> = new Set()
  #isEntered = false

  /** `everyMs` is how often a process renews its entry. */
  constructor(ask: Ask, log: Log, name: string, everyMs: number) {
    this.#ask = ask
    this.#log = log
    this.#name = name
    this.#aliveMs = Math.max(5_000, 3 * everyMs)
  }

  /** The ways by which other processes hear. */
  get others(): ReadonlySet<ListeningWay> {
    return this.#others
  }

  /** Enters this process, or renews its entry; the tables are there. */
  async enter(way: ListeningWay): Promise<void> {
    this.#isEntered = true
    await this.#ask(
      `insert into kernel_hearers (name, way, until) values ($1, $2, ${clockNow} + $3::bigint)
        on conflict (name) do update set way = excluded.way, until = excluded.until`,
      [this.#name, way, this.#aliveMs],
    )
    await this.#ask(`delete from kernel_hearers where until < ${clockNow}`)
    await this.#ask(`delete from kernel_messages where at < ${clockNow} - 60000`)
  }

  /** Takes the entry of this process away. An entry that stays, because the database is away, ends by itself. */
  async leave(): Promise<void> {
    if (!this.#isEntered) return
    this.#isEntered = false
    try {
      await this.#ask('delete from kernel_hearers where name = $1', [this.#name])
    } catch (err) {
      this.#log.debug({ err }, 'The entry of a process that hears again could not be deleted')
    }
  }

  /** What the names of this database's channels begin with on Redis; the tables are there. */
  async space(): Promise<string> {
    const [row] = await this.#ask<{ id: string }>('select id from kernel_channel_space')
    if (row === undefined) throw new Error('kernel_channel_space has no row.')
    return `oracle:${row.id}:`
  }

  /** Looks who else cannot listen. A database on which nobody ever had to has no table of them. */
  async look(): Promise<void> {
    const [table] = await this.#ask<{ there: boolean }>(
      `select to_regclass('kernel_hearers') is not null as there`,
    )
    const rows = table?.there
      ? await this.#ask<{ way: ListeningWay }>(
          `select distinct way from kernel_hearers where until > ${clockNow} and name <> $1`,
          [this.#name],
        )
      : []
    this.#others = new Set(rows.map(({ way }) => way))
  }
}

const remedy =
  'The three ways to hear other replicas: DATABASE_LISTEN_URL, an address of PostgreSQL without a pooler; ' +
  'REDIS_URL; or looking into a table four times a second.'
/** What the log says when a process hears others in another way than before. */
export const sayings = {
  direct: 'LISTEN is heard again: other replicas are heard from the database',
  bus: 'The bus of BUS_URL is away: other replicas are heard from the database until it is back',
  redis: `LISTEN is not heard, as behind a transaction pooler: Redis carries the messages. ${remedy}`,
  polling: `LISTEN is not heard, as behind a transaction pooler: messages come by looking into a table. ${remedy}`,
}

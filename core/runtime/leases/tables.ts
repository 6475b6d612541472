import { type RawBuilder, sql } from 'kysely'
import type { Database, Migration } from '../../plugin.ts'
import { databaseNow } from '../base/clock.ts'
import type { Store } from '../store/store.ts'

/** The table of leases: a row for each name that a plugin has ever taken, and no more of them. */
export const leasesMigration: Migration = async (db) => {
  await sql`create table kernel_leases (
    plugin text not null, name text not null, owner text not null, holder text not null,
    epoch bigint not null, lease_until bigint not null, primary key (plugin, name))`.execute(db)
}

/** One lease in the database, as one process of one app wants to hold it. */
export interface LeaseRow {
  readonly plugin: string
  readonly name: string
  /** The process that asks. A process that starts again has another name. */
  readonly owner: string
  /** The same for people: `<host>:<process id>`. */
  readonly holder: string
}

/** The statements about leases. Times go by the database's clock, which no test moves. */
export class LeaseTable {
  readonly #store: Pick<Store, 'db' | 'kind'>
  readonly #now: RawBuilder<number>
  readonly #leaseMs: number

  constructor(store: Pick<Store, 'db' | 'kind'>, leaseMs: number) {
    this.#store = store
    this.#now = databaseNow(store.kind)
    this.#leaseMs = leaseMs
  }

  /** Takes the lease where nobody holds it; resolves to the epoch of this holding. */
  async claim({ plugin, name, owner, holder }: LeaseRow): Promise<number | undefined> {
    // SQLite has one process: whoever held the lease before is gone.
    const isFree =
      this.#store.kind === 'sqlite' ? sql`1 = 1` : sql`kernel_leases.lease_until < ${this.#now}`
    const { rows } = await sql<{ epoch: number }>`insert into kernel_leases
      (plugin, name, owner, holder, epoch, lease_until)
      values (${plugin}, ${name}, ${owner}, ${holder}, 1, ${this.#end})
      on conflict (plugin, name) do update set owner = excluded.owner, holder = excluded.holder,
        epoch = kernel_leases.epoch + 1, lease_until = excluded.lease_until
      where ${isFree} returning epoch`.execute(this.#store.db)
    return rows[0] && Number(rows[0].epoch)
  }

  /** Extends the lease; false when another process has it. */
  async extend({ plugin, name, owner }: LeaseRow, epoch: number): Promise<boolean> {
    const { rows } = await sql`update kernel_leases set lease_until = ${this.#end}
      where plugin = ${plugin} and name = ${name} and owner = ${owner} and epoch = ${epoch}
      returning epoch`.execute(this.#store.db)
    return rows.length > 0
  }

  /** Whether the lease is held, by the transaction that asks: another process takes it after this transaction. */
  async isHeldIn(trx: Database, row: LeaseRow, epoch: number): Promise<boolean> {
    const lock = this.#store.kind === 'postgres' ? sql`for update` : sql``
    const { rows } = await sql`select epoch from kernel_leases where plugin = ${row.plugin}
      and name = ${row.name} and owner = ${row.owner} and epoch = ${epoch} ${lock}`.execute(trx)
    return rows.length > 0
  }

  /** Lets go of the lease: any process may take it at once. */
  async release({ plugin, name, owner }: LeaseRow, epoch: number): Promise<void> {
    await sql`update kernel_leases set lease_until = 0
      where plugin = ${plugin} and name = ${name} and owner = ${owner} and epoch = ${epoch}`.execute(
      this.#store.db,
    )
  }

  /** Who holds the lease. */
  async holderOf({ plugin, name }: Pick<LeaseRow, 'plugin' | 'name'>): Promise<string | undefined> {
    const { rows } = await sql<{ holder: string }>`select holder from kernel_leases
      where plugin = ${plugin} and name = ${name} and lease_until >= ${this.#now}`.execute(
      this.#store.db,
    )
    return rows[0]?.holder
  }

  get #end(): RawBuilder<number> {
    return sql<number>`${this.#now} + ${sql.lit(this.#leaseMs)}`
  }
}

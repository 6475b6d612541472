import type { Kysely } from 'kysely'
import type { Database } from '#core'

type Tables = {
  /** The consents that were used: each runs one call, on whichever replica. */
  mcp_consents: {
    nonce: string
    // PostgreSQL returns a bigint as text
    expires_at: number | string
  }
}

type Any = Kysely<any> // any: a migration sees tables that no type knows yet

/** Creates the table of the consents that were used. */
export const claimsMigration = async (db: Any) => {
  await db.schema
    .createTable('mcp_consents')
    .addColumn('nonce', 'varchar(64)', (column) => column.primaryKey())
    .addColumn('expires_at', 'bigint', (column) => column.notNull())
    .execute()
}

/** Which consents were used. */
export class Claims {
  readonly #tables: Kysely<Tables>
  readonly #now: () => number

  constructor(db: Database, now: () => number) {
    this.#tables = db.withTables<Tables>()
    this.#now = now
  }

  /** Takes a consent for one call; false where it was taken before, here or on another replica. */
  async take(nonce: string, expiresAt: number): Promise<boolean> {
    // A day later than they end, for the clocks of replicas differ.
    await this.#tables
      .deleteFrom('mcp_consents')
      .where('expires_at', '<', this.#now() - 86_400_000)
      .execute()
    const { numInsertedOrUpdatedRows: count } = await this.#tables
      .insertInto('mcp_consents')
      .values({ nonce, expires_at: expiresAt })
      .onConflict((conflict) => conflict.doNothing())
      .executeTakeFirst()
    return Number(count) === 1
  }
}

import { type Kysely, sql } from 'kysely'
import type { Count } from './accounts/lock-rule.ts'

/** A stored session. The row holds no typed text: `mark` lets the gateway compare texts without storing them. */
export type SessionRow = {
  session_id: string
  phone: string
  network: string | null
  operator: string | null
  version: number
  length: number
  mark: string
  body: string
  status: string
  state: string
  working_since: number
  undelivered: number
  touched_at: number
  expires_at: number
}

/** The tables of the gateway. */
export type Tables = {
  ussd_sessions: SessionRow
  ussd_accounts: {
    customer_id: string
    did: string
    name: string
    email: string | null
    phone: string
    pin: string
    created_at: number
    /** When its right PIN was last typed, or when it was created. */
    used_at: number
  }
  /** `used_at` is a day late at most: a dial notes it once a day. */
  ussd_phones: { phone: string; language: string; did: string | null; used_at: number }
  ussd_locks: Count
  ussd_own_phones: { customer_id: string; phone: string; used_at: number }
  ussd_questions: {
    owner: string
    /** The question, until there is an answer, because a server may have to start the turn again. */
    question: string
    /** The key by which every server finds the turn. */
    request_id: string
    outcome: 'answered' | 'consent' | 'lost' | ''
    answer: string
    asked_at: number
    answered_at: number
  }
}

/** How long the migrated counts of wrong PINs stay. */
const weekMs = 7 * 24 * 60 * 60_000

type Any = Kysely<any> // any: a migration sees tables that no type knows yet

/** The migrations of the tables of the gateway, in order. */
export const migrations = {
  '001-ussd': async (db: Any) => {
    await db.schema
      .createTable('ussd_sessions')
      // A session id may have a hundred characters, as `requestSchema` says.
      .addColumn('session_id', 'varchar(100)', (column) => column.primaryKey())
      .addColumn('phone', 'varchar(16)', (column) => column.notNull())
      .addColumn('version', 'integer', (column) => column.notNull())
      .addColumn('length', 'integer', (column) => column.notNull())
      .addColumn('mark', 'varchar(32)', (column) => column.notNull())
      .addColumn('body', 'text', (column) => column.notNull())
      .addColumn('status', 'varchar(8)', (column) => column.notNull())
      .addColumn('state', 'text', (column) => column.notNull())
      .addColumn('working_since', 'bigint', (column) => column.notNull())
      .addColumn('undelivered', 'integer', (column) => column.notNull())
      .addColumn('touched_at', 'bigint', (column) => column.notNull())
      .addColumn('expires_at', 'bigint', (column) => column.notNull())
      .execute()
    await db.schema
      .createIndex('ussd_sessions_expiry')
      .on('ussd_sessions')
      .column('expires_at')
      .execute()
    await db.schema.createIndex('ussd_sessions_phone').on('ussd_sessions').column('phone').execute()
    await db.schema
      .createTable('ussd_accounts')
      .addColumn('customer_id', 'varchar(16)', (column) => column.primaryKey())
      .addColumn('did', 'varchar(80)', (column) => column.notNull().unique())
      .addColumn('name', 'text', (column) => column.notNull())
      .addColumn('email', 'text')
      .addColumn('phone', 'varchar(16)', (column) => column.notNull())
      .addColumn('pin', 'text', (column) => column.notNull())
      .addColumn('created_at', 'bigint', (column) => column.notNull())
      .execute()
    await db.schema
      .createTable('ussd_phones')
      .addColumn('phone', 'varchar(16)', (column) => column.primaryKey())
      .addColumn('language', 'varchar(8)', (column) => column.notNull())
      .addColumn('did', 'varchar(80)')
      .execute()
    await db.schema
      .createTable('ussd_attempts')
      .addColumn('subject', 'varchar(40)', (column) => column.primaryKey())
      .addColumn('failures', 'integer', (column) => column.notNull())
      .addColumn('failed_at', 'bigint', (column) => column.notNull())
      .addColumn('locked_until', 'bigint', (column) => column.notNull())
      .execute()
    await db.schema
      .createTable('ussd_questions')
      .addColumn('owner', 'varchar(80)', (column) => column.primaryKey())
      .addColumn('answer', 'text', (column) => column.notNull())
      .addColumn('asked_at', 'bigint', (column) => column.notNull())
      .addColumn('answered_at', 'bigint', (column) => column.notNull())
      .execute()
  },
  '002-questions-by-turn': async (db: Any) => {
    for (const [name, type] of [
      ['question', 'text'],
      ['request_id', 'varchar(36)'],
      ['outcome', 'varchar(8)'],
    ] as const)
      await db.schema
        .alterTable('ussd_questions')
        .addColumn(name, type, (column) => column.notNull().defaultTo(''))
        .execute()
    // The old rows have no turn. Answers stay only a day, so people can ask again.
    await db.deleteFrom('ussd_questions').execute()
  },
  '003-locks-by-pair': async (db: Any) => {
    await db.schema
      .createTable('ussd_locks')
      .addColumn('subject', 'varchar(64)', (column) => column.primaryKey())
      .addColumn('failures', 'integer', (column) => column.notNull())
      .addColumn('locks', 'integer', (column) => column.notNull())
      .addColumn('locked_until', 'bigint', (column) => column.notNull())
      .addColumn('forget_at', 'bigint', (column) => column.notNull())
      .execute()
    await db.schema
      .createIndex('ussd_locks_forget_at')
      .on('ussd_locks')
      .column('forget_at')
      .execute()
    await db.schema
      .createTable('ussd_own_phones')
      .addColumn('customer_id', 'varchar(16)', (column) => column.notNull())
      .addColumn('phone', 'varchar(16)', (column) => column.notNull())
      .addColumn('used_at', 'bigint', (column) => column.notNull())
      .addPrimaryKeyConstraint('ussd_own_phones_pk', ['customer_id', 'phone'])
      .execute()
    await db.schema
      .createIndex('ussd_own_phones_used_at')
      .on('ussd_own_phones')
      .column('used_at')
      .execute()
    // Present locks stay: that of an account for strangers' phones, that of a phone for all accounts, its own included.
    const counts = sql`failures, case when locked_until > 0 then 1 else 0 end, locked_until,
      case when locked_until > failed_at then locked_until else failed_at end + ${sql.lit(weekMs)}`
    await sql`insert into ussd_locks (subject, failures, locks, locked_until, forget_at)
      select subject, ${counts} from ussd_attempts`.execute(db)
    await sql`insert into ussd_locks (subject, failures, locks, locked_until, forget_at)
      select 'pair:' || ussd_accounts.customer_id || ':' || ussd_accounts.phone, ${counts}
      from ussd_attempts join ussd_accounts on subject = 'phone:' || ussd_accounts.phone`.execute(
      db,
    )
    await db.schema.dropTable('ussd_attempts').execute()
  },
  '004-unused-rows-leave': async (db: Any) => {
    // For the rows that are there, and those of an older server that still runs, the time begins now.
    const now = Date.now()
    for (const table of ['ussd_accounts', 'ussd_phones']) {
      await db.schema
        .alterTable(table)
        .addColumn('used_at', 'bigint', (column) => column.notNull().defaultTo(now))
        .execute()
      await db.schema.createIndex(`${table}_used_at`).on(table).column('used_at').execute()
    }
  },
  '005-networks': async (db: Any) => {
    for (const name of ['network', 'operator'])
      await db.schema.alterTable('ussd_sessions').addColumn(name, 'varchar(40)').execute()
  },
}

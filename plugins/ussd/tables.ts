import { type Kysely, sql } from 'kysely'
import type { Count } from './accounts/lock-rule.ts'

/** A session as it is kept. No typed text is in it: `mark` tells texts apart without telling them. */
export type SessionRow = {
  session_id: string
  phone: string
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
  }
  ussd_phones: { phone: string; language: string; did: string | null }
  ussd_locks: Count
  ussd_own_phones: { customer_id: string; phone: string; used_at: number }
  ussd_questions: {
    owner: string
    /** What was asked, until there is an answer: the turn may have to be begun again. */
    question: string
    /** The turn, by the key that finds it from any server. */
    request_id: string
    outcome: 'answered' | 'consent' | 'lost' | ''
    answer: string
    asked_at: number
    answered_at: number
  }
}

/** How long the counts of before are kept. */
const weekMs = 7 * 24 * 60 * 60_000

type Any = Kysely<any> // any: a migration sees tables that no type knows yet

/** How the tables of the gateway came to be, in order. */
export const migrations = {
  '001-ussd': async (db: Any) => {
    await db.schema
      .createTable('ussd_sessions')
      // A letter may be four bytes, and a hundred of them are allowed.
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
    // Answers are kept for a day; one of before is asked again.
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
    // What is locked stays locked: an account for strangers, a phone for the accounts of others and its own.
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
}

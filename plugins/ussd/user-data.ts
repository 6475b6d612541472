import { sql, type Kysely } from 'kysely'
import type { Database, ErasedData, UserDataItem } from '#core'
import type { Tables } from './tables.ts'

/** The phones from which somebody dialled last as this DID, and those of the DID's account. They are few. */
async function phonesOf(db: Kysely<Tables>, did: string): Promise<string[]> {
  const { rows } = await sql<{ phone: string }>`
    select phone from ussd_phones where did = ${did}
    union select phone from ussd_accounts where did = ${did}
    union select ussd_own_phones.phone from ussd_own_phones
      join ussd_accounts on ussd_accounts.customer_id = ussd_own_phones.customer_id
      where did = ${did}`.execute(db)
  return rows.map(({ phone }) => phone)
}

const time = (ms: number) => new Date(Number(ms)).toISOString()

/** What the gateway keeps of a person: the account, the phones, the last question. The PIN stays sealed. */
export async function* exportUssd(did: string, database: Database): AsyncGenerator<UserDataItem> {
  const db = database.withTables<Tables>()
  const account = await db
    .selectFrom('ussd_accounts')
    .selectAll()
    .where('did', '=', did)
    .executeTakeFirst()
  if (account) {
    const { customer_id: customerId, name, email, phone, created_at, used_at } = account
    const times = { createdAt: time(created_at), usedAt: time(used_at) }
    yield { kind: 'account', customerId, name, email, phone, ...times }
  }
  const phones = await db.selectFrom('ussd_phones').selectAll().where('did', '=', did).execute()
  for (const { phone, language, used_at } of phones)
    yield { kind: 'phone', phone, language, usedAt: time(used_at) }
  const asked = await db
    .selectFrom('ussd_questions')
    .selectAll()
    .where('owner', '=', did)
    .executeTakeFirst()
  if (asked) {
    const { question, answer, outcome, asked_at } = asked
    yield { kind: 'question', question, answer, outcome, askedAt: time(asked_at) }
  }
}

/** Deletes the account, what is known of its phones, their sessions and the last question. */
export async function eraseUssd(did: string, database: Database): Promise<ErasedData> {
  return database
    .withTables<Tables>()
    .transaction()
    .execute(async (trx) => {
      const phones = await phonesOf(trx, did)
      const accounts = await trx
        .deleteFrom('ussd_accounts')
        .where('did', '=', did)
        .returning('customer_id')
        .execute()
      for (const { customer_id } of accounts) {
        await trx.deleteFrom('ussd_own_phones').where('customer_id', '=', customer_id).execute()
        await trx.deleteFrom('ussd_locks').where('subject', '=', `account:${customer_id}`).execute()
        await trx
          .deleteFrom('ussd_locks')
          .where('subject', 'like', `pair:${customer_id}:%`)
          .execute()
      }
      const dialled = await trx.deleteFrom('ussd_phones').where('did', '=', did).executeTakeFirst()
      for (const phone of phones)
        await trx.deleteFrom('ussd_sessions').where('phone', '=', phone).execute()
      await trx.deleteFrom('ussd_sessions').where('state', 'like', `%"${did}"%`).execute()
      const asked = await trx
        .deleteFrom('ussd_questions')
        .where('owner', '=', did)
        .executeTakeFirst()
      return {
        erased: {
          account: accounts.length,
          phone: Number(dialled.numDeletedRows),
          question: Number(asked.numDeletedRows),
        },
      }
    })
}

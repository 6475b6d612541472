import { sql } from 'kysely'
import type { Database, ErasedData, KeptData, UserDataItem } from '#core'
import { type PaymentsDatabase, withPaymentsTables } from '../tables.ts'

const rowsPerPage = 500

/** The tables that name a user, what a row is called, and the column that is unique in the table. */
const tables = [
  ['payments_accounts', 'account', 'did'],
  ['payments_charges', 'charge', 'run_id'],
  ['payments_extras', 'extra', `run_id || ' ' || key`],
  ['payments_claims', 'claim', 'id'],
  ['payments_payments', 'payment', 'id'],
  ['payments_used', 'used-reference', 'reference'],
  ['payments_actions', 'action', 'id'],
  ['payments_contracts', 'contract', 'id'],
  ['payments_outbox', 'collection', 'id'],
  ['payments_offers', 'offer', 'id'],
  ['payments_signatures', 'signature', 'nonce'],
] as const

/** Everything that payments keep of a user. */
export async function* exportPayments(did: string, db: Database): AsyncGenerator<UserDataItem> {
  for (const [table, kind, key] of tables)
    for (let last = ''; ;) {
      const { rows } = await sql<Record<string, unknown>>`select ${sql.raw(key)} as page_key, one.*
        from ${sql.table(table)} as one where did = ${did} and ${sql.raw(key)} > ${last}
        order by page_key limit ${sql.lit(rowsPerPage)}`.execute(db)
      for (const { page_key: _, did: _did, ...row } of rows)
        yield kind === 'claim' ? { ...row, kind, claimKind: row.kind } : { ...row, kind }
      last = String(rows.at(-1)?.page_key ?? '')
      if (rows.length < rowsPerPage) break
    }
}

const lawful = 'What was paid, and what is still owed, has to stand in the books.'

/**
 * Deletes what is no part of the books. Claims that were paid or are owed, the payments behind them, what was paid in advance
 * and what an operator decided stay, cut off from everything that the user or somebody else wrote.
 */
export async function erasePayments(did: string, db: Database): Promise<ErasedData> {
  return withPaymentsTables(db)
    .transaction()
    .execute(async (trx) => {
      const charges = await trx
        .deleteFrom('payments_charges')
        .where('did', '=', did)
        .where('status', '<>', 'held') // its end gives back what it has set aside
        .executeTakeFirst()
      const extras = await trx
        .deleteFrom('payments_extras')
        .where('did', '=', did)
        .executeTakeFirst()
      const claims = await trx
        .deleteFrom('payments_claims')
        .where('did', '=', did)
        .where('status', 'not in', ['paid', 'open', 'disputed'])
        .executeTakeFirst()
      const payments = await trx
        .deleteFrom('payments_payments')
        .where('did', '=', did)
        .where('status', '<>', 'settled')
        .executeTakeFirst()
      await trx
        .updateTable('payments_claims')
        .set({ dispute: null })
        .where('did', '=', did)
        .execute()
      await trx.updateTable('payments_actions').set({ reason: '' }).where('did', '=', did).execute()
      await eraseUnused(trx, did)
      const kept = await booksOf(trx, did)
      const account = await trx
        .deleteFrom('payments_accounts')
        .where('did', '=', did)
        .where('balance', '=', 0)
        .where('owed', '=', 0)
        .where('held', '=', 0)
        .executeTakeFirst()
      const left = await trx
        .selectFrom('payments_accounts')
        .select('did')
        .where('did', '=', did)
        .execute()
      if (left.length > 0) kept.push({ what: 'the balance of the account', why: lawful })
      return {
        erased: {
          charge: Number(charges.numDeletedRows),
          extra: Number(extras.numDeletedRows),
          claim: Number(claims.numDeletedRows),
          payment: Number(payments.numDeletedRows),
          account: Number(account.numDeletedRows),
        },
        ...(kept.length > 0 && { kept }),
      }
    })
}

/** Deletes what came to nothing: offers, signatures that were refused, contracts by which nothing was collected. */
async function eraseUnused(trx: PaymentsDatabase, did: string): Promise<void> {
  await sql`delete from payments_dev_keys where did = ${did}`.execute(trx)
  await sql`delete from payments_offers where did = ${did} and id not in (select offer_id
    from payments_signatures where did = ${did} and status <> 'refused')`.execute(trx)
  await sql`delete from payments_signatures where did = ${did} and status = 'refused'`.execute(trx)
  await sql`delete from payments_contracts where did = ${did} and used = 0
    and status in ('expired', 'revoked', 'failed')
    and not exists (select 1 from payments_outbox where contract_id = payments_contracts.id)`.execute(
    trx,
  )
}

/** What stays in the books. */
async function booksOf(trx: PaymentsDatabase, did: string): Promise<KeptData[]> {
  const names = [
    ['payments_claims', 'claims that were paid or are owed'],
    ['payments_payments', 'payments'],
    ['payments_used', 'references of payments'],
    ['payments_actions', 'decisions of an operator'],
    ['payments_contracts', 'contracts on the ledger'],
    ['payments_outbox', 'transactions of the oracle'],
    ['payments_signatures', 'signatures that were sent in'],
  ] as const
  const kept: KeptData[] = []
  for (const [table, what] of names) {
    const { rows } = await sql<{ count: number }>`select count(*) as count
      from ${sql.table(table)} where did = ${did}`.execute(trx)
    const count = Number(rows[0]?.count ?? 0)
    if (count > 0) kept.push({ what: `${count} ${what}`, why: lawful })
  }
  return kept
}

import { sql } from 'kysely'
import { RuntimeError } from '#core'
import type { ChargeRow, ClaimRow, PaymentsDatabase } from '../tables.ts'
import { availableOf, type Books, creditOf, dayOf, findAccount } from './account.ts'
import { found, openClaims } from './claims.ts'

const time = (ms: number | null) => (ms === null ? undefined : new Date(ms).toISOString())

/** The account of a user, as the user sees it. */
export async function accountView(db: PaymentsDatabase, books: Books, did: string) {
  const { terms, now } = books
  const account = await findAccount(db, did)
  const day = dayOf(now())
  const used = account?.free_day === day ? account.free_used : 0
  const claims = await openClaims(db, did)
  return {
    did,
    denom: terms.coin.denom,
    balance: String(account?.balance ?? 0),
    owed: String(account?.owed ?? 0),
    held: String(account?.held ?? 0),
    credit: String(account ? creditOf(account, terms) : terms.firstCredit),
    available: String(await availableOf(db, books, did)),
    free: {
      left: Math.max(terms.freeTurns - used, 0),
      resetsAt: new Date(Date.parse(day) + 24 * 3_600_000).toISOString(),
    },
    ...(await contractOf(db, did)),
    claims: claims.map(({ id }) => id),
  }
}

async function contractOf(db: PaymentsDatabase, did: string) {
  const row = await db
    .selectFrom('payments_contracts')
    .selectAll()
    .where('did', '=', did)
    .where('status', '=', 'active')
    .orderBy('created_at', 'desc')
    .executeTakeFirst()
  if (!row) return {}
  const { id, form, max_amount, taken, quota, used, expires_at } = row
  const left = { amount: String(max_amount - taken), quota: quota - used }
  return { contract: { id, form, left, expiresAt: new Date(expires_at).toISOString() } }
}

/** A charge, as the user sees it. */
export const chargeView = (charge: ChargeRow) => ({
  runId: charge.run_id,
  sessionId: charge.session_id,
  requestId: charge.request_id,
  amount: String(charge.amount),
  lines: JSON.parse(charge.lines) as unknown[],
  status: charge.status,
  ...(charge.ended_at !== null && { endedAt: time(charge.ended_at) }),
})

/** How many charges are listed in one answer, and with each claim of a page at least. */
const most = { charges: 200, ofEachClaim: 20 }

/** Claims with their charges, as the user sees them. */
export async function claimViews(
  db: PaymentsDatabase,
  { coin }: Books['terms'],
  claims: readonly ClaimRow[],
) {
  if (claims.length === 0) return []
  const ids = claims.map(({ id }) => id)
  const ofEach = Math.max(Math.floor(most.charges / claims.length), most.ofEachClaim)
  const charges = await db
    .selectFrom((eb) =>
      eb
        .selectFrom('payments_charges')
        .selectAll()
        .select(
          sql<number>`row_number() over (partition by claim_id order by created_at, run_id)`.as(
            'nth',
          ),
        )
        .where('claim_id', 'in', ids)
        .as('one'),
    )
    .selectAll()
    .where('nth', '<=', ofEach)
    .orderBy('nth')
    .execute()
  return claims.map((claim) => ({
    id: claim.id,
    kind: claim.kind,
    status: claim.status,
    amount: String(claim.amount),
    denom: coin.denom,
    createdAt: time(claim.created_at),
    ...(claim.presented_at !== null && { presentedAt: time(claim.presented_at) }),
    ...(claim.paid_at !== null && { paidAt: time(claim.paid_at) }),
    ...(claim.method !== null && { method: claim.method }),
    ...(claim.reference && { reference: claim.reference }),
    charges: charges.filter(({ claim_id }) => claim_id === claim.id).map(chargeView),
  }))
}

/** A page of claims, the newest first; of one user, or of all for the operator. */
export async function listClaims(
  db: PaymentsDatabase,
  wanted: { did?: string; status?: ClaimRow['status']; limit: number; cursor?: string },
): Promise<{ readonly claims: ClaimRow[]; readonly nextCursor?: string }> {
  const { did, status, limit, cursor } = wanted
  const after = cursor === undefined ? undefined : readCursor(cursor)
  const claims = await db
    .selectFrom('payments_claims')
    .selectAll()
    .$if(did !== undefined, (query) => query.where('did', '=', did ?? ''))
    .$if(status !== undefined, (query) => query.where('status', '=', status ?? 'open'))
    .$if(after !== undefined, (query) =>
      query.where((eb) =>
        eb.or([
          eb('created_at', '<', after?.at ?? 0),
          eb('created_at', '=', after?.at ?? 0).and('id', '<', after?.id ?? ''),
        ]),
      ),
    )
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
    .limit(limit + 1)
    .execute()
  const last = claims.length > limit ? claims[limit - 1] : undefined
  const nextCursor = last && Buffer.from(`${last.created_at} ${last.id}`).toString('base64url')
  return { claims: claims.slice(0, limit), ...(nextCursor !== undefined && { nextCursor }) }
}

function readCursor(cursor: string): { readonly at: number; readonly id: string } {
  const [at = '', id = ''] = Buffer.from(cursor, 'base64url').toString().split(' ')
  if (/^\d{1,16}$/.test(at) && /^[0-9a-f-]{36}$/.test(id)) return { at: Number(at), id }
  throw new RuntimeError('INVALID_INPUT', 'The cursor is not one of this list.', {
    hint: 'Pass on nextCursor as it came.',
  })
}

/** A claim of a user. */
export async function findClaim(db: PaymentsDatabase, did: string, id: string): Promise<ClaimRow> {
  const claim = await db
    .selectFrom('payments_claims')
    .selectAll()
    .where('id', '=', id)
    .where('did', '=', did)
    .executeTakeFirst()
  return found(claim, id)
}

/** Charges of a user, the newest first: of a session, of a run, or all. */
export function findCharges(
  db: PaymentsDatabase,
  did: string,
  { session, run }: { readonly session?: string; readonly run?: string },
): Promise<ChargeRow[]> {
  return db
    .selectFrom('payments_charges')
    .selectAll()
    .where('did', '=', did)
    .$if(session !== undefined, (query) => query.where('session_id', '=', session ?? ''))
    .$if(run !== undefined, (query) => query.where('run_id', '=', run ?? ''))
    .orderBy('created_at', 'desc')
    .limit(most.charges)
    .execute()
}

/** The accounts that changed last. */
export async function newestAccounts(db: PaymentsDatabase, limit: number): Promise<string[]> {
  const rows = await db
    .selectFrom('payments_accounts')
    .select('did')
    .orderBy('touched_at', 'desc')
    .limit(limit)
    .execute()
  return rows.map(({ did }) => did)
}

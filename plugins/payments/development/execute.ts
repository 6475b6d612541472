import { sql } from 'kysely'
import {
  evaluations,
  paidOnLedger,
  readClaimAuthorization,
  readEvaluateClaim,
  readSubmitClaim,
} from '../ledger/claim-messages.ts'
import {
  type LedgerCoin,
  readExec,
  readRevoke,
  readSend,
  readSendGrant,
  type TypedBytes,
  types,
} from '../ledger/messages.ts'
import { NotProto } from '../ledger/proto.ts'
import type { LedgerDatabase } from './tables.ts'

/** Why the ledger does not carry a message out. */
export class Refused extends Error {
  readonly code: number

  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}

/** The codes of refusals, as the ledger's own module has them. */
export const codes = { unauthorized: 4, funds: 5, unknown: 6, invalid: 18, notFound: 38 } as const

/** What carries the messages of one transaction out. */
export interface Execution {
  readonly trx: LedgerDatabase
  /** Who signed the transaction. */
  readonly signer: string
  /** Seconds since 1970. */
  readonly time: number
  /** Called for every transfer. */
  paid(recipient: string): void
}

/** Carries a message out. Throws `Refused`, and the transaction then changes nothing. */
export async function execute(run: Execution, one: TypedBytes, granted?: string): Promise<void> {
  try {
    await carry(run, one, granted)
  } catch (error) {
    if (!(error instanceof NotProto)) throw error
    throw new Refused(codes.invalid, error.message)
  }
}

/** What was read of a message, where all of its texts can be stored: PostgreSQL has no U+0000. */
function stored<T>(read: T): T {
  if (JSON.stringify(read).includes('\\u0000'))
    throw new Refused(codes.invalid, 'a text holds U+0000')
  return read
}

async function carry(run: Execution, one: TypedBytes, granted?: string): Promise<void> {
  const { typeUrl, value } = one
  switch (typeUrl) {
    case types.send: {
      const { fromAddress, toAddress, amount } = stored(readSend(value))
      await mayAct(run, fromAddress, granted, { typeUrl, toAddress, amount })
      for (const coin of amount) await move(run, fromAddress, toAddress, coin)
      return
    }
    case types.exec: {
      const { grantee, msgs } = readExec(value)
      if (grantee !== run.signer) throw new Refused(codes.unauthorized, 'the grantee did not sign')
      if (granted !== undefined) throw new Refused(codes.invalid, 'an exec within an exec')
      for (const inner of msgs) await execute(run, inner, grantee)
      return
    }
    case types.grant:
      return grant(run, value, granted)
    case types.revoke:
      return revoke(run, value)
    case types.claimAuthorization:
      return authorize(run, value)
    case types.submitClaim:
      return submit(run, value)
    case types.evaluateClaim:
      return evaluate(run, value)
    default:
      throw new Refused(codes.unknown, `no handler exists for message ${typeUrl}`)
  }
}

/** Whether the signer may act for an address: as its owner, or by a grant, which the message uses up. */
async function mayAct(
  { trx, signer, time }: Execution,
  owner: string,
  grantee: string | undefined,
  send: { typeUrl: string; toAddress: string; amount: readonly LedgerCoin[] },
): Promise<void> {
  if (owner === signer) return
  if (grantee === undefined) throw new Refused(codes.unauthorized, 'the sender did not sign')
  for (const { denom, amount } of send.amount) {
    const found = await trx
      .selectFrom('payments_dev_grants')
      .selectAll()
      .where('granter', '=', owner)
      .where('grantee', '=', grantee)
      .where('type_url', '=', send.typeUrl)
      .executeTakeFirst()
    if (!found || found.expires <= time) throw new Refused(codes.unauthorized, 'no authorization')
    const allowed: string[] = JSON.parse(found.allow_list)
    if (allowed.length > 0 && !allowed.includes(send.toAddress))
      throw new Refused(codes.unauthorized, 'the recipient is not on the list')
    if (found.denom !== denom || BigInt(found.left_over) < BigInt(amount))
      throw new Refused(codes.funds, 'requested amount is more than spend limit')
    await trx
      .updateTable('payments_dev_grants')
      .set({ left_over: sql<number>`left_over - cast(${Number(amount)} as bigint)` })
      .where('granter', '=', owner)
      .where('grantee', '=', grantee)
      .where('type_url', '=', send.typeUrl)
      .execute()
  }
}

/** Moves coins. */
async function move(
  { trx, paid }: Execution,
  from: string,
  to: string,
  { denom, amount }: LedgerCoin,
): Promise<void> {
  const value = Number(amount)
  if (!Number.isSafeInteger(value) || value <= 0) throw new Refused(codes.invalid, 'no such amount')
  const { numUpdatedRows } = await trx
    .updateTable('payments_dev_balances')
    .set({ amount: sql<number>`amount - cast(${value} as bigint)` })
    .where('address', '=', from)
    .where('denom', '=', denom)
    .where('amount', '>=', value)
    .executeTakeFirst()
  if (numUpdatedRows === 0n) throw new Refused(codes.funds, 'insufficient funds')
  await credit(trx, to, denom, value)
  paid(to)
}

/** Adds coins to an address. */
export async function credit(trx: LedgerDatabase, address: string, denom: string, amount: number) {
  await trx
    .insertInto('payments_dev_balances')
    .values({ address, denom, amount })
    .onConflict((conflict) =>
      conflict.columns(['address', 'denom']).doUpdateSet({
        amount: sql<number>`payments_dev_balances.amount + excluded.amount`,
      }),
    )
    .execute()
}

async function grant({ trx, signer, time }: Execution, value: Uint8Array, _granted?: string) {
  const { granter, grantee, spendLimit, allowList, expires } = stored(readSendGrant(value))
  if (granter !== signer) throw new Refused(codes.unauthorized, 'the granter did not sign')
  const [limit] = spendLimit
  if (!limit || spendLimit.length !== 1)
    throw new Refused(codes.invalid, 'one denomination is granted')
  if (expires <= time)
    throw new Refused(codes.invalid, 'expiration must be after the current block time')
  const row = {
    granter,
    grantee,
    type_url: types.send,
    denom: limit.denom,
    left_over: Number(limit.amount),
    allow_list: JSON.stringify(allowList),
    expires,
  }
  const { granter: _, grantee: __, type_url: ___, ...changed } = row
  await trx
    .insertInto('payments_dev_grants')
    .values(row)
    .onConflict((conflict) =>
      conflict.columns(['granter', 'grantee', 'type_url']).doUpdateSet(changed),
    )
    .execute()
}

async function revoke({ trx, signer }: Execution, value: Uint8Array) {
  const { granter, grantee, msgTypeUrl } = stored(readRevoke(value))
  if (granter !== signer) throw new Refused(codes.unauthorized, 'the granter did not sign')
  if (msgTypeUrl === types.submitClaim) return unauthorize({ trx, signer }, grantee)
  const { numDeletedRows } = await trx
    .deleteFrom('payments_dev_grants')
    .where('granter', '=', granter)
    .where('grantee', '=', grantee)
    .where('type_url', '=', msgTypeUrl)
    .executeTakeFirst()
  if (numDeletedRows === 0n) throw new Refused(codes.notFound, 'authorization not found')
}

async function unauthorize({ trx, signer }: Pick<Execution, 'trx' | 'signer'>, grantee: string) {
  const { numDeletedRows } = await trx
    .deleteFrom('payments_dev_authorizations')
    .where('grantee', '=', grantee)
    .where('collection_id', 'in', (eb) =>
      eb.selectFrom('payments_dev_collections').select('id').where('owner', '=', signer),
    )
    .executeTakeFirst()
  if (numDeletedRows === 0n) throw new Refused(codes.notFound, 'authorization not found')
}

async function ownCollection({ trx, signer }: Execution, id: string): Promise<void> {
  const found = await trx
    .selectFrom('payments_dev_collections')
    .select('owner')
    .where('id', '=', id)
    .executeTakeFirst()
  if (!found) throw new Refused(codes.notFound, `collection ${id} not found`)
  if (found.owner !== signer) throw new Refused(codes.unauthorized, 'the admin did not sign')
}

async function authorize(run: Execution, value: Uint8Array) {
  const wanted = stored(readClaimAuthorization(value))
  await ownCollection(run, wanted.collectionId)
  const [limit] = wanted.maxAmount
  const row = {
    collection_id: wanted.collectionId,
    grantee: wanted.granteeAddress,
    quota: wanted.agentQuota,
    max_amount: Number(limit?.amount ?? 0),
    denom: limit?.denom ?? '',
    expires: wanted.expires,
  }
  const { collection_id: _, grantee: __, ...changed } = row
  await run.trx
    .insertInto('payments_dev_authorizations')
    .values(row)
    .onConflict((conflict) => conflict.columns(['collection_id', 'grantee']).doUpdateSet(changed))
    .execute()
}

async function submit({ trx, signer, time }: Execution, value: Uint8Array) {
  const claim = stored(readSubmitClaim(value))
  const [coin] = claim.amount
  const amount = Number(coin?.amount ?? 0)
  if (claim.agentAddress !== signer) throw new Refused(codes.unauthorized, 'the agent did not sign')
  const { numUpdatedRows } = await trx
    .updateTable('payments_dev_authorizations')
    .set({ quota: sql<number>`quota - 1` })
    .where('collection_id', '=', claim.collectionId)
    .where('grantee', '=', signer)
    .where('quota', '>', 0)
    .where('expires', '>', time)
    .where('max_amount', '>=', amount)
    .where('denom', '=', coin?.denom ?? '')
    .executeTakeFirst()
  if (numUpdatedRows === 0n) throw new Refused(codes.unauthorized, 'no authorization to submit')
  await trx
    .insertInto('payments_dev_claims')
    .values({
      id: claim.claimId,
      collection_id: claim.collectionId,
      agent_address: claim.agentAddress,
      admin_address: claim.adminAddress,
      amount,
      denom: coin?.denom ?? '',
      evaluation: 0,
      payment: 0,
    })
    .execute()
}

async function evaluate(run: Execution, value: Uint8Array) {
  const { claimId, collectionId, status, amount } = stored(readEvaluateClaim(value))
  await ownCollection(run, collectionId)
  const claim = await run.trx
    .selectFrom('payments_dev_claims')
    .selectAll()
    .where('id', '=', claimId)
    .where('collection_id', '=', collectionId)
    .executeTakeFirst()
  if (!claim) throw new Refused(codes.notFound, `claim ${claimId} not found`)
  if (claim.evaluation !== 0) throw new Refused(codes.invalid, 'the claim was evaluated before')
  if (amount.length > 1) throw new Refused(codes.invalid, 'one denomination is paid')
  const isApproved = status === evaluations.approved
  // Whoever evaluates may name another amount than the claim, also less.
  const [coin = { denom: claim.denom, amount: String(claim.amount) }] = amount
  if (isApproved) await move(run, run.signer, claim.agent_address, coin)
  await run.trx
    .updateTable('payments_dev_claims')
    .set({
      evaluation: status,
      payment: isApproved ? paidOnLedger : 0,
      ...(isApproved && { amount: Number(coin.amount), denom: coin.denom }),
    })
    .where('id', '=', claimId)
    .execute()
}

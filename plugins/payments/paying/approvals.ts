import { evaluations, writeEvaluateClaim } from '../ledger/claim-messages.ts'
import { type TypedBytes, types } from '../ledger/messages.ts'
import type { ClaimRow, PaymentsDatabase } from '../tables.ts'

/** Who approves claims, and in which coin the ledger then pays. */
export interface Approver {
  readonly did: string
  readonly from: string
  /** The account of the oracle. */
  readonly to: string
  readonly denom: string
}

/** What a user signs so that the ledger pays claims that stand there. */
export async function approvals(
  db: PaymentsDatabase,
  { did, from, denom }: Approver,
  claims: readonly ClaimRow[],
): Promise<TypedBytes[]> {
  const ids = claims.flatMap(({ contract_id }) => (contract_id === null ? [] : [contract_id]))
  if (ids.length === 0) return []
  const contracts = await db
    .selectFrom('payments_contracts')
    .selectAll()
    .where('id', 'in', [...new Set(ids)])
    .execute()
  return claims.flatMap(({ id, amount, contract_id }) => {
    const contract = contracts.find((one) => one.id === contract_id)
    if (!contract?.collection_id) return []
    const value = writeEvaluateClaim({
      claimId: id,
      collectionId: contract.collection_id,
      oracle: did,
      agentDid: did,
      agentAddress: from,
      adminAddress: contract.admin_address ?? contract.address,
      status: evaluations.approved,
      reason: 0,
      amount: [{ denom, amount: String(amount) }],
    })
    return [{ typeUrl: types.evaluateClaim, value }]
  })
}

import {
  readClaimAuthorization,
  writeClaimAuthorization,
  writeSubmitClaim,
} from '../ledger/claim-messages.ts'
import type { LedgerTx } from '../ledger/ledger.ts'
import {
  readExec,
  readSendGrant,
  type TypedBytes,
  types,
  writeExec,
  writeRevoke,
  writeSend,
  writeSendGrant,
} from '../ledger/messages.ts'
import type { ClaimRow } from '../tables.ts'
import type { ContractRow } from './tables.ts'

/** Bytes as they travel in JSON. A wallet is given them as `Uint8Array`. */
export interface WireBytes {
  readonly $bytes: string
}

/** A message that a wallet signs: others carried out together, each as bytes. */
export interface ExecMessage {
  readonly typeUrl: typeof types.exec
  readonly value: {
    readonly grantee: string
    readonly msgs: readonly { readonly typeUrl: string; readonly value: WireBytes }[]
  }
}

/** The messages in one that a wallet signs. What they are the wallet need not know: it has them as bytes. */
export const execMessage = (grantee: string, msgs: readonly TypedBytes[]): ExecMessage => ({
  typeUrl: types.exec,
  value: {
    grantee,
    msgs: msgs.map(({ typeUrl, value }) => ({
      typeUrl,
      value: { $bytes: Buffer.from(value).toString('base64') },
    })),
  },
})

/** Who a contract is with, and in which coin. */
export interface Parties {
  /** The account of the oracle. */
  readonly oracle: string
  readonly oracleDid: string
  readonly denom: string
}

const coins = (amount: number, denom: string) => [{ denom, amount: String(amount) }]
const seconds = (ms: number) => Math.floor(ms / 1000)

/** What the user signs to make a contract. */
export function grantingMessage(contract: ContractRow, { oracle, denom }: Parties): TypedBytes {
  const { address, did, max_amount, quota, collection_id, admin_address, expires_at } = contract
  if (collection_id === null)
    return {
      typeUrl: types.grant,
      value: writeSendGrant({
        granter: address,
        grantee: oracle,
        spendLimit: coins(max_amount, denom),
        allowList: [oracle],
        expires: seconds(expires_at),
      }),
    }
  return {
    typeUrl: types.claimAuthorization,
    value: writeClaimAuthorization({
      creatorAddress: address,
      creatorDid: did,
      granteeAddress: oracle,
      adminAddress: admin_address ?? address,
      collectionId: collection_id,
      agentQuota: quota,
      maxAmount: coins(max_amount, denom),
      expires: seconds(expires_at),
    }),
  }
}

/** What the user signs to take a contract back. */
export const revokingMessage = (contract: ContractRow, { oracle }: Parties): TypedBytes => ({
  typeUrl: types.revoke,
  value: writeRevoke({
    granter: (contract.form === 'claims' && contract.admin_address) || contract.address,
    grantee: oracle,
    msgTypeUrl: contract.form === 'claims' ? types.submitClaim : types.send,
  }),
})

/** What the oracle sends for claims that a contract covers. */
export function collectingMessages(
  contract: ContractRow,
  claims: readonly ClaimRow[],
  { oracle, oracleDid, denom }: Parties,
): TypedBytes[] {
  const { collection_id, admin_address, address } = contract
  if (collection_id === null) {
    const sum = claims.reduce((all, { amount }) => all + amount, 0)
    const value = writeSend({
      fromAddress: address,
      toAddress: oracle,
      amount: coins(sum, denom),
    })
    const exec = { grantee: oracle, msgs: [{ typeUrl: types.send, value }] }
    return [{ typeUrl: types.exec, value: writeExec(exec) }]
  }
  return claims.map(({ id, amount }) => ({
    typeUrl: types.submitClaim,
    value: writeSubmitClaim({
      collectionId: collection_id,
      claimId: id,
      agentDid: oracleDid,
      agentAddress: oracle,
      adminAddress: admin_address ?? address,
      amount: coins(amount, denom),
    }),
  }))
}

/** What differs between a transaction and the contract that it is to make; undefined where nothing does. */
export function differenceOf(
  tx: LedgerTx,
  contract: ContractRow,
  { oracle, denom }: Parties,
): string | undefined {
  const all = tx.messages.flatMap((one) => {
    if (one.typeUrl !== types.exec) return [one]
    const { grantee, msgs } = readExec(one.value)
    return grantee === contract.address ? msgs : []
  })
  if (contract.collection_id === null) {
    const grants = all.filter(({ typeUrl }) => typeUrl === types.grant)
    const ours = grants
      .map(({ value }) => readSendGrant(value))
      .find(({ granter, grantee }) => granter === contract.address && grantee === oracle)
    if (!ours) return `It holds no grant of ${contract.address} to ${oracle}`
    const limit = ours.spendLimit.find((coin) => coin.denom === denom)
    if (BigInt(limit?.amount ?? 0) < BigInt(contract.max_amount))
      return `It grants less than ${contract.max_amount} ${denom}`
    if (ours.allowList.length > 0 && !ours.allowList.includes(oracle))
      return `It does not allow transfers to ${oracle}`
    return ours.expires < seconds(contract.expires_at) ? 'The grant ends sooner' : undefined
  }
  const authorizations = all.filter(({ typeUrl }) => typeUrl === types.claimAuthorization)
  const ours = authorizations
    .map(({ value }) => readClaimAuthorization(value))
    .find(({ granteeAddress, collectionId, creatorAddress }) => {
      const isTheirs = creatorAddress === contract.address
      return isTheirs && granteeAddress === oracle && collectionId === contract.collection_id
    })
  if (!ours)
    return `It authorizes nobody at ${oracle} for collection ${contract.collection_id} on behalf of ${contract.address}`
  const limit = ours.maxAmount.find((coin) => coin.denom === denom)
  if (BigInt(limit?.amount ?? 0) < BigInt(contract.max_amount))
    return `It authorizes less than ${contract.max_amount} ${denom}`
  if (ours.agentQuota < contract.quota) return `Its quota is less than ${contract.quota}`
  return ours.expires < seconds(contract.expires_at) ? 'The authorization ends sooner' : undefined
}

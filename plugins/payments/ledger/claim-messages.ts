import { type LedgerCoin, readCoin, writeCoin } from './messages.ts'
import { type Bytes, message, part, ProtoFields, text, uint } from './proto.ts'

/** A claim that an agent submits to a collection. */
export interface SubmitClaim {
  readonly collectionId: string
  readonly claimId: string
  readonly agentDid: string
  readonly agentAddress: string
  readonly adminAddress: string
  readonly amount: readonly LedgerCoin[]
}

export const writeSubmitClaim = (claim: SubmitClaim): Bytes =>
  message(
    text(1, claim.collectionId),
    text(2, claim.claimId),
    text(3, claim.agentDid),
    text(4, claim.agentAddress),
    text(5, claim.adminAddress),
    ...claim.amount.map((coin) => part(7, writeCoin(coin))),
  )

export function readSubmitClaim(source: Uint8Array): SubmitClaim {
  const fields = new ProtoFields(source)
  return {
    collectionId: fields.text(1),
    claimId: fields.text(2),
    agentDid: fields.text(3),
    agentAddress: fields.text(4),
    adminAddress: fields.text(5),
    amount: fields.all(7).map(readCoin),
  }
}

/** What the ledger calls the outcome of an evaluation. */
export const evaluations = { approved: 1, rejected: 2 } as const

/** The word of the one who pays: approved, so that the ledger pays, or rejected. */
export interface EvaluateClaim {
  readonly claimId: string
  readonly collectionId: string
  readonly oracle: string
  readonly agentDid: string
  readonly agentAddress: string
  readonly adminAddress: string
  readonly status: number
  readonly reason: number
  readonly amount: readonly LedgerCoin[]
}

export const writeEvaluateClaim = (claim: EvaluateClaim): Bytes =>
  message(
    text(1, claim.claimId),
    text(2, claim.collectionId),
    text(3, claim.oracle),
    text(4, claim.agentDid),
    text(5, claim.agentAddress),
    text(6, claim.adminAddress),
    uint(7, claim.status),
    uint(8, claim.reason),
    ...claim.amount.map((coin) => part(10, writeCoin(coin))),
  )

export function readEvaluateClaim(source: Uint8Array): EvaluateClaim {
  const fields = new ProtoFields(source)
  return {
    claimId: fields.text(1),
    collectionId: fields.text(2),
    oracle: fields.text(3),
    agentDid: fields.text(4),
    agentAddress: fields.text(5),
    adminAddress: fields.text(6),
    status: Number(fields.uint(7)),
    reason: Number(fields.uint(8)),
    amount: fields.all(10).map(readCoin),
  }
}

/** The right to submit claims to a collection: so many, up to such an amount each. */
export interface ClaimAuthorization {
  readonly creatorAddress: string
  readonly creatorDid: string
  readonly granteeAddress: string
  readonly adminAddress: string
  readonly collectionId: string
  readonly agentQuota: number
  readonly maxAmount: readonly LedgerCoin[]
  /** Seconds since 1970. */
  readonly expires: number
}

const submit = 1

export const writeClaimAuthorization = (one: ClaimAuthorization): Bytes =>
  message(
    text(1, one.creatorAddress),
    text(2, one.creatorDid),
    text(3, one.granteeAddress),
    text(4, one.adminAddress),
    text(5, one.collectionId),
    uint(6, submit),
    uint(7, one.agentQuota),
    ...one.maxAmount.map((coin) => part(8, writeCoin(coin))),
    part(10, uint(1, one.expires)),
    part(11, new Uint8Array()),
  )

export function readClaimAuthorization(source: Uint8Array): ClaimAuthorization {
  const fields = new ProtoFields(source)
  return {
    creatorAddress: fields.text(1),
    creatorDid: fields.text(2),
    granteeAddress: fields.text(3),
    adminAddress: fields.text(4),
    collectionId: fields.text(5),
    agentQuota: Number(fields.uint(7)),
    maxAmount: fields.all(8).map(readCoin),
    expires: Number(fields.part(10)?.uint(1) ?? 0n),
  }
}

/** What the ledger says of a claim. */
export interface LedgerClaim {
  readonly collectionId: string
  readonly agentAddress: string
  readonly claimId: string
  /** 1 approved, 2 rejected, 0 not evaluated. */
  readonly evaluation: number
  /** 4 paid. */
  readonly payment: number
  /**
   * How much was approved, as the evaluation says it. Empty where it says nothing: then the ledger pays what the owner of the
   * collection has set there, which no claim tells.
   */
  readonly approved: readonly LedgerCoin[]
}

/** The ledger's word for a claim whose approval was paid. */
export const paidOnLedger = 4

export const writeLedgerClaim = (
  claim: LedgerClaim & { readonly amount: readonly LedgerCoin[] },
): Bytes =>
  message(
    text(1, claim.collectionId),
    text(3, claim.agentAddress),
    text(5, claim.claimId),
    claim.evaluation === 0 ? new Uint8Array() : part(6, evaluation(claim)),
    part(7, uint(3, claim.payment)),
    ...claim.amount.map((coin) => part(9, writeCoin(coin))),
  )

const evaluation = ({ evaluation, approved }: LedgerClaim): Bytes =>
  message(uint(6, evaluation), ...approved.map((coin) => part(10, writeCoin(coin))))

export function readLedgerClaim(source: Uint8Array): LedgerClaim {
  const fields = new ProtoFields(source)
  const evaluated = fields.part(6)
  return {
    collectionId: fields.text(1),
    agentAddress: fields.text(3),
    claimId: fields.text(5),
    evaluation: Number(evaluated?.uint(6) ?? 0n),
    payment: Number(fields.part(7)?.uint(3) ?? 0n),
    approved: evaluated?.all(10).map(readCoin) ?? [],
  }
}

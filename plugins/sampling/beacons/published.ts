import { z } from 'zod'

const wantsHex = 'give pairs of hexadecimal digits, at most 512 of them'
const hexDigits = z
  .string(wantsHex)
  .toLowerCase()
  .max(512, wantsHex)
  .regex(/^(?:[0-9a-f]{2})+$/, wantsHex)

/** A round as a relay of drand answers it; version 2 of the relays leaves the randomness out. */
export const publishedSchema = z.object({
  round: z.number().int().min(1).max(Number.MAX_SAFE_INTEGER),
  randomness: hexDigits.optional(),
  signature: hexDigits,
  previous_signature: hexDigits.optional(),
})
/** A round that passed the schema. */
export type Published = z.output<typeof publishedSchema>

/** What proves the value of a drand round: the signature of the League of Entropy, from which the value is hashed. */
export interface DrandEvidence {
  readonly round: number
  readonly signature: string
  readonly previousSignature?: string
}

/** The block whose hash is the value; everybody who reads the ledger can compare the two. */
export interface LedgerEvidence {
  readonly chainId: string
  readonly height: number
  readonly blockHash: string
  readonly time: string
}

/** What a draw keeps of its beacon, so that others can check the value. */
export type Evidence = DrandEvidence | LedgerEvidence

/** Who drew outside, and who has recorded it here. */
export interface OutsideEvidence {
  readonly verifier: string
  readonly recordedBy: string
}

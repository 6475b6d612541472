import { z } from 'zod'

const amount = z.string()

/** A charge in an answer. */
export const charge = z.object({
  runId: z.string(),
  sessionId: z.string(),
  requestId: z.string(),
  amount,
  lines: z.array(z.unknown()),
  status: z.enum(['held', 'free', 'paid', 'due', 'void']),
  endedAt: z.string().optional(),
})

/** A claim in an answer. */
export const claim = z.object({
  id: z.string(),
  kind: z.enum(['usage', 'advance']),
  status: z.enum(['open', 'paid', 'disputed', 'expired', 'void']),
  amount,
  denom: z.string(),
  createdAt: z.string().optional(),
  presentedAt: z.string().optional(),
  paidAt: z.string().optional(),
  method: z.string().optional(),
  reference: z.string().optional(),
  charges: z.array(charge),
})

/** An account in an answer. */
export const account = z.object({
  did: z.string(),
  denom: z.string(),
  balance: amount,
  owed: amount,
  held: amount,
  credit: amount,
  available: amount,
  free: z.object({ left: z.number(), resetsAt: z.string() }),
  contract: z
    .object({
      id: z.string(),
      form: z.enum(['grant', 'claims']),
      left: z.object({ amount, quota: z.number() }),
      expiresAt: z.string(),
    })
    .optional(),
  claims: z.array(z.string()),
})

/** A contract in an answer. */
export const contract = z.object({
  id: z.string(),
  status: z.enum(['pending', 'active', 'spent', 'expired', 'revoked', 'failed']),
  form: z.enum(['grant', 'claims']),
  address: z.string(),
  maxAmount: amount,
  taken: amount,
  agentQuota: z.number(),
  used: z.number(),
  collectionId: z.string().optional(),
  adminAddress: z.string().optional(),
  txHash: z.string().optional(),
  reason: z.string().optional(),
  createdAt: z.string(),
  expiresAt: z.string(),
})

/** A contract, and what the user's wallet signs for it. */
export const contractToSign = contract.extend({
  messages: z.array(z.unknown()).readonly(),
  memo: z.string(),
})

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
  claims: z.array(z.string()),
})

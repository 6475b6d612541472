import { z } from 'zod'
import { amountSchema, positiveAmount } from '../terms/money.ts'

/** An id as it came: one that we never made is nobody's, which is 404 as for somebody else's. */
const id = z.string().min(1).max(100)
const reason = z.string().trim().min(1).max(500)
const hash = z
  .string()
  .regex(/^[0-9A-F]{64}$/, 'the hash of a transaction: 64 hexadecimal digits, in capitals')

const address = z.string().min(1).max(100)
const bytes = z
  .object({ $bytes: z.base64().max(64_000) })
  .transform(({ $bytes }) => Buffer.from($bytes, 'base64'))
const send = z.object({
  typeUrl: z.literal('/cosmos.bank.v1beta1.MsgSend'),
  value: z.object({
    fromAddress: z.string().max(100),
    toAddress: z.string().max(100),
    amount: z
      .array(z.object({ denom: z.string().max(128), amount: amountSchema.transform(String) }))
      .min(1)
      .max(10),
  }),
})
const exec = z.object({
  typeUrl: z.literal('/cosmos.authz.v1beta1.MsgExec'),
  value: z.object({
    grantee: z.string().max(100),
    msgs: z
      .array(z.object({ typeUrl: z.string().max(200), value: bytes }))
      .min(1)
      .max(100),
  }),
})

/** What the routes of payments take. */
export const inputs = {
  claims: z.object({
    status: z.enum(['open', 'paid', 'disputed', 'expired', 'void']).optional(),
    limit: z.coerce.number().int().min(1).max(100).default(20),
    cursor: z.string().max(200).optional(),
  }),
  claim: z.object({ id }),
  charges: z.object({ session: z.string().max(100).optional(), run: id.optional() }),
  present: z.strictObject({ advance: positiveAmount.optional() }),
  dispute: z.object({ id, reason }),
  prepare: z.object({
    claims: z.array(id).min(1).max(100).optional(),
    address,
  }),
  settle: z
    .object({ paymentId: id.optional(), txHash: hash.optional() })
    .refine(({ paymentId, txHash }) => paymentId !== undefined || txHash !== undefined, {
      path: ['txHash'],
      message: 'a paymentId, a txHash, or both',
    }),
  credit: z.object({
    did: z.string().regex(/^did:[a-z0-9]+:.{1,200}$/, 'a DID'),
    amount: positiveAmount,
    reason,
  }),
  decision: z.object({ id, action: z.enum(['void', 'reopen', 'refund']), reason }),
  accounts: z.object({
    did: z.string().max(300).optional(),
    limit: z.coerce.number().int().min(1).max(100).default(20),
  }),
  contracts: z.object({
    address,
    maxAmount: positiveAmount,
    agentQuota: z.number().int().min(1).max(1000),
    days: z.number().int().min(1).max(365),
    collectionId: z
      .string()
      .regex(/^[\w-]{1,64}$/, 'the id of a collection')
      .optional(),
    adminAddress: address.optional(),
  }),
  confirm: z.object({ id, txHash: hash }),
  contract: z.object({ id }),
  transact: z.object({
    messages: z
      .array(z.discriminatedUnion('typeUrl', [send, exec]))
      .min(1)
      .max(10),
    memo: z.string().max(256).default(''),
  }),
}

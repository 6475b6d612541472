import { createHash } from 'node:crypto'
import { RuntimeError } from '#core'
import { z } from 'zod'

/** How long the header may be. */
const mostBytes = 8 * 1024

const digits = z.string().regex(/^\d{1,78}$/)
const hex = (bytes: number) => z.string().regex(new RegExp(`^0x[0-9a-fA-F]{${bytes * 2}}$`))

const schema = z.strictObject({
  x402Version: z.literal(2),
  resource: z.unknown().optional(),
  extensions: z.record(z.string(), z.unknown()).optional(),
  accepted: z.looseObject({ extra: z.looseObject({ offer: z.uuid() }) }),
  payload: z.strictObject({
    signature: z.string().regex(/^0x[0-9a-fA-F]{2,4096}$/),
    authorization: z.strictObject({
      from: hex(20),
      to: hex(20),
      value: digits,
      validAfter: digits,
      validBefore: digits,
      nonce: hex(32),
    }),
  }),
})

/** What a payer signed, as it came in the header. */
export type Signed = z.output<typeof schema>

/** The payment that came with a request; undefined where none came. Throws 400 where the header is no payment. */
export function readSigned(headers: Readonly<Record<string, unknown>>): Signed | undefined {
  const { 'payment-signature': header, 'x-payment': old } = headers
  if (old !== undefined)
    throw invalid('X-PAYMENT', 'is of version 1 of x402', 'Send PAYMENT-SIGNATURE, of version 2.')
  if (typeof header !== 'string') return undefined
  const fault = (what: string) =>
    invalid('PAYMENT-SIGNATURE', what, 'Sign what the header PAYMENT-REQUIRED of the 402 offers.')
  if (header.length > mostBytes) throw fault(`is longer than ${mostBytes} bytes`)
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(header)) throw fault('is no base64')
  let json: unknown
  try {
    json = JSON.parse(Buffer.from(header, 'base64').toString())
  } catch {
    throw fault('is no JSON')
  }
  const { success, data, error } = schema.safeParse(json)
  if (success) return data
  const path = error.issues[0]?.path.join('.')
  throw fault(path ? `is no payment: "${path}" is wrong` : 'is no payment, or has other keys')
}

const invalid = (header: string, what: string, hint: string): RuntimeError =>
  new RuntimeError('INVALID_INPUT', `The header ${header} ${what}.`, { hint })

/** The payer's address and the nonce. */
export const nonceOf = ({ payload: { authorization } }: Signed): string =>
  `${authorization.from.toLowerCase()}:${authorization.nonce.toLowerCase()}`

/** Until when a signature can be settled, with a minute for a ledger whose clock is slow. */
export const validUntil = ({ payload }: Signed): number =>
  Number(payload.authorization.validBefore) * 1000 + 60_000

/** By this a signature is told from another one with the same nonce. */
export const digestOf = (signed: Signed): string =>
  createHash('sha256').update(JSON.stringify(signed.payload)).digest('hex')

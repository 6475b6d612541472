import { RuntimeError } from '#core'

/** A transaction is not the one that is meant. Says what differs. */
export const mismatch = (what: string, details: Record<string, unknown>): RuntimeError =>
  new RuntimeError('PAYMENT_MISMATCH', `The transaction is not this payment. ${what}.`, {
    status: 409,
    hint: 'Send what this server gave to sign, with its memo, and name that transaction.',
    details,
  })

/** A transaction or a signature was counted before. */
export const reused = (): RuntimeError =>
  new RuntimeError('PAYMENT_REUSED', 'This transaction was counted before.', {
    status: 409,
    hint: 'A transaction pays once, for one account. Prepare another payment.',
  })

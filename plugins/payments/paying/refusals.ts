import { RuntimeError } from '#core'
import { fromBech32 } from '../ledger/bech32.ts'

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

/** Throws where a text at the named path of a body is no address of the ledger. */
export function demandAddress(prefix: string, path: string, address: string): void {
  if (fromBech32(prefix, address)) return
  throw new RuntimeError('INVALID_INPUT', `"${address.slice(0, 100)}" is no address here.`, {
    hint: `An address begins with ${prefix}1 and has a checksum.`,
    details: [{ path, message: `an address that begins with ${prefix}1` }],
  })
}

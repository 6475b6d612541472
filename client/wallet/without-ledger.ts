import { OracleError } from '../core/error.ts'
import type { TransactionFn } from '../core/records.ts'

/** The signing of transactions of a wallet that has no ledger. */
export const signsNothing =
  (wallet: string, hint: string): TransactionFn =>
  () =>
    Promise.reject(
      new OracleError('invalid_request', `${wallet} has no ledger to sign for.`, { hint }),
    )

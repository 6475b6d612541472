import type { LedgerTx } from '../ledger/ledger.ts'
import { readExec, readSend, types } from '../ledger/messages.ts'
import type { PaymentRow } from '../tables.ts'
import { toAmount } from '../terms/money.ts'
import { mismatch } from './refusals.ts'

/** What a transaction brought for a payment. Throws what differs. */
export function arrived(tx: LedgerTx, payment: PaymentRow, to: string, denom: string): number {
  if (tx.code !== 0)
    throw mismatch(`The ledger did not carry it out (code ${tx.code})`, { code: tx.code })
  if (tx.memo !== payment.memo)
    throw mismatch('Its memo is not that of this payment', { memo: true })
  const sends = tx.messages.flatMap(({ typeUrl, value }) => {
    if (typeUrl === types.send) return [readSend(value)]
    if (typeUrl !== types.exec) return []
    return readExec(value).msgs.flatMap((inner) =>
      inner.typeUrl === types.send ? [readSend(inner.value)] : [],
    )
  })
  const ours = sends.filter(({ toAddress }) => toAddress === to)
  if (ours.length === 0) throw mismatch(`It pays nothing to ${to}`, { address: to })
  const coins = ours.flatMap(({ amount }) => amount).filter((coin) => coin.denom === denom)
  const sum = coins.reduce((all, { amount }) => all + BigInt(amount), 0n)
  if (sum <= 0n) throw mismatch(`It pays no ${denom}`, { denom })
  return toAmount(sum)
}

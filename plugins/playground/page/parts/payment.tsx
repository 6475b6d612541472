import { useEffect } from 'react'
import { usePayments, type PaymentTerms } from 'oracle-runtime-client/payments'
import { Fault } from './fault.tsx'

/** An amount of the smallest unit, for people: `0.01 DEV`. */
export function coins(amount: string, { symbol, decimals }: PaymentTerms): string {
  const digits = amount.padStart(decimals + 1, '0')
  const whole = digits.slice(0, digits.length - decimals)
  const rest = digits.slice(digits.length - decimals).replace(/0+$/, '')
  return `${whole}${rest && `.${rest}`} ${symbol}`
}

/** What the oracle asks to be paid before the next turn: the claims, their turns, and a button that pays. */
export function Payment(props: {
  oracleDid: string
  claimIds: readonly string[]
  onPaid: () => void
}) {
  const { oracleDid, claimIds, onPaid } = props
  const { terms, claims, pay, isPaying, error, refetch } = usePayments(oracleDid)
  const ids = claimIds.join()
  useEffect(() => void refetch().catch(() => {}), [ids])
  const asked = claims.filter(({ id }) => claimIds.includes(id))
  return (
    <section className="payment card" aria-label="Payment needed">
      <h2>Payment needed</h2>
      {terms && (
        <ul>
          {asked.map(({ id, kind, amount, charges }) => (
            <li key={id}>
              {kind === 'advance' ? 'In advance' : 'Claim'}: <strong>{coins(amount, terms)}</strong>
              <ul>
                {charges.map((charge) => (
                  <li key={charge.runId}>A turn: {coins(charge.amount, terms)}</li>
                ))}
              </ul>
            </li>
          ))}
        </ul>
      )}
      <Fault error={error} />
      <button
        type="button"
        disabled={isPaying || !terms}
        onClick={() => void pay(claimIds).then(onPaid, () => {})}
      >
        {isPaying ? 'Paying…' : 'Pay'}
      </button>
    </section>
  )
}

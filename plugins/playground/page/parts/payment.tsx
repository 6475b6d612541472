import { useEffect, useState } from 'react'
import { inCoins, usePayments } from 'oracle-runtime-client/payments'
import { Fault } from 'oracle-runtime-client/view'

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
              {kind === 'advance' ? 'In advance' : 'Claim'}:{' '}
              <strong>{inCoins(amount, terms)}</strong>
              <ul>
                {charges.map((charge) => (
                  <li key={charge.runId}>A turn: {inCoins(charge.amount, terms)}</li>
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

/** How often the cost of a turn is asked for: the oracle bills a turn a moment after its end. */
const costTries = 5

/** What the last turn of a chat cost, once it is billed. */
export function TurnCost({ oracleDid, runId }: { oracleDid: string; runId: string | null }) {
  const { terms, charges, refetch } = usePayments(oracleDid)
  const [tries, setTries] = useState(0)
  useEffect(() => setTries(0), [runId])
  const charge = charges.find((one) => one.runId === runId)
  const isBilled = charge && charge.status !== 'held'
  useEffect(() => {
    if (!runId || isBilled || tries >= costTries) return
    const timer = setTimeout(
      () =>
        void refetch().then(
          () => setTries((count) => count + 1),
          () => {},
        ),
      300 * (tries + 1),
    )
    return () => clearTimeout(timer)
  }, [runId, isBilled, tries])
  if (!terms || !isBilled) return null
  return <span className="faint">This turn cost {inCoins(charge.amount, terms)}</span>
}

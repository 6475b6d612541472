import { useEffect, useState } from 'react'
import { createRoot } from 'react-dom/client'
import { OracleClientProvider } from 'oracle-runtime-client'
import {
  inCoins,
  usePayments,
  type PaymentClaim,
  type PaymentsResult,
  type PaymentTerms,
} from 'oracle-runtime-client/payments'
import type { ShowView, ViewHost } from 'oracle-runtime-client/view'

type Ready = PaymentsResult & { readonly terms: PaymentTerms }

const show: ShowView = (element, host) => {
  const root = createRoot(element)
  root.render(
    <OracleClientProvider client={host.client}>
      <Payments host={host} />
    </OracleClientProvider>,
  )
  return () => root.unmount()
}
export default show

/** What the user of the page owes and has paid, and the ways to pay. */
function Payments({ host }: { host: ViewHost }) {
  const payments = usePayments(host.oracleDid)
  const { terms, account, error, isLoading, refetch } = payments
  // Turns of the chat may have cost something since the page read the account.
  useEffect(() => void refetch().catch(() => {}), [])
  if (!terms || !account)
    return isLoading ? (
      <p role="status">{host.words.asking}</p>
    ) : (
      <p role="alert">{error?.message}</p>
    )
  const ready: Ready = { ...payments, terms }
  return (
    <>
      <p className="lead">{priceOf(terms)}</p>
      <section className="card" aria-labelledby="account">
        <h2 id="account">Account</h2>
        <dl className="figures">
          <Figure name="Paid in advance" amount={account.balance} terms={terms} />
          <Figure name="Owed" amount={account.owed} terms={terms} />
          <Figure name="Set aside for turns under way" amount={account.held} terms={terms} />
          <Figure name="Available" amount={account.available} terms={terms} />
        </dl>
        {terms.free > 0 && <p>{account.free.left} free turns are left today.</p>}
        <div className="row">
          <button type="button" className="quiet" onClick={() => void refetch().catch(() => {})}>
            {host.words.readAgain}
          </button>
        </div>
      </section>
      {error && <p role="alert">{error.message}</p>}
      <Claims payments={ready} host={host} />
      <Advance payments={ready} host={host} />
      <Turns payments={ready} />
    </>
  )
}

function priceOf(terms: PaymentTerms): string {
  const { turn, input, output, tokens, tools } = terms.prices
  const parts = [
    turn !== '0' && `${inCoins(turn, terms)} a turn`,
    input !== '0' && `${inCoins(input, terms)} for 1,000 tokens read`,
    output !== '0' && `${inCoins(output, terms)} for 1,000 tokens written`,
    tokens.length > 0 && 'tokens by model',
    ...tools.map(({ name, price }) => `${inCoins(price, terms)} for ${name}`),
  ].filter((part) => part !== false)
  if (parts.length === 0) return 'Turns are free here.'
  const price = parts.join(', ')
  // Where a turn always costs the same, the most that it costs says nothing new.
  const isFixed = parts.length === 1 && turn === terms.maximum
  return isFixed ? `${price}.` : `${price}; at most ${inCoins(terms.maximum, terms)} a turn.`
}

function Figure(props: { name: string; amount: string; terms: PaymentTerms }) {
  return (
    <div>
      <dt>{props.name}</dt>
      <dd>{inCoins(props.amount, props.terms)}</dd>
    </div>
  )
}

function Claims({ payments, host }: { payments: Ready; host: ViewHost }) {
  const { claims, terms, isPaying, pay } = payments
  const open = claims.filter(({ status }) => status === 'open')
  const payAll = async () => {
    const { paid } = await pay()
    host.announce(`${paid.length} claims are paid.`)
  }
  return (
    <section className="card" aria-labelledby="claims">
      <h2 id="claims">Claims</h2>
      {claims.length === 0 && <p>Nothing was asked for yet.</p>}
      <ul>
        {claims.map((claim) => (
          <li key={claim.id}>
            {claim.kind === 'advance' ? 'In advance' : 'Turns'}:{' '}
            <strong>{inCoins(claim.amount, terms)}</strong>, {claim.status}
            {claim.status === 'open' && <Dispute claim={claim} payments={payments} />}
          </li>
        ))}
      </ul>
      {open.length > 0 && (
        <div className="row">
          <button type="button" disabled={isPaying} onClick={() => void payAll().catch(() => {})}>
            {isPaying ? 'Paying…' : 'Pay what is open'}
          </button>
        </div>
      )}
    </section>
  )
}

function Dispute({ claim, payments }: { claim: PaymentClaim; payments: Ready }) {
  const [reason, setReason] = useState('')
  return (
    <details>
      <summary>Something is wrong with it</summary>
      <form
        className="row"
        onSubmit={(event) => {
          event.preventDefault()
          void payments.dispute(claim.id, reason).catch(() => {})
        }}
      >
        <label className="field">
          What is wrong
          <input
            required
            maxLength={500}
            value={reason}
            onChange={(event) => setReason(event.target.value)}
          />
        </label>
        <button disabled={payments.isPaying}>Dispute</button>
      </form>
    </details>
  )
}

function Advance({ payments, host }: { payments: Ready; host: ViewHost }) {
  const { terms, isPaying, advance } = payments
  // What is typed outlives a change of view.
  const [amount, setAmount] = useState(() => String(host.keep.get('amount') ?? ''))
  const smallest = inSmallest(amount, terms.decimals)
  return (
    <section className="card" aria-labelledby="advance">
      <h2 id="advance">Pay in advance</h2>
      <form
        className="row"
        onSubmit={(event) => {
          event.preventDefault()
          if (smallest === undefined) return
          void advance(smallest).then(
            ({ balance }) => host.announce(`The balance is ${inCoins(balance, terms)}.`),
            () => {},
          )
        }}
      >
        <label className="field">
          Amount in {terms.symbol}
          <input
            inputMode="decimal"
            value={amount}
            onChange={({ target }) => {
              host.keep.set('amount', target.value)
              setAmount(target.value)
            }}
          />
        </label>
        <button disabled={isPaying || smallest === undefined}>Pay in advance</button>
      </form>
    </section>
  )
}

/** A number of coins as digits of the smallest unit; undefined for what is no amount above 0. */
function inSmallest(coins: string, decimals: number): string | undefined {
  const [, whole = '', rest = ''] = /^(\d{1,16})(?:\.(\d+))?$/.exec(coins.trim()) ?? []
  if (whole === '' || rest.length > decimals) return undefined
  const amount = BigInt(whole + rest.padEnd(decimals, '0'))
  return amount > 0n ? String(amount) : undefined
}

function Turns({ payments: { charges, terms } }: { payments: Ready }) {
  return (
    <section className="card" aria-labelledby="turns">
      <h2 id="turns">Turns</h2>
      {charges.length === 0 && <p>No turn has cost anything yet.</p>}
      {charges.length > 0 && (
        <table>
          <thead>
            <tr>
              <th scope="col">Ended</th>
              <th scope="col">Cost</th>
              <th scope="col">State</th>
            </tr>
          </thead>
          <tbody>
            {charges.slice(0, 50).map((charge) => (
              <tr key={charge.runId}>
                <th scope="row">
                  {charge.endedAt ? new Date(charge.endedAt).toLocaleString() : 'under way'}
                </th>
                <td>{inCoins(charge.amount, terms)}</td>
                <td>{charge.status}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  )
}

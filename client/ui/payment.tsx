import { useEffect, useState } from 'react'
import { inCoins } from '../core/coins.ts'
import { OracleError, toOracleError } from '../core/error.ts'
import type { Overrides } from '../core/records.ts'
import { usePayments } from '../react/use-payments.ts'
import { useAsk } from './hooks.ts'
import { straight } from './markdown/links.ts'
import { useLook } from './parts.tsx'
import { useWords } from './words.ts'

/** The props of `PaymentCard`. */
export interface PaymentCardProps {
  readonly oracleDid: string
  readonly overrides?: Overrides
  /** The refusal that names what is to be paid. */
  readonly error: OracleError
  /** Called once it is paid: the message goes out then. */
  readonly onPaid: () => void
}

/** What has to be paid before the message goes out, and the button that pays it. */
export function PaymentCard(props: PaymentCardProps) {
  const payAt = placeOf(props.error)
  return payAt === undefined ? <OnLedger {...props} /> : <AtRoute {...props} payAt={payAt} />
}

/** A claim as a refusal names it. */
interface NamedClaim {
  readonly id: string
  readonly amount: string
  readonly payAt?: unknown
}

function claimsIn({ details }: OracleError): NamedClaim[] {
  // A refusal before the first event has the claims themselves; one that was streamed has the event that names them.
  const { claims = details }: { claims?: unknown } = Object(details)
  return (Array.isArray(claims) ? claims : []).map((claim) => {
    const { claimId, amount = '', denom = '', payAt } = Object(claim)
    return { id: String(claimId), amount: `${String(amount)} ${String(denom)}`.trim(), payAt }
  })
}

/** Where a server settles claims that no ledger knows: a path of its own, and no other. */
function placeOf(error: OracleError): string | undefined {
  const payAt = claimsIn(error)[0]?.payAt
  return typeof payAt === 'string' && /^\/(?!\/)[\w/-]+$/.test(payAt) ? payAt : undefined
}

function OnLedger({ oracleDid, overrides, error, onPaid }: PaymentCardProps) {
  const {
    terms,
    claims,
    pay,
    isPaying,
    error: fault,
    refetch,
  } = usePayments(oracleDid, { overrides })
  const ids = error.claimIds.join()
  useEffect(() => void refetch().catch(() => undefined), [ids])
  const asked = claims.filter(({ id }) => error.claimIds.includes(id))
  const lines = terms
    ? asked.map(({ id, amount, charges }) => ({
        id,
        amount: inCoins(amount, terms),
        turns: charges.map((charge) => inCoins(charge.amount, terms)),
      }))
    : []
  return (
    <Card
      lines={lines}
      fault={fault}
      isPaying={isPaying}
      canPay={terms !== undefined}
      onPay={() => void pay(error.claimIds).then(onPaid, () => undefined)}
    />
  )
}

function AtRoute({
  oracleDid,
  overrides,
  error,
  onPaid,
  payAt,
}: PaymentCardProps & { payAt: string }) {
  const ask = useAsk(oracleDid, overrides)
  const [isPaying, setPaying] = useState(false)
  const [fault, setFault] = useState<OracleError>()
  const known = new Map(claimsIn(error).map(({ id, amount }) => [id, amount]))
  const pay = async () => {
    setPaying(true)
    setFault(undefined)
    try {
      await ask(payAt, { body: { claimIds: error.claimIds } })
      onPaid()
    } catch (thrown) {
      setFault(toOracleError(thrown))
    }
    setPaying(false)
  }
  return (
    <Card
      lines={error.claimIds.map((id) => ({ id, amount: known.get(id) ?? id, turns: [] }))}
      fault={fault}
      isPaying={isPaying}
      canPay
      onPay={() => void pay()}
    />
  )
}

/** So many turns of a claim are named one by one. */
const mostNamed = 5

/** What each of the turns cost. */
const inAll = (turns: readonly string[]): string =>
  [...turns.slice(0, mostNamed), ...(turns.length > mostNamed ? ['…'] : [])].join(' + ')

interface CardProps {
  readonly lines: readonly {
    readonly id: string
    readonly amount: string
    readonly turns: readonly string[]
  }[]
  readonly fault: OracleError | null | undefined
  readonly isPaying: boolean
  readonly canPay: boolean
  readonly onPay: () => void
}

function Card({ lines, fault, isPaying, canPay, onPay }: CardProps) {
  const words = useWords()
  const { components: Parts } = useLook()
  return (
    <section
      className="oc-payment"
      data-state={isPaying ? 'paying' : 'open'}
      aria-label={words.payment}
    >
      <strong role="alert">{words.payment}</strong>
      <ul>
        {lines.map(({ id, amount, turns }) => (
          <li key={id}>
            <bdi>{straight(amount)}</bdi>
            {turns.length > 0 && (
              <span className="oc-state">
                {` ${words.turns(turns.length)}: `}
                <bdi>{inAll(turns)}</bdi>
              </span>
            )}
          </li>
        ))}
      </ul>
      <Parts.ErrorCard error={fault} />
      <div className="oc-row">
        <button type="button" disabled={isPaying || !canPay} onClick={onPay}>
          {isPaying ? words.paying : words.pay}
        </button>
      </div>
    </section>
  )
}

import { useState } from 'react'
import { useContractOracle, type ChatResult, type Overrides } from 'oracle-runtime-client'
import { usePayments } from 'oracle-runtime-client/payments'

interface Props {
  oracleDid: string
  overrides: Overrides
  /** The claims of `onPaymentRequiredError`. */
  claims: readonly string[]
  chat: ChatResult
}

/** What is to be paid before the next turn. Both hooks pay: an app needs one of them. `?pay=claim` shows the second. */
export function Pay(props: Props) {
  const Way = new URLSearchParams(location.search).get('pay') === 'claim' ? PayClaim : PayClaims
  return <Way {...props} />
}

function PayClaims({ oracleDid, overrides, claims, chat }: Props) {
  const { pay, isPaying, error } = usePayments(oracleDid, { overrides })
  return <Asked {...{ claims, chat, isPaying, error }} pay={() => pay(claims)} />
}

function PayClaim({ oracleDid, overrides, claims, chat }: Props) {
  const params = { oracleDid, claimId: claims[0] }
  const { payClaim, isPayingClaim, error } = useContractOracle({ params, overrides })
  return <Asked {...{ claims, chat, error }} isPaying={isPayingClaim} pay={payClaim} />
}

interface AskedProps extends Pick<Props, 'claims' | 'chat'> {
  isPaying: boolean
  error: Error | null
  pay: () => Promise<unknown>
}

/** The claims and a button. Once they are paid, the message that was refused goes out again. */
function Asked({ claims, chat, pay, isPaying, error }: AskedProps) {
  const [paid, setPaid] = useState<readonly string[]>()
  if (paid === claims) return null
  const payAndSayAgain = async () => {
    await pay()
    setPaid(claims)
    const refused = chat.messages.findLast(({ type }) => type === 'human')
    await chat.sendMessage(String(refused?.content))
  }
  return (
    <p role="alert">
      {`To be paid first: ${claims.join(', ')} `}
      <button
        type="button"
        disabled={isPaying}
        onClick={() => void payAndSayAgain().catch(() => {})}
      >
        Pay
      </button>
      {error?.message}
    </p>
  )
}

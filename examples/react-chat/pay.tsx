import { useState } from 'react'
import type { ChatResult, Overrides } from 'oracle-runtime-client'
import { usePayments } from 'oracle-runtime-client/payments'

interface Props {
  oracleDid: string
  overrides: Overrides
  /** The claims of `onPaymentRequiredError`. */
  claims: readonly string[]
  chat: ChatResult
}

/** What is to be paid before the next turn. Once it is, the message that was refused goes out again. */
export function Pay({ oracleDid, overrides, claims, chat }: Props) {
  const { pay, isPaying, error } = usePayments(oracleDid, { overrides })
  const [paid, setPaid] = useState<readonly string[]>()
  if (paid === claims) return null
  const payAndSayAgain = async () => {
    await pay(claims)
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

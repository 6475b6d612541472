import { useEffect, useState } from 'react'
import { createRoot } from 'react-dom/client'
import {
  OraclesProvider,
  renderMessageContent,
  useAgAction,
  useChat,
  useOracleSessions,
} from 'oracle-runtime-client'
import { createDevelopmentWallet } from 'oracle-runtime-client/wallet'
import { z } from 'zod'
import { Call } from './call.tsx'
import { oracleAt } from './oracle.ts'
import { Pay } from './pay.tsx'

const baseUrl = new URLSearchParams(location.search).get('oracle') ?? 'http://127.0.0.1:3000'
const { did: oracleDid, calls } = await oracleAt(baseUrl)
const wallet = await createDevelopmentWallet({ ledger: baseUrl })
const overrides = { baseUrl }
const userDid = wallet.initialWallet.did
const browserTools = {
  clock: {
    toolName: 'look_at_the_clock',
    description: 'What time it is where the user is.',
    schema: z.object({ style: z.enum(['short', 'full']).default('short') }),
    fn: ({ style }: { style: 'short' | 'full' }) =>
      new Date().toLocaleTimeString('en', { timeStyle: style }),
  },
}
type Day = { city: string; temp_c: number; conditions: string }
const WeatherCard = (day: Day) => <b>{`${day.city}: ${day.temp_c} °C, ${day.conditions}`}</b>
const uiComponents = { WeatherCard }

function Chat({ sessionId }: { sessionId: string }) {
  const [claims, onPaymentRequiredError] = useState<string[]>([])
  const tools = { browserTools, uiComponents, onPaymentRequiredError }
  const chat = useChat({ oracleDid, sessionId, overrides, ...tools })
  useAgAction({
    name: 'draw_bar',
    description: 'Draws one number as a bar.',
    effect: 'read',
    parameters: z.object({ label: z.string(), percent: z.number().min(0).max(100) }),
    handler: () => 'The user sees it.',
    render: ({ args }) => <meter aria-label={args?.label} max={100} value={args?.percent} />,
  })
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault()
        void chat.sendMessage(String(new FormData(event.currentTarget).get('words')))
        event.currentTarget.reset()
      }}
    >
      {chat.messages.map(({ id, content }) => (
        <p key={id}>{renderMessageContent(content)}</p>
      ))}
      {calls && <Call {...{ oracleDid, overrides, sessionId, userDid }} />}
      {chat.error && <p role="alert">{chat.error.message}</p>}
      {claims.length > 0 && <Pay {...{ oracleDid, overrides, claims, chat }} />}
      <input name="words" aria-label="Your message" required autoComplete="off" />
      <button disabled={chat.isSending}>Send</button>
      {chat.isSending && <input type="button" value="Stop" onClick={chat.abortStream} />}
    </form>
  )
}

function App() {
  const { sessions, isLoading, createSession } = useOracleSessions(oracleDid, overrides)
  const isNew = !isLoading && sessions.length === 0
  useEffect(() => void (isNew && createSession()), [isNew, createSession])
  return sessions[0] ? <Chat sessionId={sessions[0].sessionId} /> : null
}

createRoot(document.getElementById('root')!).render(
  <OraclesProvider {...wallet}>
    <App />
  </OraclesProvider>,
)

import { createRoot } from 'react-dom/client'
import { OraclesProvider, useAgAction } from 'oracle-runtime-client'
import { OracleChat } from 'oracle-runtime-client/ui'
import 'oracle-runtime-client/ui/style.css'
import { createDevelopmentWallet } from 'oracle-runtime-client/wallet'
import { z } from 'zod'
import { oracleAt } from './oracle.ts'

const baseUrl = new URLSearchParams(location.search).get('oracle') ?? 'http://127.0.0.1:3000'
const { did: oracleDid } = await oracleAt(baseUrl)
const wallet = await createDevelopmentWallet({ ledger: baseUrl })
const overrides = { baseUrl }
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

function Chat() {
  useAgAction({
    name: 'draw_bar',
    description: 'Draws one number as a bar.',
    effect: 'read',
    parameters: z.object({ label: z.string(), percent: z.number().min(0).max(100) }),
    handler: () => 'The user sees it.',
    render: ({ args }) => <meter aria-label={args?.label} max={100} value={args?.percent} />,
  })
  return <OracleChat {...{ oracleDid, overrides, browserTools, uiComponents }} />
}

createRoot(document.getElementById('root')!).render(
  <OraclesProvider {...wallet}>
    <Chat />
  </OraclesProvider>,
)

import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { OracleClientProvider } from 'oracle-runtime-client'
import { Fault } from 'oracle-runtime-client/view'
import { meetOracle } from './oracle.ts'
import { Playground } from './playground.tsx'
import { recordTraffic } from './traffic.ts'

recordTraffic()
const root = createRoot(document.getElementById('root')!)
try {
  const oracle = await meetOracle()
  document.title = `${oracle.name} · Playground`
  root.render(
    <StrictMode>
      <OracleClientProvider client={oracle.client}>
        <Playground oracle={oracle} />
      </OracleClientProvider>
    </StrictMode>,
  )
} catch (error) {
  root.render(
    <main className="alone">
      <h1>Playground</h1>
      <Fault error={error} />
      <p>Reload the page once the server answers.</p>
    </main>,
  )
}

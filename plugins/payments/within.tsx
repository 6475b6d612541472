import { useEffect, useState } from 'react'
import { createRoot } from 'react-dom/client'
import { OracleClientProvider, useRun } from 'oracle-runtime-client'
import { inCoins, usePayments } from 'oracle-runtime-client/payments'
import type { ShowView, ViewHost } from 'oracle-runtime-client/view'

const show: ShowView = (element, host) => {
  const root = createRoot(element)
  root.render(
    <OracleClientProvider client={host.client}>
      <Turn host={host} />
    </OracleClientProvider>,
  )
  return () => root.unmount()
}
export default show

/** How often the cost of a turn is asked for: the oracle bills a turn a moment after its end. */
const mostTries = 5

/** What the last turn of the open chat cost, once it is billed. */
function Turn({ host }: { host: ViewHost }) {
  const { terms, charges, refetch } = usePayments(host.oracleDid)
  const run = useRun({ oracleDid: host.oracleDid, sessionId: host.sessionId })
  const runId = run.ended ? run.runId : undefined
  const [tries, setTries] = useState(0)
  const charge = charges.find((one) => one.runId === runId)
  useEffect(() => setTries(0), [runId])
  const isBilled = charge !== undefined && charge.status !== 'held'
  useEffect(() => {
    if (!runId || isBilled || tries >= mostTries) return
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

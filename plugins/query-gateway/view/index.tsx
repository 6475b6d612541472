import { createRoot } from 'react-dom/client'
import { type ShowView, ViewRoot } from 'oracle-runtime-client/view'
import { LedgerView } from './ledger.tsx'

const show: ShowView = (element, host) => {
  const root = createRoot(element)
  root.render(
    <ViewRoot host={host}>
      <LedgerView />
    </ViewRoot>,
  )
  return () => root.unmount()
}
export default show

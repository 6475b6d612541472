import { createRoot } from 'react-dom/client'
import { addStyle, type ShowView, ViewRoot } from 'oracle-runtime-client/view'
import { RegistryView } from './registry.tsx'
import style from './style.css?inline'

const show: ShowView = (element, host) => {
  const removeStyle = addStyle(style)
  const root = createRoot(element)
  root.render(
    <ViewRoot host={host}>
      <RegistryView />
    </ViewRoot>,
  )
  return () => {
    root.unmount()
    removeStyle()
  }
}
export default show

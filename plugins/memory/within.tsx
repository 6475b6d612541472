import { useEffect, useState } from 'react'
import { createRoot } from 'react-dom/client'
import { OracleClientProvider } from 'oracle-runtime-client'
import type { RememberedThing } from 'oracle-runtime-client/memory'
import { addStyle, type ShowView, type ViewHost } from 'oracle-runtime-client/view'

const show: ShowView = (element, host) => {
  const root = createRoot(element)
  root.render(
    <OracleClientProvider client={host.client}>
      <Part host={host} />
    </OracleClientProvider>,
  )
  const unstyle = addStyle(css)
  return () => {
    unstyle()
    root.unmount()
  }
}
export default show

const css = `
  .used { margin-block: 0.5rem; color: var(--faint); font-size: 0.85em }
  .used summary { cursor: pointer }
  .oc-thread:has(.incognito) .oc-messages { outline: 2px dashed var(--faint); outline-offset: -4px }
`

/** What belongs to memory within a chat. */
function Part({ host }: { host: ViewHost }) {
  const [runId] = host.route
  if (host.within === 'composer') return <Incognito host={host} />
  return runId ? <Used host={host} runId={runId} /> : null
}

interface UsedThings {
  readonly used: readonly { readonly id: string; readonly text: string }[]
}

/** How often it is asked what an answer went by: the oracle notes that a moment after the end of the turn. */
const mostTries = 5

/** What an answer went by, of what the user said before: a count that opens the sentences, each with its quote and its chat. */
function Used({ host, runId }: { host: ViewHost; runId: string }) {
  const [used, setUsed] = useState<UsedThings['used']>([])
  const [tries, setTries] = useState(0)
  const hasEnded = used.length > 0 || tries >= mostTries
  useEffect(() => {
    if (hasEnded) return
    const look = async () =>
      setUsed((await host.ask<UsedThings>(`/memory/used?run=${encodeURIComponent(runId)}`)).used)
    const timer = setTimeout(
      () =>
        void look()
          .catch(() => {}) // The next try asks again, and the last one leaves the count away.
          .then(() => setTries((count) => count + 1)),
      300 * tries,
    )
    return () => clearTimeout(timer)
  }, [runId, hasEnded, tries])
  if (used.length === 0) return null
  return (
    <details className="used">
      <summary>used {used.length}</summary>
      <ul>
        {used.map(({ id, text }) => (
          <UsedThing key={id} host={host} id={id} text={text} />
        ))}
      </ul>
    </details>
  )
}

function UsedThing({ host, id, text }: { host: ViewHost; id: string; text: string }) {
  const [thing, setThing] = useState<RememberedThing>()
  useEffect(() => void host.ask<RememberedThing>(`/memory/${id}`).then(setThing, () => {}), [id])
  const sessionId = thing?.source?.sessionId
  return (
    <li>
      <a href={`#/memory/${id}`}>{text}</a> {thing && <q>{thing.quote}</q>}{' '}
      {sessionId && (
        <button type="button" className="oc-quiet" onClick={() => host.session(sessionId)}>
          Open the chat
        </button>
      )}
    </li>
  )
}

/** The switch of the open chat that keeps it out of memory. */
function Incognito({ host }: { host: ViewHost }) {
  const { sessionId } = host
  const path = `/memory/sessions/${encodeURIComponent(sessionId)}`
  const [incognito, setIncognito] = useState<boolean>()
  useEffect(() => {
    // The chat stays behind other views, and one of them has this switch, too.
    const look = () => {
      if (!sessionId || !location.hash.startsWith('#/chat')) return
      host.ask<{ incognito: boolean }>(path).then(
        (session) => setIncognito(session.incognito),
        () => {},
      )
    }
    look()
    addEventListener('hashchange', look)
    return () => removeEventListener('hashchange', look)
  }, [path])
  if (incognito === undefined) return null
  return (
    <label className={incognito ? 'faint incognito' : 'faint'}>
      <input
        type="checkbox"
        checked={incognito}
        onChange={({ target: { checked } }) => {
          setIncognito(checked)
          host
            .ask(path, { method: 'PUT', body: { incognito: checked } })
            .catch(() => setIncognito(!checked))
        }}
      />{' '}
      Incognito
    </label>
  )
}

import { useEffect, useState } from 'react'
import type { ViewHost } from 'oracle-runtime-client/view'

/** How often it is asked about an answer: the oracle notes what it went by a moment after the end of the turn. */
const mostTries = 5

interface UsedThings {
  readonly used: readonly { readonly id: string; readonly text: string }[]
}

/** What an answer went by, of what the user said before: a count that opens the sentences, each with its quote and its chat. */
export function Used({ host }: { host: ViewHost }) {
  const runId = String(host.about.runId)
  const [used, setUsed] = useState<UsedThings['used']>([])
  const [tries, setTries] = useState(0)
  const hasEnded = used.length > 0 || tries >= mostTries
  useEffect(() => {
    if (hasEnded) return
    const look = async () => {
      const found = await host.ask<UsedThings>(`/memory/used?run=${encodeURIComponent(runId)}`)
      setUsed(found.used)
    }
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
    <details>
      <summary>used {used.length}</summary>
      <ul>
        {used.map(({ id, text }) => (
          <UsedThing key={id} id={id} text={text} host={host} />
        ))}
      </ul>
    </details>
  )
}

interface Thing {
  readonly quote: string
  readonly source?: { readonly sessionId: string }
}

function UsedThing({ id, text, host }: { id: string; text: string; host: ViewHost }) {
  const [thing, setThing] = useState<Thing>()
  useEffect(() => void host.ask<Thing>(`/memory/${id}`).then(setThing, () => {}), [id])
  const sessionId = thing?.source?.sessionId
  return (
    <li>
      <a href={`#/memory/${encodeURIComponent(id)}`}>{text}</a> {thing && <q>{thing.quote}</q>}{' '}
      {sessionId && (
        <button type="button" className="quiet" onClick={() => host.session(sessionId)}>
          Open the chat
        </button>
      )}
    </li>
  )
}

/** The switch that keeps a chat out of memory. */
export function Incognito({ host }: { host: ViewHost }) {
  const [path] = useState(() => `/memory/sessions/${encodeURIComponent(host.sessionId)}`)
  const [incognito, setIncognito] = useState(false)
  useEffect(() => {
    void host.ask<{ incognito: boolean }>(path).then(
      (session) => setIncognito(session.incognito),
      () => {},
    )
  }, [path])
  return (
    <label className="faint">
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

import { useEffect, useState } from 'react'
import type { IMessage } from 'oracle-runtime-client'
import { ask } from '../oracle.ts'
import { go, to } from '../route.ts'

/** How many answers of a chat say what they went by: the newest. */
const mostAnswers = 10
/** How often it is asked about the newest answer: the oracle notes what it went by a moment after the end of the turn. */
const mostTries = 5

/** The last message of each answer, with its run; of the newest answer the run may stand in no message yet. */
export function answersOf(
  messages: readonly IMessage[],
  newest: string | null,
): ReadonlyMap<string, string> {
  const found = new Map<string, string>()
  let runId: string | undefined
  for (const [i, { id, type, run }] of messages.entries()) {
    if (type === 'human') runId = run?.runId
    const next = messages[i + 1]
    if (type !== 'ai' || next?.type === 'ai') continue
    const own = run?.runId ?? runId ?? (next ? undefined : (newest ?? undefined))
    if (own !== undefined) found.set(id, own)
  }
  return new Map([...found].slice(-mostAnswers))
}

interface UsedThings {
  readonly used: readonly { readonly id: string; readonly text: string }[]
}

/** What an answer went by, of what the user said before: a count that opens the sentences, each with its quote and its chat. */
export function Used({ runId, isNewest }: { runId: string; isNewest: boolean }) {
  const [used, setUsed] = useState<UsedThings['used']>([])
  const [tries, setTries] = useState(0)
  const hasEnded = used.length > 0 || tries >= (isNewest ? mostTries : 1)
  useEffect(() => {
    if (hasEnded) return
    const look = async () => {
      const found = await ask<UsedThings>(`/memory/used?run=${encodeURIComponent(runId)}`)
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
    <details className="used">
      <summary>used {used.length}</summary>
      <ul>
        {used.map(({ id, text }) => (
          <UsedThing key={id} id={id} text={text} />
        ))}
      </ul>
    </details>
  )
}

interface Thing {
  readonly quote: string
  readonly source?: { readonly sessionId: string }
}

function UsedThing({ id, text }: { id: string; text: string }) {
  const [thing, setThing] = useState<Thing>()
  useEffect(() => void ask<Thing>(`/memory/${id}`).then(setThing, () => {}), [id])
  const sessionId = thing?.source?.sessionId
  return (
    <li>
      <a href={to('memory', id)}>{text}</a> {thing && <q>{thing.quote}</q>}{' '}
      {sessionId && (
        <button type="button" className="quiet" onClick={() => go('chat', sessionId)}>
          Open the chat
        </button>
      )}
    </li>
  )
}

/** The switch that keeps a chat out of memory. `onChange` hears how it stands. */
export function Incognito(props: { sessionId: string; onChange: (incognito: boolean) => void }) {
  const { sessionId, onChange } = props
  const path = `/memory/sessions/${encodeURIComponent(sessionId)}`
  const [incognito, setIncognito] = useState(false)
  const show = (wanted: boolean) => {
    setIncognito(wanted)
    onChange(wanted)
  }
  useEffect(() => {
    void ask<{ incognito: boolean }>(path).then(
      (session) => show(session.incognito),
      () => {},
    )
  }, [path])
  return (
    <label className="faint">
      <input
        type="checkbox"
        checked={incognito}
        onChange={({ target: { checked } }) => {
          show(checked)
          ask(path, { method: 'PUT', body: { incognito: checked } }).catch(() => show(!checked))
        }}
      />{' '}
      Incognito
    </label>
  )
}

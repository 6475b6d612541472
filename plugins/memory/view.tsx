import { useEffect, useState } from 'react'
import { createRoot } from 'react-dom/client'
import { OracleClientProvider, useMemoryEngine, type MemoryMode } from 'oracle-runtime-client'
import {
  useMemories,
  type MemoriesResult,
  type RememberedThing,
} from 'oracle-runtime-client/memory'
import type { ShowView, ViewHost } from 'oracle-runtime-client/view'

const show: ShowView = (element, host) => {
  const root = createRoot(element)
  root.render(
    <OracleClientProvider client={host.client}>
      <Memory host={host} />
    </OracleClientProvider>,
  )
  return () => root.unmount()
}
export default show

const modes: Readonly<Record<MemoryMode, string>> = {
  ask: 'Ask me first',
  on: 'On: use what is known, and notice more',
  paused: 'Paused: use what is known, keep nothing new',
  off: 'Off: use nothing, keep nothing',
}

/** What the oracle remembers of the user of the page, and how the user rules it. */
function Memory({ host }: { host: ViewHost }) {
  const memories = useMemories(host.oracleDid)
  const engine = useMemoryEngine(host.oracleDid)
  const { error, query, setQuery, total, isLoading, refetch } = memories
  // Turns of the chat may have changed what is known since the page read it.
  useEffect(() => void refetch().catch(() => {}), [])
  const [id] = host.route
  const shown = error ?? engine.error
  return (
    <>
      <p className="lead">
        What you said of yourself, each with your own words. You can correct and erase all of it.
      </p>
      {shown && <p role="alert">{shown.message}</p>}
      <section className="card" aria-labelledby="mode">
        <h2 id="mode">Mode</h2>
        <label>
          How the oracle may remember you
          <select
            value={engine.mode ?? 'ask'}
            onChange={({ target }) =>
              void engine.setMode(target.value as MemoryMode).then(
                () => host.announce(`Memory: ${target.value}.`),
                () => {},
              )
            }
          >
            {Object.entries(modes).map(([mode, words]) => (
              <option key={mode} value={mode}>
                {words}
              </option>
            ))}
          </select>
        </label>
        <Session host={host} memories={memories} />
      </section>
      {id !== undefined && <Whole key={id} id={id} host={host} memories={memories} />}
      <section className="card" aria-labelledby="known">
        <h2 id="known">Known ({total})</h2>
        <label>
          Search
          <input type="search" value={query} onChange={({ target }) => setQuery(target.value)} />
        </label>
        {total === 0 && !isLoading && <p>Nothing is remembered here.</p>}
        <ul aria-label="Memories">
          {memories.memories.map((one) => (
            <li key={one.id}>
              <a href={`#/memory/${one.id}`}>{one.text}</a>{' '}
              <small>
                {one.pinned && 'pinned, '}
                {one.slot ?? one.kind}, since {day(one.validFrom)}
              </small>
            </li>
          ))}
        </ul>
        <Add memories={memories} />
        <button type="button" className="quiet" onClick={() => void save(memories)}>
          Export
        </button>
        <EraseAll host={host} memories={memories} />
      </section>
    </>
  )
}

const day = (iso: string) => new Date(iso).toLocaleDateString()

/** The chat that was open last: whether it is kept out of memory. */
function Session({ host, memories }: { host: ViewHost; memories: MemoriesResult }) {
  const { sessionId } = host
  const path = `/memory/sessions/${encodeURIComponent(sessionId)}`
  const [incognito, setIncognito] = useState<boolean>()
  useEffect(() => {
    if (sessionId)
      host.ask<{ incognito: boolean }>(path).then(
        (session) => setIncognito(session.incognito),
        () => {},
      )
  }, [path])
  if (incognito === undefined) return null
  return (
    <label>
      <input
        type="checkbox"
        checked={incognito}
        onChange={({ target }) => {
          setIncognito(target.checked)
          memories
            .setIncognito(sessionId, target.checked)
            .catch(() => setIncognito(!target.checked))
        }}
      />{' '}
      Keep the open chat out of memory
    </label>
  )
}

interface WholeThing extends RememberedThing {
  readonly allSources: readonly { sessionId: string; quote: string; at: string }[]
}

/** One memory: where it was said, what held before, and the ways to change it. */
function Whole(props: { id: string; host: ViewHost; memories: MemoriesResult }) {
  const { id, host, memories } = props
  const [whole, setWhole] = useState<WholeThing>()
  const [history, setHistory] = useState<readonly RememberedThing[]>([])
  const [said, setSaid] = useState('')
  const read = async () => {
    const found = await host.ask<WholeThing>(`/memory/${encodeURIComponent(id)}`)
    setWhole(found)
    if (found.slot === undefined) return
    const all = await host.ask<{ memories: RememberedThing[] }>('/memory?history=true&limit=200')
    const same = all.memories.filter(
      ({ slot, about }) => slot === found.slot && about === found.about,
    )
    setHistory(same.toSorted((one, other) => one.validFrom.localeCompare(other.validFrom)))
  }
  useEffect(() => void read().catch((error: Error) => setSaid(error.message)), [id])
  if (!whole) return <p role="status">{said || 'Asking…'}</p>
  const change = (changes: Parameters<MemoriesResult['update']>[1]) =>
    memories.update(id, changes).then(read, () => {})
  return (
    <section className="card" aria-labelledby="one">
      <h2 id="one">{whole.text}</h2>
      <ul aria-label="Where it was said">
        {whole.allSources.map(({ sessionId, quote, at }, i) => (
          <li key={i}>
            “{quote}” <small>{day(at)}</small>{' '}
            {sessionId && (
              <button type="button" className="quiet" onClick={() => host.session(sessionId)}>
                Open the chat
              </button>
            )}
          </li>
        ))}
      </ul>
      {history.length > 1 && (
        <ol aria-label="History">
          {history.map((one) => (
            <li key={one.id}>
              {one.text}{' '}
              <small>
                {day(one.validFrom)} – {one.validTo ? `until ${day(one.validTo)}` : 'now'}
              </small>
            </li>
          ))}
        </ol>
      )}
      <form
        className="row"
        onSubmit={(event) => {
          event.preventDefault()
          const text = new FormData(event.currentTarget).get('text')
          if (typeof text === 'string' && text.trim()) void change({ text })
        }}
      >
        <label className="grow">
          Correct it
          <input name="text" key={whole.text} defaultValue={whole.text} maxLength={240} />
        </label>
        <button>Save</button>
      </form>
      <button
        type="button"
        className="quiet"
        onClick={() => void change({ pinned: !whole.pinned })}
      >
        {whole.pinned ? 'Unpin' : 'Pin'}
      </button>
      <button
        type="button"
        className="quiet"
        onClick={() =>
          void memories.remove(id).then(
            ({ message }) => {
              host.announce(message)
              host.go()
            },
            () => {},
          )
        }
      >
        Erase
      </button>
    </section>
  )
}

function Add({ memories }: { memories: MemoriesResult }) {
  const [text, setText] = useState('')
  return (
    <form
      className="row"
      onSubmit={(event) => {
        event.preventDefault()
        void memories.add({ text }).then(
          // What was written meanwhile stays.
          () => setText((now) => (now === text ? '' : now)),
          () => {},
        )
      }}
    >
      <label className="grow">
        Remember a sentence
        <input value={text} maxLength={240} onChange={({ target }) => setText(target.value)} />
      </label>
      <button disabled={!text.trim()}>Remember</button>
    </form>
  )
}

/** Hands the export to the browser as a file. */
async function save(memories: MemoriesResult): Promise<void> {
  const all = await memories.exportAll().catch(() => undefined)
  if (all === undefined) return
  const link = document.createElement('a')
  link.href = URL.createObjectURL(new Blob([JSON.stringify(all, null, 2)]))
  link.download = 'memory.json'
  link.click()
  URL.revokeObjectURL(link.href)
}

function EraseAll({ host, memories }: { host: ViewHost; memories: MemoriesResult }) {
  const [isSure, setSure] = useState(false)
  if (!isSure)
    return (
      <button type="button" className="quiet" onClick={() => setSure(true)}>
        Erase all…
      </button>
    )
  const erase = async () => {
    setSure(false)
    const { erased } = await memories.removeAll()
    host.announce(`${erased} memories are erased.`)
  }
  return (
    <>
      <span>Everything that is remembered of you goes.</span>
      <button type="button" onClick={() => void erase().catch(() => {})}>
        Erase all
      </button>
      <button type="button" className="quiet" onClick={() => setSure(false)}>
        Keep it
      </button>
    </>
  )
}

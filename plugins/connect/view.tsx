import { useEffect, useState } from 'react'
import { createRoot } from 'react-dom/client'
import type { ShowView, ViewHost } from 'oracle-runtime-client/view'

const show: ShowView = (element, host) => {
  const root = createRoot(element)
  root.render(<Connect host={host} />)
  return () => root.unmount()
}
export default show

interface Door {
  readonly name: string
  readonly title: string
  readonly lines: string
}

interface Key {
  readonly id: string
  readonly name: string
  readonly expiresAt: string
  /** The key itself, which the server tells once. */
  readonly key?: string
}

/** What the lines say in place of a key. */
const placeholder = 'ok_…'
/** What a key of this page opens: the agent, and its tools for clients of MCP. */
const can = ['oracle/call', 'tools/call']

/** How clients of other protocols connect, with a fresh key in the lines to paste. */
function Connect({ host }: { host: ViewHost }) {
  const kept = host.keep.get('connect-key') as Key | undefined
  const [doors, setDoors] = useState<readonly Door[]>()
  const [keys, setKeys] = useState<readonly Key[]>([])
  const [fresh, setFresh] = useState(kept)
  const [fault, setFault] = useState('')
  const failed = (error: Error) => setFault(error.message)
  const list = async () => setKeys((await host.ask<{ keys: Key[] }>('/keys')).keys)
  const read = async () => {
    setDoors((await host.ask<{ doors: Door[] }>('/connect')).doors)
    await list()
  }
  useEffect(() => void read().catch(failed), [])
  const keep = (key: Key | undefined) => {
    setFault('')
    setFresh(key)
    host.keep.set('connect-key', key)
  }
  const make = async (name: string) => {
    keep(await host.ask<Key>('/keys', { body: { name, can } }))
    host.announce('The key stands in the lines below. It is shown here alone.')
    await list()
  }
  const end = async ({ id, name }: Key) => {
    await host.ask(`/keys/${encodeURIComponent(id)}`, { method: 'DELETE' })
    if (fresh?.id === id) keep(undefined)
    host.announce(`The key “${name}” is ended.`)
    await list()
  }
  return (
    <>
      <p className="lead">Use this oracle from your editor, your chat program or your own code.</p>
      {fault && <p role="alert">{fault}</p>}
      <Keys
        keys={keys}
        make={(name) => make(name).catch(failed)}
        end={(key) => end(key).catch(failed)}
      />
      {fresh?.key && (
        <p role="status">
          The key <code className="break">{fresh.key}</code> is in the lines below. It is shown
          once: a reload of the page takes it away.
        </p>
      )}
      {doors?.length === 0 && <p>This server has no door for clients of other protocols.</p>}
      {doors?.map((door) => (
        <Lines key={door.name} door={door} secret={fresh?.key} host={host} />
      ))}
    </>
  )
}

/** The keys of the user: one is made by its name, and each can be ended. */
function Keys(props: {
  keys: readonly Key[]
  make(name: string): Promise<void>
  end(key: Key): Promise<void>
}) {
  const [name, setName] = useState('')
  return (
    <section className="card" aria-labelledby="keys">
      <h2 id="keys">Your keys</h2>
      <p>
        Whoever has a key talks to the oracle as you and calls its tools, until the key ends. What
        asks you first stays with you.
      </p>
      <ul aria-label="Keys">
        {props.keys.map((key) => (
          <li key={key.id}>
            {key.name} <small>until {new Date(key.expiresAt).toLocaleDateString()}</small>{' '}
            <button type="button" className="quiet" onClick={() => void props.end(key)}>
              End
            </button>
          </li>
        ))}
      </ul>
      <form
        className="row"
        onSubmit={(event) => {
          event.preventDefault()
          void props.make(name.trim()).then(() => setName(''))
        }}
      >
        <label className="grow">
          What the key is for
          <input value={name} maxLength={80} onChange={({ target }) => setName(target.value)} />
        </label>
        <button disabled={!name.trim()}>Make a key</button>
      </form>
    </section>
  )
}

/** What to paste for one protocol. */
function Lines({ door, secret, host }: { door: Door; secret?: string; host: ViewHost }) {
  const text = secret ? door.lines.replaceAll(placeholder, secret) : door.lines
  const id = `door-${door.name}`
  const copy = () =>
    navigator.clipboard.writeText(text).then(
      () => host.announce('Copied.'),
      () => host.announce('The browser does not let the page copy. Select the lines.'),
    )
  return (
    <section className="card" aria-labelledby={id}>
      <h2 id={id}>{door.title}</h2>
      <pre>{text}</pre>
      <button type="button" className="quiet" onClick={() => void copy()}>
        Copy
      </button>
    </section>
  )
}

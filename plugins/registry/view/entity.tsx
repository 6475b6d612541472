import { useEffect, useState } from 'react'
import { answer, Fault, LinesField, TextField, useHost } from 'oracle-runtime-client/view'
import { nameOf, type Entity } from './registry.tsx'

interface Held {
  readonly entity: Entity
  readonly tag: string
}

/**
 * An editor of one entity's properties. When somebody else has changed the properties meanwhile, the editor shows both
 * versions and overwrites neither. Half of the function is markup; the handlers above it share the editor's state.
 */
export function EntityEditor({ did, onChanged }: { did: string; onChanged: () => void }) {
  const path = `/v1/entities/${encodeURIComponent(did)}`
  const host = useHost()
  const [held, setHeld] = useState<Held>()
  const [text, setText] = useState('')
  const [theirs, setTheirs] = useState<Held>()
  const [fault, setFault] = useState<unknown>()
  const [note, setNote] = useState('')
  const [role, setRole] = useState('')
  const [target, setTarget] = useState('')

  const read = async (): Promise<Held> => {
    const response = await answer(host, path)
    const entity = (await response.json()) as Entity
    if (!response.ok) throw entity
    return { entity, tag: response.headers.get('etag') ?? '' }
  }
  const take = (fresh: Held) => {
    setHeld(fresh)
    setText(JSON.stringify(fresh.entity.properties, null, 2))
    setTheirs(undefined)
  }
  useEffect(() => {
    read().then(take, setFault)
  }, [path])

  const work = (job: () => Promise<string>) => {
    setFault(undefined)
    setNote('')
    job().then((said) => (setNote(said), onChanged()), setFault)
  }

  const save = (over = held) =>
    work(async () => {
      const wanted = JSON.parse(text) as Record<string, unknown>
      // A merge patch removes a property by the value null.
      const gone = Object.keys(over!.entity.properties).filter((name) => !(name in wanted))
      const properties = { ...wanted, ...Object.fromEntries(gone.map((name) => [name, null])) }
      const response = await answer(host, path, {
        method: 'PATCH',
        body: { properties },
        headers: { 'if-match': over!.tag },
      })
      const body = (await response.json()) as Entity
      if (response.status === 412) {
        setTheirs(await read())
        throw new Error('Somebody changed this entity since you read it. Both versions are below.')
      }
      if (!response.ok) throw body
      take({ entity: body, tag: response.headers.get('etag') ?? '' })
      return `Saved as version ${body.version}.`
    })

  const relate = () =>
    work(async () => {
      await host.ask(
        `${path}/relationships/${encodeURIComponent(role)}/${encodeURIComponent(target)}`,
        {
          method: 'PUT',
          body: {},
        },
      )
      take(await read())
      return 'Related.'
    })

  if (!held) return <Fault error={fault} />
  const { entity } = held
  return (
    <section className="card" aria-labelledby="entity-title">
      <div className="row spread">
        <h2 id="entity-title">{nameOf(entity)}</h2>
        <span className="tag">version {entity.version}</span>
      </div>
      <p className="faint">
        {entity.type}
        {entity.class && `, ${entity.class}`} · <code className="break">{entity.did}</code>
      </p>
      <form
        className="fields"
        onSubmit={(event) => {
          event.preventDefault()
          save()
        }}
      >
        <LinesField label="Properties" value={text} onChange={setText} rows={7} />
        <div className="row">
          <button type="submit">Save</button>
          <button
            type="button"
            className="quiet"
            onClick={() => work(async () => (take(await read()), 'Read again.'))}
          >
            Read again
          </button>
        </div>
      </form>
      {note && (
        <p role="status" className="good">
          {note}
        </p>
      )}
      <Fault error={fault} />
      {theirs && (
        <div className="conflict" role="group" aria-label="Conflict">
          <h3>Version {theirs.entity.version}, theirs</h3>
          <pre tabIndex={0}>{JSON.stringify(theirs.entity.properties, null, 2)}</pre>
          <div className="row">
            <button type="button" onClick={() => (setFault(undefined), take(theirs))}>
              Take theirs
            </button>
            <button type="button" className="quiet" onClick={() => save(theirs)}>
              Save mine over it
            </button>
          </div>
        </div>
      )}
      <form
        className="row wrap"
        aria-label="New relationship"
        onSubmit={(event) => {
          event.preventDefault()
          relate()
        }}
      >
        <TextField label="Role" value={role} onChange={setRole} required />
        <TextField label="Target DID" value={target} onChange={setTarget} required />
        <button type="submit">Relate</button>
      </form>
    </section>
  )
}

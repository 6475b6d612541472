import { useState } from 'react'
import { Fault, LinesField, TextField, useAnswer, useHost } from 'oracle-runtime-client/view'
import { Graph, type Walk } from './graph.tsx'
import { EntityEditor } from './entity.tsx'

/** An entity as the registry shows it. */
export interface Entity {
  readonly did: string
  readonly type: string
  readonly class?: string
  readonly controller: string
  readonly properties: Readonly<Record<string, unknown>>
  readonly relationships: readonly { readonly role: string; readonly target: string }[]
  readonly status: string
  readonly version: number
}

interface Protocol {
  readonly did: string
  readonly name?: string
  readonly version: number
  readonly effective: { readonly properties: Readonly<Record<string, unknown>> }
}

interface List<Item> {
  readonly items: readonly Item[]
  readonly nextCursor?: string
}

/** The entities, their graph, and an editor for the entity that the address names. */
export function RegistryView() {
  const { client, route, go } = useHost()
  const [selected] = route
  const [words, setWords] = useState('')
  const [type, setType] = useState('')
  const query = new URLSearchParams({
    limit: '50',
    ...(words && { q: words }),
    ...(type && { type }),
  })
  const found = useAnswer<List<Entity>>(`/v1/entities?${query}`)
  const items = found.data?.items ?? []
  return (
    <>
      <p className="lead">
        Organisations, projects, devices and oracles, as twins in a graph. What you create here is
        yours: <code className="break">{client.wallet.did}</code>
      </p>
      <div className="columns narrow-first">
        <div>
          <section className="card" aria-labelledby="found-title">
            <h2 id="found-title">Entities</h2>
            <label>
              Search
              <input
                type="search"
                value={words}
                onChange={(event) => setWords(event.target.value)}
              />
            </label>
            <TextField
              label="Type"
              value={type}
              onChange={setType}
              list={[...new Set(items.map((one) => one.type))]}
            />
            <Fault error={found.error} />
            {!found.isLoading && items.length === 0 && (
              <p className="faint">None yet. Create one below.</p>
            )}
            <ul className="picks">
              {items.map((entity) => (
                <li key={entity.did}>
                  <a
                    href={`#/registry/${encodeURIComponent(entity.did)}`}
                    aria-current={entity.did === selected ? 'true' : undefined}
                  >
                    <strong>{nameOf(entity)}</strong>
                    <small>{entity.type}</small>
                  </a>
                </li>
              ))}
            </ul>
            {found.data?.nextCursor && <p className="faint">There are more: search for fewer.</p>}
          </section>
          <Create
            onCreated={(did) => {
              found.reload()
              go(did)
            }}
          />
        </div>
        <div>
          {selected ? (
            <Selected
              key={selected}
              did={selected}
              names={new Map(items.map((one) => [one.did, nameOf(one)]))}
              onChanged={found.reload}
            />
          ) : (
            <section className="card">
              <p>Choose an entity to see what it is related to.</p>
            </section>
          )}
        </div>
      </div>
    </>
  )
}

/** The name of an entity; without one, the end of its DID. */
export const nameOf = ({
  did,
  properties,
}: {
  did: string
  properties?: Readonly<Record<string, unknown>>
}) => String(properties?.name ?? properties?.title ?? did.slice(did.lastIndexOf(':') + 1))

function Selected(props: {
  did: string
  names: ReadonlyMap<string, string>
  onChanged: () => void
}) {
  const { did, names, onChanged } = props
  const { go } = useHost()
  const [depth, setDepth] = useState('2')
  const [direction, setDirection] = useState('both')
  const [role, setRole] = useState('')
  const query = new URLSearchParams({ depth, direction, ...(role && { role }) })
  const walk = useAnswer<Walk>(`/v1/entities/${encodeURIComponent(did)}/graph?${query}`)
  const reload = () => {
    walk.reload()
    onChanged()
  }
  return (
    <>
      <section className="card" aria-labelledby="graph-title">
        <h2 id="graph-title">Graph</h2>
        <div className="row wrap">
          <label>
            Depth{' '}
            <select value={depth} onChange={(event) => setDepth(event.target.value)}>
              {['1', '2', '3', '4'].map((one) => (
                <option key={one}>{one}</option>
              ))}
            </select>
          </label>
          <label>
            Direction{' '}
            <select value={direction} onChange={(event) => setDirection(event.target.value)}>
              {['out', 'in', 'both'].map((one) => (
                <option key={one}>{one}</option>
              ))}
            </select>
          </label>
          <TextField
            label="Roles"
            value={role}
            onChange={setRole}
            list={[...new Set(walk.data?.edges.map((edge) => edge.role))]}
          />
        </div>
        <Fault error={walk.error} />
        {walk.data && <Graph walk={walk.data} names={names} onSelect={(node) => go(node)} />}
      </section>
      <EntityEditor did={did} onChanged={reload} />
    </>
  )
}

const organisation = {
  type: 'Protocol',
  properties: { name: { type: 'string', required: true }, country: 'string', website: 'string' },
  relationships: { implements: 'ProjectEntity', owns: 'Device' },
}

/** A form for a new entity, which also creates a first protocol if there is none. */
function Create({ onCreated }: { onCreated: (did: string) => void }) {
  const { ask } = useHost()
  const protocols = useAnswer<List<Protocol>>('/v1/protocols?limit=100')
  const [type, setType] = useState('OrganisationEntity')
  const [protocol, setProtocol] = useState('')
  const [name, setName] = useState('')
  const [more, setMore] = useState('')
  const [fault, setFault] = useState<unknown>()
  const [busy, setBusy] = useState(false)
  const known = protocols.data?.items ?? []
  const chosen = protocol || known[0]?.did

  async function create() {
    setBusy(true)
    setFault(undefined)
    try {
      const follows = chosen ?? (await ask<Protocol>('/v1/protocols', { body: organisation })).did
      const properties = { name, ...(more.trim() ? (JSON.parse(more) as object) : {}) }
      const { did } = await ask<Entity>('/v1/entities', {
        body: { type, protocol: follows, properties },
      })
      setName('')
      protocols.reload()
      onCreated(did)
    } catch (error) {
      setFault(
        error instanceof SyntaxError
          ? new Error(`The properties are no JSON: ${error.message}`)
          : error,
      )
    } finally {
      setBusy(false)
    }
  }

  return (
    <form
      className="card fields"
      aria-labelledby="create-title"
      onSubmit={(event) => {
        event.preventDefault()
        void create()
      }}
    >
      <h2 id="create-title">Create an entity</h2>
      <TextField
        label="Entity type"
        value={type}
        onChange={setType}
        required
        list={['OrganisationEntity', 'ProjectEntity', 'Device', 'OracleEntity']}
      />
      <label>
        Protocol
        <select
          value={chosen ?? ''}
          onChange={(event) => setProtocol(event.target.value)}
          disabled={known.length === 0}
        >
          {known.length === 0 && (
            <option value="">a first one is made: name, country, website</option>
          )}
          {known.map((one) => (
            <option key={one.did} value={one.did}>
              {Object.keys(one.effective.properties).slice(0, 4).join(', ') || 'no properties'} (
              {one.did.slice(-6)}, version {one.version})
            </option>
          ))}
        </select>
      </label>
      <TextField label="Name" value={name} onChange={setName} required />
      <LinesField label="More properties, as JSON" value={more} onChange={setMore} rows={3} />
      <Fault error={fault ?? protocols.error} />
      <button type="submit" disabled={busy}>
        Create
      </button>
    </form>
  )
}

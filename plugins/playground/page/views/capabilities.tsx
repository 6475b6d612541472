import { useEffect, useState } from 'react'
import { useCapabilities, type Capability } from 'oracle-runtime-client'
import { Copy, Fault, type JsonSchema, SchemaForm, type Values } from 'oracle-runtime-client/view'
import type { Oracle } from '../oracle.ts'
import { go } from '../route.ts'
import './views.css'
import './capabilities.css'

interface Props {
  readonly oracle: Oracle
  readonly sessionId: string
  /** The plugins that the agent loaded in the last turn. */
  readonly loadedNow: ReadonlySet<string>
  readonly onAsk: (message: string) => void
}

/** What a plugin has in each call of a model: its lines, and its tools once it is loaded. */
const costOf = ({ promptBytes, toolBytes = 0, loaded }: Capability): number =>
  promptBytes + (loaded ? toolBytes : 0)

/** The oracle's plugins: what each can do, whether the agent has loaded it, and what it costs of the prompt. */
export function CapabilitiesView({ oracle, sessionId, loadedNow, onAsk }: Props) {
  const {
    plugins,
    instructionsBytes = 0,
    isLoading,
    error,
    load,
    refetch,
  } = useCapabilities(oracle.did, { sessionId })
  // What was asked before the agent loaded something, here or in another tab, holds no more.
  useEffect(() => {
    const again = () => void refetch().catch(() => {})
    again()
    addEventListener('focus', again)
    return () => removeEventListener('focus', again)
  }, [sessionId, loadedNow])
  const total = plugins.reduce((sum, one) => sum + costOf(one), instructionsBytes)
  return (
    <>
      <p className="lead">
        On-demand plugins cost the agent one line each. It loads their tools when it needs them; you
        can do the same by hand.
      </p>
      <Fault error={error} />
      {isLoading && plugins.length === 0 && <p role="status">Asking…</p>}
      <p className="row">
        <span className="faint">{total.toLocaleString('en')} bytes of the prompt in all</span>
        {instructionsBytes > 0 && (
          <span className="faint">
            {instructionsBytes.toLocaleString('en')} of them say who the agent is
          </span>
        )}
        <button type="button" className="quiet" onClick={() => void refetch()}>
          Refresh
        </button>
      </p>
      <ul className="plugins">
        {plugins.map((plugin) => (
          <li key={plugin.name} className="card">
            <Plugin
              plugin={plugin}
              total={total}
              isNew={loadedNow.has(plugin.name)}
              canLoad={sessionId !== '' && plugin.state === 'available' && !plugin.loaded}
              onLoad={() => load(plugin.name)}
              onAsk={onAsk}
            />
          </li>
        ))}
      </ul>
    </>
  )
}

interface PluginProps {
  readonly plugin: Capability
  readonly total: number
  readonly isNew: boolean
  readonly canLoad: boolean
  readonly onLoad: () => Promise<void>
  readonly onAsk: (message: string) => void
}

/** One plugin as a card. The function is long because its markup has an entry for each fact that a plugin may have. */
function Plugin({ plugin, total, isNew, canLoad, onLoad, onAsk }: PluginProps) {
  const [fault, setFault] = useState<unknown>()
  const {
    name,
    summary,
    visibility,
    state,
    loaded,
    reason,
    requires,
    uses = [],
    whenToUse,
    tools,
    routes,
  } = plugin
  const cost = costOf(plugin)
  const toLoad = loaded ? 0 : (plugin.toolBytes ?? 0)
  const isOut = ['excluded', 'disabled', 'failed'].includes(state)
  const word = loaded && visibility === 'on-demand' ? 'loaded in this chat' : state
  return (
    <article aria-labelledby={`plugin-${name}`} data-state={word}>
      <div className="row spread">
        <h2 id={`plugin-${name}`}>{name}</h2>
        <span className="row">
          <span className="tag">{visibility}</span>
          <span className={`tag ${isOut ? 'bad' : loaded || state === 'loaded' ? 'good' : ''}`}>
            {word}
          </span>
        </span>
      </div>
      <p>{summary}</p>
      {isNew && <p className="good">Loaded by the agent in the last turn.</p>}
      {reason && <p className="warn">{reason}</p>}
      {whenToUse.length > 0 && (
        <ul className="faint">
          {whenToUse.map((line) => (
            <li key={line}>{line}</li>
          ))}
        </ul>
      )}
      <dl className="facts">
        {plugin.missing && plugin.missing.length > 0 && (
          <>
            <dt>Missing</dt>
            <dd>
              <code>{plugin.missing.join(', ')}</code>
            </dd>
          </>
        )}
        {requires.length > 0 && (
          <>
            <dt>Requires</dt>
            <dd>{requires.join(', ')}</dd>
          </>
        )}
        {uses.length > 0 && (
          <>
            <dt>Uses</dt>
            <dd>{uses.join(', ')}</dd>
          </>
        )}
        <dt>Prompt</dt>
        <dd>
          <meter
            min={0}
            max={Math.max(total, 1)}
            value={cost}
            aria-label={`Share of the prompt of ${name}`}
          />{' '}
          {cost.toLocaleString('en')} bytes
          {toLoad > 0 && ` now, ${(cost + toLoad).toLocaleString('en')} if loaded`}
        </dd>
        <dt>Stability</dt>
        <dd>{plugin.stability}</dd>
      </dl>
      {canLoad && (
        <button
          type="button"
          className="quiet"
          onClick={() => onLoad().then(() => setFault(undefined), setFault)}
        >
          Load {name}
        </button>
      )}
      <Fault error={fault} />
      {tools.map((tool) => (
        <details key={tool.name} className="tool-form">
          <summary>
            <code>{tool.name}</code> <span className="tag">{tool.effect}</span>
            <span className="about">{tool.description}</span>
          </summary>
          <ToolForm name={tool.name} parameters={tool.parameters} onAsk={onAsk} />
        </details>
      ))}
      {routes.length > 0 && (
        <details>
          <summary>{routes.length === 1 ? 'One route' : `${routes.length} routes`}</summary>
          <ul className="routes">
            {routes.map(({ route, auth }) => (
              <li key={route}>
                <code className="break">{route}</code> <span className="tag">{auth}</span>
              </li>
            ))}
          </ul>
        </details>
      )}
    </article>
  )
}

/** A form for the arguments of a tool. Tools run only in turns, so the form writes a message that asks for the call. */
function ToolForm(props: {
  name: string
  parameters: Readonly<Record<string, unknown>>
  onAsk: (message: string) => void
}) {
  const { name, parameters, onAsk } = props
  const [values, setValues] = useState<Values>({})
  const sentence = (given: Values) => `Call ${name} with ${JSON.stringify(given)}`
  const curl = () => {
    const body = JSON.stringify({ message: sentence(values) }).replaceAll("'", `'\\''`)
    const type = 'content-type: application/json'
    return `curl -N -K /tmp/me -H '${type}' -d '${body}' ${location.origin}/messages/$SESSION`
  }
  return (
    <SchemaForm
      schema={parameters as JsonSchema}
      submit="Ask the agent"
      onChange={setValues}
      onSubmit={(given) => onAsk(sentence(given))}
    >
      <Copy text={curl}>Copy as curl</Copy>
    </SchemaForm>
  )
}

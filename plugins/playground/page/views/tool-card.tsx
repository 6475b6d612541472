import { createContext, lazy, Suspense, useContext } from 'react'
import type { UIComponentProps, UIComponents } from 'oracle-runtime-client'
import { Json } from 'oracle-runtime-client/view'

const FileList = lazy(async () => ({ default: (await import('../parts/file-view.tsx')).FileList }))

const TimesContext = createContext<ReadonlyMap<string, number>>(new Map())

/** Provides how long each tool call took, as this page measured it. */
export const Times = TimesContext.Provider

const WaitingContext = createContext<string | undefined>(undefined)

/** Provides the id of the tool call that waits for the user's approval. */
export const Waiting = WaitingContext.Provider

function ToolCard({ id, toolName, args, status, output, error, parts = [] }: UIComponentProps) {
  const ms = useContext(TimesContext).get(id)
  const waits = useContext(WaitingContext) === id
  const word =
    status === 'isRunning'
      ? waits
        ? 'waits for you'
        : 'running'
      : status === 'error'
        ? 'failed'
        : 'done'
  return (
    <>
      <details className={`tool ${waits ? 'waiting' : word}`} data-tool={toolName}>
        <summary>
          <span className="dot" aria-hidden="true" />
          <code>{toolName}</code>
          <span className="about">{briefly(args)}</span>
          <span className="figure">{ms === undefined ? '' : `${Math.round(ms)} ms`}</span>
          <span className={`tag ${word === 'failed' ? 'bad' : word === 'done' ? 'good' : ''}`}>
            {word}
          </span>
        </summary>
        <h4>Arguments</h4>
        <Json value={args} label={`Arguments of ${toolName}`} />
        {(error || output) && (
          <>
            <h4>{error ? 'Fault' : 'Result'}</h4>
            <Json value={error ?? output} label={`Result of ${toolName}`} />
          </>
        )}
      </details>
      {parts.length > 0 && (
        <Suspense>
          <FileList
            label={`Files of ${toolName}`}
            files={parts.map(({ name, type, ...part }) => ({ ...part, name: name ?? type }))}
          />
        </Suspense>
      )}
    </>
  )
}

interface Reading {
  readonly city?: string
  readonly country?: string
  readonly temp_c?: number
  readonly conditions?: string
}

function WeatherCard({ args }: { args?: Reading }) {
  const { city, country, temp_c, conditions } = args ?? {}
  return (
    <section className="weather" aria-label={`Weather in ${city}`}>
      <span className="degrees">{temp_c === undefined ? '–' : `${Math.round(temp_c)}°`}</span>
      <span>
        <strong>
          {city}
          {country && `, ${country}`}
        </strong>
        <br />
        {conditions}
      </span>
    </section>
  )
}

/** The components that the agent may show, by name; any other tool call is shown as a card. */
export const components: UIComponents = { ToolCall: ToolCard, WeatherCard }

function briefly(args: unknown): string {
  const text = Object.values(Object(args))
    .map((value) => (typeof value === 'string' ? value : JSON.stringify(value)))
    .join(', ')
  return text.length > 60 ? `${text.slice(0, 57)}…` : text
}

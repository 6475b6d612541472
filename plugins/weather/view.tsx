import { createRoot } from 'react-dom/client'
import type { IMessage } from 'oracle-runtime-client'
import { addStyle, type ShowView, type ViewHost } from 'oracle-runtime-client/view'

/** Shows below an answer the weather that the answer is about. */
const show: ShowView = (element, host) => {
  const root = createRoot(element)
  root.render(readingsOf(host).map((reading, nth) => <Card key={nth} {...reading} {...host} />))
  const unstyle = addStyle(css)
  return () => {
    unstyle()
    root.unmount()
  }
}
export default show

const css = `
  .weather-card { display: flex; inline-size: fit-content; gap: 1.25rem; align-items: center; margin: 0.5rem 0.75rem 0.5rem 0;
    padding: 0.75rem 1rem; border: 1px solid var(--line); border-radius: 0.75rem }
  .weather-card figcaption { font-weight: 600 }
  .weather-card small { display: block; color: var(--faint); font-weight: 400 }
  .weather-card b { font-size: 1.75rem; font-weight: 600 }
`

/** What the card shows of the arguments of the component. */
interface Shown {
  readonly city: string
  readonly country?: string
  readonly temperature: number
  readonly units: 'celsius' | 'fahrenheit'
  readonly conditions: string
}

function Card(props: Shown & Pick<ViewHost, 'locale'>) {
  const { city, country, temperature, units: unit, conditions, locale } = props
  const style = { style: 'unit', unit, maximumFractionDigits: 1 } as const
  return (
    <figure className="weather-card">
      <figcaption dir="auto">
        {country ? `${city}, ${country}` : city}
        <small>{conditions}</small>
      </figcaption>
      <b>{temperature.toLocaleString(locale, style)}</b>
    </figure>
  )
}

/** The readings of an answer: those of the messages behind the person's words that began its run. */
function readingsOf({ client, oracleDid, sessionId, route: [runId] }: ViewHost): readonly Shown[] {
  const { messages, run } = client.chat({ oracleDid, sessionId }).getSnapshot()
  const isPerson = ({ type }: IMessage) => type === 'human'
  // The run of the newest words may stand in no message yet.
  const named = messages.findLastIndex((one) => isPerson(one) && one.run?.runId === runId)
  const from = named < 0 && run.runId === runId ? messages.findLastIndex(isPerson) : named
  if (from < 0) return []
  const behind = messages.slice(from + 1)
  const next = behind.findIndex(isPerson)
  return behind
    .slice(0, next < 0 ? undefined : next)
    .flatMap(({ toolCalls = [] }) => toolCalls)
    .filter(({ name }) => name === 'WeatherCard')
    .map(({ args }) => args)
    .filter(isShown)
}

/** Another plugin may show a component of this name with other arguments. */
function isShown(args: unknown): args is Shown {
  const { city, country = '', temperature, units, conditions } = Object(args)
  return (
    [city, country, conditions].every((text) => typeof text === 'string') &&
    Number.isFinite(temperature) &&
    (units === 'celsius' || units === 'fahrenheit')
  )
}

import type { Step } from './timeline.tsx'

interface Bytes {
  readonly [part: string]: number | Readonly<Record<string, { lines: number; tools: number }>>
}

/** What a call of a model was sent, by whom it comes from; nothing for a step that is none, or of which nobody has kept it. */
export function Sent({ step }: { step: Step }) {
  const { sent, usage } = step as { sent?: Bytes; usage?: { inputTokens?: number } }
  if (sent?.kernel === undefined) return null
  const rows = rowsOf(sent)
  const whole = rows.reduce((sum, [, bytes]) => sum + bytes, 0)
  const tokens = usage?.inputTokens
  return (
    <table className="sent">
      <caption>Sent to the model</caption>
      <thead>
        <tr>
          <th scope="col">Part</th>
          <th scope="col">Bytes</th>
          {tokens !== undefined && <th scope="col">Tokens, about</th>}
        </tr>
      </thead>
      <tbody>
        {rows.map(([name, bytes]) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            <td>{bytes.toLocaleString()}</td>
            {tokens !== undefined && (
              <td>{Math.round((tokens * bytes) / whole).toLocaleString()}</td>
            )}
          </tr>
        ))}
      </tbody>
    </table>
  )
}

/** The parts that have bytes, in the order in which a model reads them. */
function rowsOf(sent: Bytes): [string, number][] {
  const { furtherPlugins } = sent
  const plugins = {
    ...(typeof sent.plugins === 'object' && sent.plugins),
    ...(typeof furtherPlugins === 'object' && { 'further plugins': furtherPlugins }),
  } as Record<string, { lines: number; tools: number }>
  const of = (name: string, part = name): [string, number][] => {
    const bytes = sent[part]
    return typeof bytes === 'number' && bytes > 0 ? [[name, bytes]] : []
  }
  return [
    ...of('kernel'),
    ...of('persona'),
    ...of('catalogue'),
    ...Object.entries(plugins).flatMap(([name, { lines, tools }]): [string, number][] => [
      ...(lines > 0 ? [[`${name}: lines`, lines] as [string, number]] : []),
      ...(tools > 0 ? [[`${name}: tools`, tools] as [string, number]] : []),
    ]),
    ...of('tools of the page', 'clientTools'),
    ...of('summary'),
    ...of('history'),
    ...of('results'),
  ]
}

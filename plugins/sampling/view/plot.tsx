import { ticksOf } from './figures.ts'

/** The sample sizes for one value of the plotted input. */
export interface Point {
  readonly x: number
  readonly calculatedSize: number
  readonly adjustedSize: number
}

const width = 560
const height = 280
const left = 66
const bottom = 52

/**
 * A plot of sizes over one of their inputs, with the chosen point; a table below has the same numbers. Most of the length
 * is the markup of axes and marks, which share the two scales.
 */
export function Plot(props: {
  points: readonly Point[]
  label: string
  chosen: number
  /** Said behind the number at the chosen point: what it leaves out. */
  about?: string
}) {
  const { points, label, chosen, about } = props
  if (points.length < 2) return <p>There is nothing to plot.</p>
  const [from, to] = [points[0]!.x, points.at(-1)!.x]
  const rows = rowsUpTo(Math.max(...points.map((point) => point.adjustedSize)))
  const top = rows.at(-1) ?? 1
  const x = (value: number) => left + ((value - from) / (to - from)) * (width - left - 12)
  const y = (value: number) => height - bottom - (value / top) * (height - bottom - 12)
  const line = (of: (point: Point) => number) =>
    points
      .map(
        (point, index) => `${index ? 'L' : 'M'}${x(point.x).toFixed(1)} ${y(of(point)).toFixed(1)}`,
      )
      .join('')
  const nearest = points.reduce((best, point) =>
    Math.abs(point.x - chosen) < Math.abs(best.x - chosen) ? point : best,
  )
  const isInside = chosen >= from && chosen <= to
  return (
    <figure>
      <svg
        viewBox={`0 0 ${width} ${height}`}
        role="img"
        aria-label={`Sample size over ${label.toLowerCase()}, ${nearest.adjustedSize} at ${short(nearest.x)}`}
      >
        {rows.map((size) => (
          <g key={size}>
            <line className="grid" x1={left} x2={width - 12} y1={y(size)} y2={y(size)} />
            <text className="tick end" x={left - 8} y={y(size) + 4}>
              {size.toLocaleString('en')}
            </text>
          </g>
        ))}
        {ticksOf(from, to).map((value) => (
          <text key={value} className="tick middle" x={x(value)} y={height - bottom + 20}>
            {value}
          </text>
        ))}
        <text className="axis middle" x={left + (width - left - 12) / 2} y={height - 8}>
          {label}
        </text>
        <text
          className="axis middle"
          transform={`translate(14 ${(height - bottom) / 2 + 6}) rotate(-90)`}
        >
          Households
        </text>
        <path className="curve second" d={line((point) => point.calculatedSize)} />
        <path className="curve" d={line((point) => point.adjustedSize)} />
        {isInside && (
          <g>
            <line
              className="marker"
              x1={x(nearest.x)}
              x2={x(nearest.x)}
              y1={12}
              y2={height - bottom}
            />
            <circle className="chosen" cx={x(nearest.x)} cy={y(nearest.adjustedSize)} r={6} />
          </g>
        )}
      </svg>
      <figcaption>
        <span className="key first" /> to be drawn <span className="key second" /> answers needed
        {isInside && (
          <span className="here">
            {label.toLowerCase()} {short(nearest.x)}: <strong>{nearest.adjustedSize}</strong>{' '}
            {about}
          </span>
        )}
      </figcaption>
      <details>
        <summary>As a table</summary>
        <div
          className="scroll tall"
          tabIndex={0}
          role="region"
          aria-label={`Sizes over ${label.toLowerCase()}`}
        >
          <table>
            <thead>
              <tr>
                <th scope="col">{label}</th>
                <th scope="col">Answers needed</th>
                <th scope="col">To be drawn</th>
              </tr>
            </thead>
            <tbody>
              {points.map((point) => (
                <tr key={point.x} aria-current={point === nearest && isInside ? 'true' : undefined}>
                  <th scope="row">{short(point.x)}</th>
                  <td>{point.calculatedSize}</td>
                  <td>{point.adjustedSize}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </details>
    </figure>
  )
}

const short = (value: number) => String(+value.toPrecision(3))

/** Round numbers from 0 to the first that is no smaller than the largest. */
function rowsUpTo(largest: number): number[] {
  const [first = 0, second = 1] = ticksOf(0, Math.max(largest, 4))
  const step = second - first
  return Array.from({ length: Math.ceil(Math.max(largest, 4) / step) + 1 }, (_, nth) => nth * step)
}

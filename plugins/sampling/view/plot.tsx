/** The sample sizes for one value of the plotted input. */
export interface Point {
  readonly x: number
  readonly calculatedSize: number
  readonly adjustedSize: number
}

const width = 560
const height = 280
const left = 52
const bottom = 36

/**
 * A plot of sizes over one of their inputs, with the chosen point; a table below has the same numbers. Most of the length
 * is the markup of axes and marks, which share the two scales.
 */
export function Plot(props: { points: readonly Point[]; label: string; chosen: number }) {
  const { points, label, chosen } = props
  if (points.length < 2) return <p>There is nothing to plot.</p>
  const [from, to] = [points[0]!.x, points.at(-1)!.x]
  const top = niceTop(Math.max(...points.map((point) => point.adjustedSize)))
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
        {[0, 0.25, 0.5, 0.75, 1].map((part) => (
          <g key={part}>
            <line
              className="grid"
              x1={left}
              x2={width - 12}
              y1={y(part * top)}
              y2={y(part * top)}
            />
            <text className="tick end" x={left - 8} y={y(part * top) + 4}>
              {Math.round(part * top).toLocaleString('en')}
            </text>
            <text className="tick middle" x={x(from + part * (to - from))} y={height - 14}>
              {short(from + part * (to - from))}
            </text>
          </g>
        ))}
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
            {label.toLowerCase()} {short(nearest.x)}: <strong>{nearest.adjustedSize}</strong>
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

/** The next larger number that divides into round steps. */
function niceTop(largest: number): number {
  const unit = 10 ** Math.floor(Math.log10(Math.max(largest, 4)))
  return Math.max(
    4,
    [1, 2, 2.5, 4, 5, 8, 10].map((step) => step * unit).find((step) => step >= largest) ?? largest,
  )
}

import type { ReactNode } from 'react'
import { Json } from 'oracle-runtime-client/view'
import { Sent } from './sent.tsx'

/** A step of a run, as the server's trace tells it. */
export interface Step {
  readonly step: number
  /** When the step began, in milliseconds since 1970. */
  readonly at: number
  readonly ms: number
  readonly kind: string
  /** The call of the sub-agent whose step this is. */
  readonly within?: string
  readonly firstMs?: number
  readonly [fact: string]: unknown
}

/** What a line of the timeline shows in its details: everything but what stands in the line. */
const inLine = ['step', 'at', 'ms', 'kind', 'within', 'firstMs']

/** The steps of a run as bars on one axis of time, which are a list for whoever listens to the page. */
export function Timeline(props: {
  steps: readonly Step[]
  /** What stands below the facts of a step. */
  children: (step: number) => ReactNode
}) {
  const { steps, children } = props
  const begin = Math.min(...steps.map(({ at }) => at))
  const length = Math.max(1, ...steps.map(({ at, ms }) => at + ms - begin))
  const share = (ms: number) => `${(ms / length) * 100}%`
  return (
    <ol className="timeline" aria-label="Steps">
      {steps.map((step) => {
        const facts = Object.entries(step).filter(([name]) => !inLine.includes(name))
        const after = step.at - begin
        return (
          <li
            key={step.step}
            data-step={step.step}
            className={step.within === undefined ? '' : 'inner'}
          >
            <details>
              <summary>
                <span className="name">{nameOf(step)}</span>
                <span className="track">
                  <span
                    className={`bar ${step.kind}`}
                    style={{ left: share(after), width: share(step.ms) }}
                  >
                    {step.firstMs !== undefined && step.ms > 0 && (
                      <span
                        className="first"
                        style={{ left: `${(step.firstMs / step.ms) * 100}%` }}
                      />
                    )}
                  </span>
                </span>
                <span className="figure" dir="ltr">
                  {figuresOf(step, after)}
                </span>
              </summary>
              <Sent step={step} />
              <Json value={Object.fromEntries(facts)} label={`${nameOf(step)} in full`} />
              {children(step.step)}
            </details>
          </li>
        )
      })}
    </ol>
  )
}

const wholeMs = (ms: number) => `${Math.round(ms)} ms`

/** When a step began and how long it took; what took no time of its own stands with its time alone. */
function figuresOf({ ms, firstMs }: Step, after: number): string {
  if (ms === 0) return `at ${wholeMs(after)}`
  const first = firstMs === undefined ? '' : `, first word after ${wholeMs(firstMs)}`
  return `${wholeMs(ms)} at ${wholeMs(after)}${first}`
}

function nameOf({ kind, tool, model, replica, decision, status }: Step): string {
  const what = {
    model,
    tool,
    approval: tool ? `asks for ${String(tool)}` : decision,
    takeover: replica,
    end: status,
  }[kind]
  return what ? `${kind} ${String(what)}` : kind
}

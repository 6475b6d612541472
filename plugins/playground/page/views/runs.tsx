import { useEffect, useRef } from 'react'
import { Fault, Json, useAnswer } from 'oracle-runtime-client/view'
import { AtStep } from '../parts/at-step.tsx'
import { Timeline, type Step } from '../parts/timeline.tsx'
import { allChats, to } from '../route.ts'
import './views.css'
import './runs.css'

interface RunLine {
  readonly runId: string
  readonly status: string
  readonly startedAt: string
  readonly ms: number | null
  readonly calls: number
  readonly tools: Readonly<Record<string, number>>
}

interface Trace {
  readonly runId: string
  readonly status: string
  readonly usage: { readonly calls: number; readonly [count: string]: unknown }
  readonly cost: number | null
  readonly steps: readonly Step[]
  readonly cut?: boolean
}

/** How many runs of a chat the list shows: what the server gives at once. */
const mostShown = 50

interface ChatLine {
  readonly sessionId: string
  readonly title?: string
  readonly lastUpdatedAt: string
}

/** Reads again what may be old: while another view was shown, the chat went on. */
function useNewest(isShown: boolean, reload: () => void) {
  const wasShown = useRef(isShown)
  useEffect(() => {
    if (isShown && !wasShown.current) reload()
    wasShown.current = isShown
  }, [isShown, reload])
}

/** The chats of a person, where one is to be chosen: after a reload the page knows of none. */
function Chats({ isShown }: { isShown: boolean }) {
  const { data, error, isLoading, reload } = useAnswer<{ sessions: readonly ChatLine[] }>(
    `/sessions?limit=${mostShown}`,
  )
  useNewest(isShown, reload)
  if (isLoading) return <p role="status">Asking…</p>
  if (!data) return <Fault error={error} />
  if (data.sessions.length === 0) return <p>Open a chat first. Its runs then stand here.</p>
  return (
    <section className="card" aria-labelledby="chats-with-runs">
      <h2 id="chats-with-runs">Of which chat?</h2>
      <ul className="picks runs">
        {data.sessions.map((chat) => (
          <li key={chat.sessionId}>
            <a href={to('runs', chat.sessionId)}>
              <span dir="auto">{chat.title || 'Untitled'}</span>
              <small>{timeOf(chat.lastUpdatedAt)}</small>
            </a>
          </li>
        ))}
      </ul>
    </section>
  )
}

const timeOf = (at: string) =>
  new Date(at).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'medium' })

interface Props {
  readonly sessionId: string
  readonly runId?: string
  readonly isShown: boolean
}

/** The runs of a chat, and one of them step by step on one axis of time. */
export function RunsView({ sessionId, runId, isShown }: Props) {
  const isOfChat = sessionId !== '' && sessionId !== allChats
  const path = isOfChat && `/sessions/${encodeURIComponent(sessionId)}/runs?limit=${mostShown}`
  const { data, error, isLoading, reload } = useAnswer<{ runs: readonly RunLine[] }>(
    path || undefined,
  )
  useNewest(isShown, reload)
  if (!isOfChat) return <Chats isShown={isShown} />
  const shown = runId ?? data?.runs[0]?.runId
  return (
    <>
      <p className="lead">
        Every message begins a run. A run shows what took its time: models, tools, waiting for a
        person.
      </p>
      <section className="card" aria-labelledby="runs-of-chat">
        <div className="row spread wrap">
          <h2 id="runs-of-chat" className="grow">
            Runs of this chat
          </h2>
          <a href={to('runs', allChats)}>Other chats</a>
          <button type="button" className="quiet" onClick={reload}>
            Read again
          </button>
        </div>
        <Fault error={error} />
        {isLoading && <p role="status">Asking…</p>}
        {data?.runs.length === 0 && <p>No message yet.</p>}
        <ul className="picks runs">
          {data?.runs.map((run) => (
            <li key={run.runId}>
              <a
                href={to('runs', sessionId, run.runId)}
                aria-current={run.runId === shown ? 'true' : undefined}
              >
                <span>
                  {timeOf(run.startedAt)} {run.status}
                </span>
                <small dir="ltr">{aboutOf(run)}</small>
              </a>
            </li>
          ))}
        </ul>
      </section>
      {shown && <RunTrace key={shown} sessionId={sessionId} runId={shown} isShown={isShown} />}
    </>
  )
}

function aboutOf({ ms, calls, tools }: RunLine): string {
  const used = Object.entries(tools).map(([name, count]) => `${name} ${count}`)
  const took = ms === null ? 'goes on' : `${Math.round(ms)} ms`
  return [took, `${calls} model call${calls === 1 ? '' : 's'}`, ...used].join(' · ')
}

function RunTrace({ sessionId, runId, isShown }: Props & { readonly runId: string }) {
  const { data, error, isLoading, reload } = useAnswer<Trace>(`/runs/${runId}/trace`)
  useNewest(isShown, reload)
  if (isLoading) return <p role="status">Asking…</p>
  if (!data) return <Fault error={error} />
  const { status, steps, usage, cost, cut } = data
  return (
    <section className="card" aria-labelledby="run-steps">
      <div className="row spread wrap">
        <h2 id="run-steps">Step by step</h2>
        <button type="button" className="quiet" onClick={reload}>
          Read the steps again
        </button>
      </div>
      <p className="faint">
        {status}
        {cost !== null && `, ${cost} USD`}
        {cut && ', texts are cut'}
      </p>
      <Timeline steps={steps}>
        {(step) => <AtStep sessionId={sessionId} runId={runId} step={step} />}
      </Timeline>
      <details>
        <summary>Usage</summary>
        <Json value={usage} label="Usage" />
      </details>
    </section>
  )
}

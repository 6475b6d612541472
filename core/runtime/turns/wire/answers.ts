import { RuntimeError } from '../../../errors.ts'
import type { RouteContext } from '../../../plugin.ts'
import type { CarriedRun } from '../carry/carried-run.ts'
import type { Started } from '../carry/intake.ts'
import type { Runs } from '../carry/runs.ts'
import type { EventReader } from '../events/reader.ts'
import type { RouteParts } from './routes.ts'

/** A run that fails this soon, before anything was said, is answered with the status of its error and not with events. */
const earlyMs = 250

/** Tells a client the ids of a run in headers, before the client has read a single event. */
export function setIds(
  { koa }: RouteContext,
  { runId, requestId }: Pick<Started, 'runId' | 'requestId'>,
): void {
  koa.set('X-Request-Id', requestId)
  // The line of the request and that of its turn bear one id, and stand or fall together where only a share is logged.
  koa.state.requestId = requestId
  koa.set('X-Run-Id', runId)
}

/** Throws what a run failed with, when the run failed at once and had nothing to say. */
export async function failEarly(live: CarriedRun | undefined): Promise<void> {
  if (!live) return
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, earlyMs)
    void live.firstWord.promise.then(() => {
      clearTimeout(timer)
      resolve()
    })
  })
  if (live.end?.status === 'failed' && !live.hasSpoken) throw live.end.error
}

/** The events of a run, for a client that can carry out its own tools. */
export async function streamOf(
  runs: Runs,
  runId: string,
  after: number,
  ctx: RouteContext,
): Promise<EventReader> {
  const reader = await runs.subscribe(runId, after, true)
  // A server that closes tells its streams first. When the client itself left, nobody reads the farewell.
  ctx.signal.addEventListener('abort', () => reader.handOver(), { once: true })
  return reader
}

/** The answer in one piece, for clients that do not read events. */
export async function wholeReply(
  { runs, transcripts }: RouteParts,
  { runId, sessionId, live }: Started,
  ctx: RouteContext,
) {
  const reader = await runs.subscribe(runId)
  ctx.signal.addEventListener('abort', () => void reader.return(), { once: true })
  let error: { error?: string; code?: string } | undefined
  let status: unknown
  for await (const { id, event, data } of reader) {
    if (id === undefined)
      throw new RuntimeError('UNAVAILABLE', 'The server is closing; the answer is being made.', {
        hint: `GET /runs/${runId} reads the answer, GET /messages/${sessionId} has the answer once it is whole.`,
      })
    if (event === 'error') error = JSON.parse(data)
    if (event === 'done') status = JSON.parse(data).status
  }
  if (status === 'failed') {
    if (live?.end?.status === 'failed') throw live.end.error
    throw new RuntimeError(error?.code ?? 'INTERNAL', error?.error ?? 'The turn failed.')
  }
  const reply = await transcripts.replyOf(sessionId, runId)
  const message = { id: reply?.id ?? runId, type: 'ai', content: reply?.content ?? '' }
  return { message, sessionId }
}

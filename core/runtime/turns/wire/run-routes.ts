import { clientNetwork } from '../../http/limits/client-address.ts'
import { created } from '../../http/answer/reply.ts'
import { lastEventId } from '../../http/routes/last-event-id.ts'
import { failEarly, setIds, streamOf } from './answers.ts'
import { RuntimeError } from '../../../errors.ts'
import { routeOf } from '../../http/routes/route-of.ts'
import {
  quarantineInput,
  resumeInput,
  retryInput,
  runInput,
  toolResultInput,
  traceInput,
} from './input.ts'
import type { RouteParts } from './routes.ts'
import { operatorRoute, userRoute } from './user-route.ts'

/** The routes of runs: read one, answer what it waits for, and what the operator does with a quarantined one. */
export function runRoutes({ runs, streams, traces }: RouteParts) {
  return {
    'GET /runs': operatorRoute(
      'Runs that were set aside because the process died twice with them.',
      quarantineInput,
      ({ limit, offset }) => runs.quarantined(limit, offset),
    ),
    'POST /runs/:runId/retry': operatorRoute(
      'Tries the message of a quarantined run again, as a new turn of its session.',
      retryInput,
      async ({ runId }) => {
        const { sessionId, ...started } = await runs.retry(runId)
        const { runId: again, requestId } = started
        return created(`/runs/${again}`, { runId: again, sessionId, requestId, retries: runId })
      },
      { 201: ['application/json'] },
    ),
    'GET /runs/:runId': userRoute(
      'Streams a run’s events after a number, up to its end.',
      runInput,
      async ({ runId, after = 0 }, ctx) => {
        const run = await runs.demand(ctx.user.did, runId)
        setIds(ctx, { runId, requestId: run.request_id })
        return streamOf(runs, runId, Math.max(after, lastEventId(ctx) ?? 0), ctx)
      },
      { 200: ['text/event-stream'] },
    ),
    'GET /runs/:runId/trace': routeOf({
      summary:
        'What a run did and how long each step took. The operator reads any run, without words.',
      input: traceInput,
      async run({ runId, text }, { user }) {
        if (user) return traces.of(await runs.demand(user.did, runId), text === 'on')
        if (text === 'off') return traces.of(await traces.known(runId), false)
        throw new RuntimeError('FORBIDDEN', 'The words of a run are its user’s alone.', {
          hint: 'Ask for the trace with ?text=off.',
        })
      },
    }),
    'POST /runs/:runId/resume': userRoute(
      'Answers a run that waits for a person, and streams how it goes on.',
      resumeInput,
      async ({ runId, decision, args }, ctx) => {
        streams?.demand(clientNetwork(ctx.koa.ip))
        const started = await runs.resume(ctx.user, runId, { decision, args })
        setIds(ctx, started)
        await failEarly(started.live)
        return streamOf(runs, started.runId, 0, ctx)
      },
      { 200: ['text/event-stream'] },
    ),
    'POST /runs/:runId/tool-results': userRoute(
      'Hands in what the client made of a call of its own tool.',
      toolResultInput,
      async ({ runId, toolCallId, result, error }, { user }) => {
        await runs.demand(user.did, runId)
        const accepted = await runs.clientResult({
          did: user.did,
          runId,
          toolCallId,
          result,
          error,
        })
        return { accepted }
      },
    ),
  }
}

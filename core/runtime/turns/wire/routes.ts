import { RuntimeError } from '../../../errors.ts'
import type { AnyRoute, Database, Log, RouteContext, Schema, User } from '../../../plugin.ts'
import type { EventReader } from '../events/reader.ts'
import type { LiveRun } from '../carry/live-run.ts'
import { clientNetwork } from '../../http/limits/client-address.ts'
import { created } from '../../http/answer/reply.ts'
import type { Places } from '../../http/limits/places.ts'
import { withRunTables } from '../journal/tables.ts'
import type { TurnRequest } from '../run.ts'
import type { Runs, Started } from '../carry/runs.ts'
import type { TurnRoutes } from './route-keys.ts'
import { Transcripts } from './transcript.ts'
import {
  abortInput,
  capabilitiesInput,
  idInput,
  type MessageInput,
  messageInput,
  pageInput,
  quarantineInput,
  resumeInput,
  retryInput,
  runInput,
  sessionInput,
  sessionListInput,
  toolResultInput,
  unknownKeys,
} from './input.ts'
import type { z } from 'zod'

export interface TurnRoutesOptions {
  readonly runs: Runs
  readonly db: Database
  readonly log: Log
  /** Throws for a message that cannot become a turn, before anything of it is recorded. */
  checkRequest?(request: TurnRequest): void
  /** Loads capabilities into a session by hand; what it returns is answered. */
  loadCapabilities?(about: {
    readonly user: User
    readonly sessionId: string
    readonly names: readonly string[]
  }): unknown
  /** Where open event streams are counted: a turn whose stream could not be opened does not begin. */
  readonly streams?: Places
}

/** A fault that shows itself this soon, before anything was said, is the answer's status rather than an event. */
const earlyMs = 250

type Context = RouteContext & { readonly user: User }

/** A route of a signed-in user whose input is what its schema says. */
function route<S extends Schema>(
  summary: string,
  input: S,
  run: (input: z.output<S>, ctx: Context) => unknown,
): AnyRoute {
  // The edge parses by `input` and lets nobody in without a user before it runs a route of these.
  return { summary, input, run: run as AnyRoute['run'] }
}

/** A route of the operator, who comes with a key and has no user. */
function operatorRoute<S extends Schema>(
  summary: string,
  input: S,
  run: (input: z.output<S>) => unknown,
): AnyRoute {
  return { auth: 'operator', summary, input, run: run as AnyRoute['run'] } // parsed by `input` before
}

/** The routes of sessions, messages and runs. */
export function turnRoutes(options: TurnRoutesOptions): TurnRoutes {
  const { runs, log } = options
  const { sessions } = runs
  const transcripts = new Transcripts(withRunTables(options.db))

  async function send(input: MessageInput, ctx: Context): Promise<Started> {
    const { sessionId, requestId, message, model, timezone, metadata, attachments } = input
    const ignored = unknownKeys(input)
    if (ignored.length > 0) log.debug({ keys: ignored }, 'Keys of a message were ignored')
    const { tools, agActions, approvals } = input
    const request = {
      message,
      model,
      timezone,
      metadata,
      attachments,
      approvals,
      tools,
      agActions,
    }
    options.checkRequest?.(request)
    const address = clientNetwork(ctx.koa.ip)
    return runs.send({ user: ctx.user, sessionId, requestId, request, address })
  }

  return {
    'POST /sessions': {
      summary: 'Begins a conversation.',
      async run(_, ctx) {
        await runs.mayTalk((ctx as Context).user)
        const session = await sessions.create((ctx as Context).user.did)
        return created(`/sessions/${session.sessionId}`, session)
      },
    },
    'GET /sessions': route(
      'The caller’s conversations, the newest first.',
      sessionListInput,
      ({ limit, offset }, { user }) => sessions.list(user.did, limit, offset),
    ),
    'DELETE /sessions/:id': route(
      'Deletes a conversation and everything in it.',
      idInput,
      async ({ id }, { user }) => {
        await runs.deleteSession(user.did, id)
        return { message: 'The session was deleted.' }
      },
    ),
    'POST /sessions/:id/capabilities': route(
      'Loads capabilities into a conversation by hand.',
      capabilitiesInput,
      async ({ id, names }, { user }) => {
        await runs.mayTalk(user)
        await sessions.demand(user.did, id)
        if (!options.loadCapabilities)
          throw new RuntimeError('NOT_IMPLEMENTED', 'Capabilities cannot be loaded by hand here.')
        return options.loadCapabilities({ user, sessionId: id, names })
      },
    ),

    'GET /messages/:sessionId': route(
      'A whole conversation, oldest first.',
      sessionInput,
      async ({ sessionId }, { user }) => {
        await sessions.demand(user.did, sessionId)
        return { messages: await transcripts.all(sessionId) }
      },
    ),
    'GET /sessions/:id/messages': route(
      'A page of a conversation: the newest, or those before or after a cursor.',
      pageInput,
      async ({ id, ...page }, { user }) => {
        await sessions.demand(user.did, id)
        return transcripts.page(id, page)
      },
    ),
    'GET /sessions/:id/run': route(
      'The run that is under way in a conversation, or waits for a person, if any.',
      idInput,
      async ({ id }, { user }) => {
        await sessions.demand(user.did, id)
        return runs.openRun(id)
      },
    ),

    'POST /messages/:sessionId': route(
      'Says something and streams what comes of it.',
      messageInput,
      async (input, ctx) => {
        // Refused before the turn begins: a client that may not read it must be able to say it again.
        if (input.stream) options.streams?.demand(clientNetwork(ctx.koa.ip))
        const started = await send(input, ctx)
        setIds(ctx, started)
        if (!input.stream) return wholeReply(input.sessionId, started, ctx)
        await failEarly(started.live)
        return stream(started.runId, 0, ctx)
      },
    ),
    'POST /messages/abort': route(
      'Ends the run of a conversation.',
      abortInput,
      async ({ sessionId, requestId }, { user }) => ({
        success: await runs.abort(user.did, sessionId, requestId),
      }),
    ),

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
    ),
    'GET /runs/:runId': route(
      'Streams a run’s events after a number, up to its end.',
      runInput,
      async ({ runId, after = 0 }, ctx) => {
        const run = await runs.demand(ctx.user.did, runId)
        setIds(ctx, { runId, requestId: run.request_id })
        return stream(runId, Math.max(after, lastEventId(ctx)), ctx)
      },
    ),
    'POST /runs/:runId/resume': route(
      'Answers a run that waits for a person, and streams how it goes on.',
      resumeInput,
      async ({ runId, decision, args }, ctx) => {
        options.streams?.demand(clientNetwork(ctx.koa.ip))
        const started = await runs.resume(ctx.user, runId, { decision, args })
        setIds(ctx, started)
        await failEarly(started.live)
        return stream(started.runId, 0, ctx)
      },
    ),
    'POST /runs/:runId/tool-results': route(
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

  async function stream(runId: string, after: number, ctx: Context): Promise<EventReader> {
    const reader = await runs.subscribe(runId, after, true)
    // A server that closes tells its streams first; one whose client left has nobody to tell.
    ctx.signal.addEventListener('abort', () => reader.handOver(), { once: true })
    return reader
  }

  /** The answer in one piece, for clients that do not read events. */
  async function wholeReply(sessionId: string, { runId, live }: Started, ctx: Context) {
    const reader = await runs.subscribe(runId, 0)
    ctx.signal.addEventListener('abort', () => void reader.return(), { once: true })
    let error: { error?: string; code?: string } | undefined
    let status: unknown
    for await (const { id, event, data } of reader) {
      if (id === undefined)
        throw new RuntimeError('UNAVAILABLE', 'The server is closing; the answer is being made.', {
          hint: `GET /runs/${runId} reads it, GET /messages/${sessionId} has it when it is done.`,
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
}

/** A client may know a run by its own id before it has read a single event. */
function setIds(
  { koa }: Context,
  { runId, requestId }: Pick<Started, 'runId' | 'requestId'>,
): void {
  koa.set('X-Request-Id', requestId)
  koa.set('X-Run-Id', runId)
}

/** Throws what a run failed with, when it failed at once and had nothing to say. */
async function failEarly(live: LiveRun | undefined): Promise<void> {
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

/** The number by which a browser goes on reading by itself. */
function lastEventId({ koa }: Context): number {
  const given = koa.get('Last-Event-ID')
  const id = Number(given || 0)
  if (/^\d*$/.test(given) && Number.isSafeInteger(id)) return id
  throw new RuntimeError('BAD_REQUEST', `Last-Event-ID is not the number of an event.`)
}

import {
  partsOf,
  RuntimeError,
  type OfferedModels,
  type StartedTurn,
  type Turns,
  type User,
} from '#core'
import type { Context } from 'koa'
import { aloneOf, leavingOf } from './alone.ts'
import { requestIdOf, waitingOf } from './names.ts'
import type { ChatMessage, ChatRequest } from './request.ts'
import { type About, streamed } from './stream.ts'
import { type Asked, read } from './turn.ts'

/** What answering a request needs. */
export interface Exchange {
  readonly user: User
  readonly turns: Turns
  readonly models: OfferedModels
  readonly koa: Context
  readonly signal: AbortSignal
}

/** Answers a message of a chat with the stream of its answer. */
export async function answer(request: ChatRequest, exchange: Exchange) {
  const { koa } = exchange
  const asked = read(request)
  const turn =
    asked.is === 'turn' ? start(request, asked, exchange) : goOn(asked, exchange)
  const { runId = '', sessionId } = await turn.begun
  await turn.spoke
  tell(koa, { runId, sessionId })
  const about =
    asked.is === 'turn'
      ? { messageId: runId, known: new Set<string>() }
      : { messageId: asked.message.id || runId, known: callsOf(asked.message) }
  return streamed(partsOf(turn), { ...about, runId, sessionId })
}

/** The headers of a stream. */
export function tell(koa: Context, { runId, sessionId }: Pick<About, 'runId' | 'sessionId'>): void {
  koa.set('X-Vercel-AI-UI-Message-Stream', 'v1')
  koa.set('X-Run-Id', runId)
  koa.set('X-Session-Id', sessionId)
}

function start(
  { id, model, timezone, trigger, messageId }: ChatRequest,
  asked: Extract<Asked, { is: 'turn' }>,
  { user, turns, models, koa, signal }: Exchange,
): StartedTurn {
  const { message, attachments, history, instructions, tools } = asked
  const alone = aloneOf(koa)
  const key = koa.get('Idempotency-Key')
  // An edited message keeps its id, and one that is answered anew too: only a message that is new is known by its id.
  const isNew = trigger !== 'regenerate-message' && !messageId && asked.messageId
  const requestId = key ? requestIdOf('key', key) : isNew && requestIdOf(id, asked.messageId)
  return turns.start({
    ...{ user, session: id, message, tools, koa, metadata: { protocol: 'ai-sdk' } },
    ...{ clientTools: 'park', approvals: 'events', whenBusy: 'interrupt' },
    ...(history && { history }),
    ...(model && { model: models.get(model).id }),
    ...(timezone && { timezone }),
    ...(attachments.length > 0 && { attachments }),
    ...(instructions !== undefined && { instructions }),
    ...(requestId && { requestId }),
    ...(alone === 0 ? { signal: leavingOf(signal) } : alone && { whenAlone: { stopAfterMs: alone } }),
  })
}

function goOn(
  asked: Exclude<Asked, { is: 'turn' }>,
  { user, turns, koa, signal }: Exchange,
): StartedTurn {
  const { runId } = asked
  const answer =
    asked.is === 'results'
      ? { results: asked.results }
      : {
          decision: asked.approved ? ('approve' as const) : ('reject' as const),
          ...(!asked.approved && asked.reason && { reason: asked.reason }),
        }
  const requestId = requestIdOf(runId, answer)
  const turn = turns.resume({ user, runId, ...answer, requestId })
  if (aloneOf(koa) === 0)
    turn.begun.then(
      ({ sessionId: session }) =>
        leavingOf(signal).addEventListener(
          'abort',
          () => void turns.abort({ user, session, requestId }).catch(() => undefined),
          { once: true },
        ),
      () => undefined,
    )
  return turn
}

/** The ids of the calls that a message has, as our events name them. */
function callsOf({ parts }: ChatMessage): Set<string> {
  return new Set(
    parts.flatMap(({ toolCallId }) =>
      toolCallId === undefined ? [] : [waitingOf(toolCallId)?.toolCallId ?? toolCallId],
    ),
  )
}

/** A chat that is not there, or is another person's. */
export const isUnknown = (error: unknown): boolean =>
  error instanceof RuntimeError && error.code === 'NOT_FOUND'

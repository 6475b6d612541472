import {
  attended,
  partsOf,
  RuntimeError,
  type OfferedModels,
  type OpenTurn,
  type OutsideTools,
  type StartedTurn,
  type Turns,
  type User,
} from '#core'
import type { Context } from 'koa'
import { requestIdOf } from './names.ts'
import type { ChatMessage, ChatRequest } from './request.ts'
import { type About, streamed } from './stream.ts'
import { type Asked, read } from './turn.ts'

/** How many turns of one message there are at most: all but the last failed before they said anything. */
const mostNames = 20

/** What answering a request needs. */
export interface Exchange {
  readonly user: User
  readonly turns: Turns
  readonly models: OfferedModels
  readonly tools: OutsideTools
  readonly koa: Context
  readonly signal: AbortSignal
}

/** Answers a message of a chat with the stream of its answer. */
export async function answer(request: ChatRequest, exchange: Exchange) {
  const { koa } = exchange
  const asked = read(request)
  const { turn, runId, sessionId } =
    asked.is === 'turn'
      ? await saying(mostNames, asked, (nth) => start(request, asked, exchange, nth))
      : await saying(1, asked, () => goOn(request, asked, exchange))
  tell(koa, { runId, sessionId })
  const about =
    asked.is === 'turn'
      ? { messageId: runId, known: new Set<string>() }
      : {
          messageId: asked.message.id || runId,
          known: callsOf(asked.message),
          pages: new Set(asked.results.map(({ toolCallId }) => toolCallId)),
        }
  const isQuick = exchange.tools.asksNobody(exchange)
  return streamed(partsOf(turn), { ...about, runId, sessionId, isQuick })
}

/** The headers of a stream. */
export function tell(koa: Context, { runId, sessionId }: Pick<About, 'runId' | 'sessionId'>): void {
  koa.set('X-Vercel-AI-UI-Message-Stream', 'v1')
  koa.set('X-Run-Id', runId)
  koa.set('X-Session-Id', sessionId)
}

/**
 * A turn that has begun to say something. Where an earlier request made the turn and it failed before it said anything, that
 * request was answered with a status, which no repeat is to get: the turn is started under the next name.
 */
async function saying(
  most: number,
  { is }: Asked,
  startAs: (nth: number) => StartedTurn | Promise<StartedTurn>,
) {
  for (let nth = 1; ; nth++) {
    const turn = await startAs(nth)
    const {
      runId = '',
      sessionId,
      isNew,
    } = await turn.begun.catch((error: unknown) => {
      throw is === 'answers' && isLate(error) ? nothingWaits() : error
    })
    try {
      await turn.spoke
      return { turn, runId, sessionId }
    } catch (error) {
      if (isNew || nth === most) throw error
    }
  }
}

function start(
  { id, model, timezone, trigger, messageId }: ChatRequest,
  asked: Extract<Asked, { is: 'turn' }>,
  { user, turns, models, koa, signal }: Exchange,
  nth: number,
): StartedTurn {
  const { message, attachments, history, instructions, tools } = asked
  const key = koa.get('Idempotency-Key')
  // An edited message keeps its id, and one that is answered anew too: only a message that is new is known by its id.
  const isNew = trigger !== 'regenerate-message' && !messageId && asked.messageId
  const named = key ? ['key', key] : isNew && [id, asked.messageId]
  const requestId = named && requestIdOf(...named, ...(nth > 1 ? [nth] : []))
  return turns.start({
    ...{ user, session: id, message, tools, koa, metadata: { protocol: 'ai-sdk' } },
    ...{ clientTools: 'park', approvals: 'events', whenBusy: 'interrupt' },
    ...(history && { history }),
    ...(model && { model: models.get(model).id }),
    ...(timezone && { timezone }),
    ...(attachments.length > 0 && { attachments }),
    ...(instructions !== undefined && { instructions }),
    ...(requestId && { requestId }),
    ...attended({ signal, koa }),
  })
}

/** Hands in what the page answers: a decision, or the results for which the turn waits. */
async function goOn(
  { id }: ChatRequest,
  { message, decisions, results }: Extract<Asked, { is: 'answers' }>,
  { user, turns, koa, signal }: Exchange,
): Promise<StartedTurn> {
  const { waiting } = await turns.open({ user, session: id, newestBranch: true })
  const decided = decisions.find(({ runId }) => runId === waiting?.runId) ?? decisions.at(-1)
  const isWanted = new Set(waiting?.calls.map(({ toolCallId }) => toolCallId))
  const answer = decided
    ? {
        decision: decided.approved ? ('approve' as const) : ('reject' as const),
        ...(!decided.approved && decided.reason && { reason: decided.reason }),
      }
    : { results: results.filter(({ toolCallId }) => isWanted.has(toolCallId)) }
  const runId = decided?.runId ?? waiting?.runId ?? noRun
  // Sent again, the same answers find what they began, though nothing waits for them any more.
  const requestId = decided
    ? requestIdOf(decided.runId, answer)
    : requestIdOf(id, message.id, results)
  const { reader, signal: leaving } = attended({ signal, koa })
  return turns.resume({ ...{ user, runId, ...answer, requestId }, reader, signal: leaving })
}

/** The id of no run: where nothing waits, an answer may still be a repeat. */
const noRun = 'none'

const isLate = (error: unknown) =>
  error instanceof RuntimeError && ['NOT_FOUND', 'CONFLICT', 'GONE'].includes(error.code)

const nothingWaits = () =>
  new RuntimeError('CONFLICT', 'Nothing of yours waits for this answer.', {
    hint: 'It was answered before, or has run out: send a message.',
  })

/** The ids of the calls that a message has. */
const callsOf = ({ parts }: ChatMessage): Set<string> =>
  new Set(parts.flatMap(({ toolCallId }) => toolCallId ?? []))

/** What goes on in a chat; undefined where it is not there, or is another person's. */
export function openOf(turns: Turns, user: User, session: string): Promise<OpenTurn | undefined> {
  return turns.open({ user, session, newestBranch: true }).catch((error: unknown) => {
    if (error instanceof RuntimeError && error.code === 'NOT_FOUND') return undefined
    throw error
  })
}

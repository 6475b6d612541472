import {
  attended,
  RuntimeError,
  type OfferedModels,
  type StartedTurn,
  type Turns,
  type User,
} from '#core'
import type { Context } from 'koa'
import { type About, streamed, whole } from './answer.ts'
import { refused } from './faults.ts'
import { requestIdOf, resultsIdOf, sessionHeaders, sessionIdOf } from './names.ts'
import type { ChatRequest } from './request.ts'
import { type Asked, read, unknownCall } from './turn.ts'

/** The agent with its default model, and the language model by itself. */
export const [agentModel, plainModel] = ['oracle', 'oracle-plain'] as const
/** How clients begin a request for a title, tags or follow-ups, which is none of the conversation. */
const sideRequest = '### Task:'
const longestName = 1_000
/** How many turns of one Idempotency-Key there are at most: all but the last failed before they said anything. */
const mostNames = 20

/** What answering a request needs. */
export interface Exchange {
  readonly user: User
  readonly turns: Turns
  readonly models: OfferedModels
  readonly koa: Context
  readonly signal: AbortSignal
  readonly now: Date
}

/** Answers a request: a stream of pieces, or the whole answer. */
export async function answer(request: ChatRequest, exchange: Exchange) {
  const { koa, signal, now } = exchange
  const model = modelOf(request.model, exchange.models)
  const asked = read(request)
  // A connection that closes is the only Stop that these clients have.
  const { signal: leaving } = attended({ signal, stopAfterMs: 0 })
  const { turn, runId, sessionId } =
    asked.is === 'turn'
      ? await saying(mostNames, asked, (nth) =>
          start(request, asked, model, exchange, leaving, nth),
        )
      : await saying(1, asked, () => goOn(asked, exchange, leaving))
  koa.set('X-Session-Id', sessionId)
  koa.set('X-Run-Id', runId)
  const about: About = {
    runId,
    model: request.model,
    created: Math.floor(now.getTime() / 1000),
    withUsage: request.stream_options?.include_usage === true,
    withSteps: request.stream_options?.include_steps === true,
  }
  return request.stream ? streamed(turn, about) : await whole(turn, about)
}

/** The agent's model of a name; undefined for the default one. */
function modelOf(name: string, models: OfferedModels): string | undefined {
  if (name === agentModel || name === plainModel) return undefined
  const id = name.startsWith(`${agentModel}/`) ? name.slice(agentModel.length + 1) : undefined
  try {
    if (id !== undefined) return models.get(id).id
  } catch (error) {
    if (!(error instanceof RuntimeError) || error.code !== 'MODEL_UNKNOWN') throw error
  }
  throw unknownModel(name)
}

/** The refusal of a model that is not there. */
export const unknownModel = (name: string): RuntimeError =>
  new RuntimeError('MODEL_UNKNOWN', `The model "${name.slice(0, 100)}" does not exist.`, {
    status: 404,
    hint: 'GET /openai/v1/models lists the models.',
    details: [{ path: 'model' }],
  })

/**
 * A turn that has begun to say something. Where an earlier request made the turn and it failed before it said anything, that
 * request was answered with a status, which an Idempotency-Key does not remember: the turn is started under the next name.
 */
async function saying(most: number, asked: Asked, startAs: (nth: number) => StartedTurn) {
  for (let nth = 1; ; nth++) {
    const turn = startAs(nth)
    const { runId = '', sessionId, isNew } = await begun(turn, asked)
    try {
      await turn.spoke
      return { turn, runId, sessionId }
    } catch (error) {
      if (isNew || nth === most) throw error
    }
  }
}

function start(
  { model: named, metadata }: ChatRequest,
  asked: Extract<Asked, { is: 'turn' }>,
  model: string | undefined,
  { user, turns, koa }: Exchange,
  signal: AbortSignal | undefined,
  nth: number,
): StartedTurn {
  const { message, attachments, history, instructions, tools } = asked
  const isAside = named === plainModel || message.trimStart().startsWith(sideRequest)
  const name = isAside ? undefined : conversationOf(koa, metadata)
  const key = koa.get('Idempotency-Key')
  return turns.start({
    ...{ user, message, history, koa, signal, metadata: { protocol: 'openai-api' } },
    ...(model !== undefined && { model }),
    ...(attachments.length > 0 && { attachments }),
    ...(instructions !== undefined && { instructions }),
    ...(key && { requestId: requestIdOf(key, nth) }),
    ...(name === undefined ? { ephemeral: true } : { session: sessionIdOf(user.did, name) }),
    ...(isAside
      ? { allow: [], approvals: false }
      : { tools, clientTools: 'park', approvals: 'words' }),
  })
}

function goOn(
  { runId, results }: Extract<Asked, { is: 'results' }>,
  { user, turns, koa }: Exchange,
  signal: AbortSignal | undefined,
): StartedTurn {
  const key = koa.get('Idempotency-Key')
  const requestId = key ? requestIdOf(key) : resultsIdOf(runId, results)
  return turns.resume({ user, runId, results, requestId, signal })
}

/** The beginning of a turn. Results that no run of this user waits for are the client's mistake. */
async function begun(turn: StartedTurn, { is }: Asked) {
  try {
    return await turn.begun
  } catch (error) {
    const isUnknown =
      error instanceof RuntimeError && ['NOT_FOUND', 'CONFLICT', 'GONE'].includes(error.code)
    if (is === 'results' && isUnknown) throw unknownCall()
    throw error
  }
}

/** The client's name of the conversation; undefined where it names none. */
function conversationOf(koa: Context, metadata: ChatRequest['metadata']): string | undefined {
  const headers = sessionHeaders.map((header) => koa.get(header).trim())
  const inBody = metadata?.session_id
  const named =
    headers.find(isName) ?? (typeof inBody === 'string' && isName(inBody) ? inBody : undefined)
  if (named !== undefined && named.length > longestName)
    throw refused('session_id', `The name of a conversation has at most ${longestName} characters.`)
  return named
}

/** Whether it names a conversation: clients also send a placeholder that they did not fill. */
const isName = (text: string) => text !== '' && !text.startsWith('{{')

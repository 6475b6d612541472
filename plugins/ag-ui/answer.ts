import {
  attended,
  partsOf,
  RuntimeError,
  type OutsideTools,
  type PluginSessions,
  type StartedTurn,
  type Turns,
  type User,
} from '#core'
import type { Context } from 'koa'
import { requestIdOf } from './names.ts'
import type { RunInput } from './request.ts'
import { correctionOf, mostCompared } from './snapshot.ts'
import { started, streamed } from './stream.ts'
import { type Asked, read, stale } from './turn.ts'

type BegunTurn = Awaited<StartedTurn['begun']>

/** What answering a request needs. */
export interface Exchange {
  readonly user: User
  readonly turns: Turns
  readonly sessions: PluginSessions
  readonly tools: OutsideTools
  readonly koa: Context
  readonly signal: AbortSignal
}

/** Answers an input with the events of its run. */
export async function answer(input: RunInput, exchange: Exchange) {
  const { threadId, runId, protocolVersion } = input
  const isOne = protocolVersion !== undefined && protocolVersion !== null
  const about = { threadId, runId, isOne }
  let turn: StartedTurn
  let begun: BegunTurn
  let asked: Asked
  try {
    asked = read(input)
    turn = asked.is === 'turn' ? start(input, asked, exchange) : await goOn(input, asked, exchange)
    begun = await begunOf(turn, asked)
  } catch (error) {
    // An answer that comes too late is told as an event: clients then show their own question as answered.
    if (error instanceof RuntimeError && error.code === 'CONFLICT') return refusal(about, error)
    throw error
  }
  await turn.spoke
  const { runId: ownRunId = '', sessionId } = begun
  exchange.koa.set('X-Run-Id', ownRunId)
  exchange.koa.set('X-Session-Id', sessionId)
  const { user, sessions } = exchange
  const answered = asked.is === 'results' ? asked.results.map(({ toolCallId }) => toolCallId) : []
  const shared = () => sessions.shared({ user, session: sessionId })
  const correction = asked.is === 'turn' && (await correctionFor(input, begun, exchange))
  const isToldState = hasFields(input.state) || hasFields(await shared())
  return streamed(partsOf(turn), {
    ...{ ...about, ownRunId, known: knownOf(input), isQuick: exchange.tools.asksNobody(exchange) },
    answered: new Set(answered),
    ...(correction && { correction }),
    ...(isToldState && { state: shared }),
  })
}

/** What the client has to be told of the conversation. */
async function correctionFor(
  { messages }: RunInput,
  { runId = '', sessionId: session }: BegunTurn,
  { user, sessions }: Exchange,
) {
  const page = await sessions.messages({ user, session, limit: mostCompared })
  return page.prevCursor === null ? correctionOf(messages, page.messages, runId) : undefined
}

const hasFields = (value: unknown) =>
  typeof value === 'object' && value !== null && Object.keys(value).length > 0

async function* refusal(about: Parameters<typeof started>[0], { code, message }: RuntimeError) {
  yield started(about)
  yield { type: 'RUN_ERROR', message, code }
}

/** The beginning of a turn. An answer for which no run of this user waits is late, or nobody asked for it. */
async function begunOf(turn: StartedTurn, { is }: Asked) {
  try {
    return await turn.begun
  } catch (error) {
    const isLate =
      error instanceof RuntimeError && ['NOT_FOUND', 'CONFLICT', 'GONE'].includes(error.code)
    if (is !== 'turn' && isLate) throw stale()
    throw error
  }
}

function start(
  { threadId, runId }: RunInput,
  asked: Extract<Asked, { is: 'turn' }>,
  { user, turns, koa, signal }: Exchange,
): StartedTurn {
  const { message, history, instructions, metadata, tools } = asked
  return turns.start({
    ...{ user, session: threadId, message, history, metadata, tools, koa },
    ...{ clientTools: 'park', approvals: 'events', whenBusy: 'interrupt' },
    requestId: requestIdOf(threadId, runId),
    ...(instructions && { instructions }),
    ...attended({ signal, koa }),
  })
}

/** Hands in what the client answers: a decision, or the results for which the turn waits. */
async function goOn(
  { threadId, runId: named }: RunInput,
  asked: Exclude<Asked, { is: 'turn' }>,
  { user, turns, koa, signal }: Exchange,
): Promise<StartedTurn> {
  const requestId = requestIdOf(threadId, named)
  const { waiting } = await turns.open({ user, session: threadId, newestBranch: true })
  const isWanted = new Set(waiting?.calls.map(({ toolCallId }) => toolCallId))
  // Sent again, the same input finds what it began, though nothing waits for it any more.
  const { runId, answer } =
    asked.is === 'decision'
      ? asked
      : {
          runId: waiting?.runId ?? noRun,
          answer: { results: asked.results.filter(({ toolCallId }) => isWanted.has(toolCallId)) },
        }
  const { reader, signal: leaving } = attended({ signal, koa })
  return turns.resume({ ...{ user, runId, ...answer, requestId }, reader, signal: leaving })
}

const noRun = 'none'

/** The calls that the client has already. */
const knownOf = ({ messages }: RunInput): Set<string> =>
  new Set(messages.flatMap(({ toolCalls }) => (toolCalls ?? []).map(({ id }) => id)))

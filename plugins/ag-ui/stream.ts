import type { TurnPart } from '#core'
import { waitingIdOf } from './names.ts'
import { patchOf } from './state.ts'

type State = Readonly<Record<string, unknown>>
type Call = Extract<TurnPart, { type: 'call' }>
type End = Extract<TurnPart, { type: 'end' }>
type Approval = Extract<TurnPart, { type: 'approval' }>

/** What a stream says of itself. */
export interface About {
  readonly threadId: string
  /** The client's own id of the run. */
  readonly runId: string
  /** Our id of the run: ids of messages are made of it. */
  readonly ownRunId: string
  /** The client speaks 1.0. Older ones refuse keys that they do not know. */
  readonly isOne: boolean
  /** The calls that the client knows already. */
  readonly known: ReadonlySet<string>
  /** The calls whose results the client itself has handed in. */
  readonly answered: ReadonlySet<string>
  /** Whether calls of a tool are carried out without anybody being asked: they are shown as soon as they begin. */
  isQuick(tool: string): Promise<boolean>
  /** What was said before, where the client believes something else. */
  readonly correction?: readonly object[]
  /** The state that plugins show; asked again after each call. Without it no state is told. */
  state?(): Promise<State>
}

/** The version that is spoken here. */
export const protocolVersion = '1.0'

/** The first event of a run. */
export const started = ({
  threadId,
  runId,
  isOne,
}: Pick<About, 'threadId' | 'runId' | 'isOne'>) => ({
  type: 'RUN_STARTED',
  threadId,
  runId,
  ...(isOne && { protocolVersion }),
})

/** What an approval takes as its answer. */
const responseSchema = {
  type: 'object',
  properties: {
    approved: { type: 'boolean' },
    args: {
      type: 'object',
      description: 'Other arguments, in place of those that were asked for.',
    },
    reason: { type: 'string' },
  },
  required: ['approved'],
}

const interruptOf = ({ runId, toolCallId, toolName, args, question, reason }: Approval) => ({
  id: waitingIdOf(runId, toolCallId),
  reason: 'approval',
  message: question ?? reason ?? `May I run "${toolName}" with ${JSON.stringify(args)}?`,
  toolCallId,
  responseSchema,
  metadata: { toolName, args },
})

const usageOf = ({ usage }: End) =>
  usage?.models.map(({ model, inputTokens, outputTokens, cachedTokens, reasoningTokens }) => ({
    model,
    inputTokens,
    outputTokens,
    ...(cachedTokens !== undefined && { cachedInputTokens: cachedTokens }),
    ...(reasoningTokens !== undefined && { reasoningTokens }),
  }))

/** A turn as events of the protocol. */
export async function* streamed(
  parts: AsyncIterable<TurnPart>,
  about: About,
): AsyncGenerator<object, void, void> {
  const { ownRunId, isOne } = about
  const seen = new Set(about.known)
  const id = (of: string) => `${ownRunId}-${of}`
  // A call for which a person is asked is shown with the question: until then the client would take it for one of its own.
  const held = new Map<string, Omit<Call, 'type'>>()
  const begin = function* ({ toolCallId, toolName, args }: Omit<Call, 'type'>) {
    if (seen.has(toolCallId)) return
    seen.add(toolCallId)
    yield { type: 'TOOL_CALL_START', toolCallId, toolCallName: toolName }
    yield { type: 'TOOL_CALL_ARGS', toolCallId, delta: JSON.stringify(args) }
    yield { type: 'TOOL_CALL_END', toolCallId }
  }
  const state = about.state && new TellsState(about.state)
  yield started(about)
  if (about.correction) yield { type: 'MESSAGES_SNAPSHOT', messages: about.correction }
  yield* (await state?.first()) ?? []
  let outcome: object | undefined
  for await (const part of parts) {
    if (part.type !== 'result' && state?.isOpen) yield* await state.changes()
    yield* spoken(part, id)
    switch (part.type) {
      case 'call':
        if (await about.isQuick(part.toolName)) yield* begin(part)
        else held.set(part.toolCallId, part)
        break
      case 'result': {
        const { toolCallId, output = '', error } = part
        if (about.answered.has(toolCallId)) break
        yield* begin(held.get(toolCallId) ?? { ...part, args: {} })
        const messageId = id(`result-${toolCallId}`)
        yield {
          type: 'TOOL_CALL_RESULT',
          messageId,
          toolCallId,
          content: error ?? output,
          role: 'tool',
        }
        state?.mayHaveChanged()
        break
      }
      case 'component': {
        const { name, args, status } = part
        const content = { name, args, status }
        yield {
          type: 'ACTIVITY_SNAPSHOT',
          messageId: part.id,
          activityType: `component:${name}`,
          content,
        }
        break
      }
      case 'approval':
        yield* begin(part)
        outcome = { type: 'interrupt', interrupts: [interruptOf(part)] }
        break
      case 'client-calls': {
        for (const call of part.calls) yield* begin(call)
        const pendingToolCallIds = part.calls.map(({ toolCallId }) => toolCallId)
        outcome = { type: 'success', ...(isOne && { pendingToolCallIds }) }
        break
      }
      case 'error':
        yield { type: 'RUN_ERROR', message: part.message, code: part.code }
        return
      case 'end':
        yield* (await state?.changes()) ?? []
        yield finished(about, part, outcome)
    }
  }
}

/** The words of a turn, and what the model thinks, as events. */
function* spoken(part: TurnPart, id: (of: string) => string): Generator<object> {
  if (!('id' in part) || part.type === 'component') return
  const messageId = id(part.id)
  if (part.type === 'text-start') yield { type: 'TEXT_MESSAGE_START', messageId, role: 'assistant' }
  else if (part.type === 'text') yield { type: 'TEXT_MESSAGE_CONTENT', messageId, delta: part.text }
  else if (part.type === 'text-end') yield { type: 'TEXT_MESSAGE_END', messageId }
  else if (part.type === 'reasoning-start') {
    yield { type: 'REASONING_START', messageId }
    yield { type: 'REASONING_MESSAGE_START', messageId, role: 'reasoning' }
  } else if (part.type === 'reasoning')
    yield { type: 'REASONING_MESSAGE_CONTENT', messageId, delta: part.text }
  else {
    yield { type: 'REASONING_MESSAGE_END', messageId }
    yield { type: 'REASONING_END', messageId }
  }
}

/** The last event of a run: what it waits for, or how it ended. */
function finished({ threadId, runId, isOne }: About, end: End, waiting: object | undefined) {
  const isCancelled = end.status === 'aborted' || end.status === 'interrupted'
  const usage = isOne ? usageOf(end) : undefined
  const outcome =
    isOne && isCancelled ? { type: 'cancelled' } : (waiting ?? (isOne && { type: 'success' }))
  return {
    ...{ type: 'RUN_FINISHED', threadId, runId },
    ...(outcome && { outcome }),
    ...(usage && { usage }),
  }
}

/** Tells what plugins show of their state, and then what changes of it. */
class TellsState {
  readonly #read: () => Promise<State>
  /** A call may have changed the state: it is kept once the turn goes on. */
  isOpen = false
  #told: State = {}

  constructor(read: () => Promise<State>) {
    this.#read = read
  }

  async first(): Promise<object[]> {
    this.#told = await this.#read()
    return [{ type: 'STATE_SNAPSHOT', snapshot: this.#told }]
  }

  mayHaveChanged(): void {
    this.isOpen = true
  }

  async changes(): Promise<object[]> {
    this.isOpen = false
    const now = await this.#read()
    const delta = patchOf(this.#told, now)
    this.#told = now
    return delta.length > 0 ? [{ type: 'STATE_DELTA', delta }] : []
  }
}

import type { TurnPart } from '#core'
import { waitingIdOf } from './names.ts'

/** What a stream says of itself. */
export interface About {
  /** The message that begins, or that goes on. */
  readonly messageId: string
  readonly runId: string
  readonly sessionId: string
  /** The calls that the message has already: their parts are finished, and not begun again. */
  readonly known: ReadonlySet<string>
  /** The calls of these that the page has carried out itself: it has their results. */
  readonly pages?: ReadonlySet<string>
  /** Whether calls of a tool are carried out without anybody being asked: they are shown as soon as they begin. */
  isQuick(tool: string): Promise<boolean>
}

type End = Extract<TurnPart, { type: 'end' }>
type Call = Extract<TurnPart, { type: 'call' }>

/** A tool's result for the page: an object or a list where the text is one. */
export function outputOf(text: string): unknown {
  if (!/^\s*[[{]/u.test(text)) return text
  try {
    return JSON.parse(text)
  } catch {
    return text // a result that only looks like one
  }
}

/** Our own tools run here: the page shows them, and never carries them out. */
const ours = { dynamic: true, providerExecuted: true } as const

const finishReasons = {
  finished: 'stop',
  waiting: 'tool-calls',
  failed: 'error',
  aborted: 'interrupted',
  interrupted: 'interrupted',
} as const satisfies Record<End['status'], string>
const earlyEnds = { length: 'length', content_filter: 'content-filter' } as const

/** A turn as the pieces of a message. */
export async function* streamed(
  parts: AsyncIterable<TurnPart>,
  about: About,
): AsyncGenerator<{ readonly data: unknown }, void, void> {
  // Pieces have a field `data` of their own, which is none of the frame's.
  for await (const data of pieces(parts, about)) yield { data }
}

async function* pieces(
  parts: AsyncIterable<TurnPart>,
  { messageId, runId, sessionId, known, pages, isQuick }: About,
): AsyncGenerator<unknown, void, void> {
  const seen = new Set(known)
  // Of two calls in a step for which a person is asked, the page shows the second once the first is decided.
  const held = new Map<string, Omit<Call, 'type'>>()
  const steps = new Steps()
  const begin = function* ({ toolCallId, toolName, args: input }: Omit<Call, 'type'>) {
    if (seen.has(toolCallId)) return
    seen.add(toolCallId)
    yield* steps.open()
    yield { type: 'tool-input-available', toolCallId, toolName, input, ...ours }
  }
  yield { type: 'start', messageId, messageMetadata: { runId, sessionId } }
  for await (const part of parts) {
    switch (part.type) {
      case 'text-start':
      case 'reasoning-start':
        yield* steps.open()
        yield piece(part)
        break
      case 'text':
      case 'reasoning':
      case 'text-end':
      case 'reasoning-end':
        yield piece(part)
        break
      case 'call':
        if (seen.has(part.toolCallId)) break
        if (await isQuick(part.toolName)) yield* begin(part)
        else held.set(part.toolCallId, part)
        break
      case 'result': {
        const { toolCallId, output = '', error, isDenied } = part
        if (pages?.has(toolCallId)) break
        yield* begin(held.get(toolCallId) ?? { ...part, args: {} })
        if (isDenied) yield { type: 'tool-output-denied', toolCallId }
        else if (error !== undefined)
          yield { type: 'tool-output-error', toolCallId, errorText: error, ...ours }
        else yield { type: 'tool-output-available', toolCallId, output: outputOf(output), ...ours }
        steps.answered()
        break
      }
      case 'component': {
        const { id, name, args } = part
        yield* steps.open()
        yield { type: 'data-component', id, data: { name, args } }
        break
      }
      case 'progress': {
        const { type: _, ...data } = part
        const call = held.get(part.toolCallId ?? '')
        if (call) yield* begin(call)
        yield { type: 'data-progress', data, transient: true }
        break
      }
      case 'approval': {
        const { toolCallId, reason } = part
        yield* begin(part)
        const approvalId = waitingIdOf(part.runId, toolCallId)
        yield { type: 'tool-approval-request', approvalId, toolCallId, ...(reason && { reason }) }
        break
      }
      case 'client-calls':
        yield* steps.open()
        for (const { toolCallId, toolName, args } of part.calls)
          yield { type: 'tool-input-available', toolCallId, toolName, input: args }
        break
      case 'error':
        yield { type: 'error', errorText: part.message }
        break
      case 'end':
        yield* steps.close()
        yield* finished(part, { runId, sessionId })
    }
  }
  yield '[DONE]'
}

/** How a turn ended, or that it stands still. */
function* finished(
  { status, usage, ended }: End,
  ids: Pick<About, 'runId' | 'sessionId'>,
): Generator<object> {
  if (status === 'aborted') yield { type: 'abort' }
  const finishReason = ended ? earlyEnds[ended] : finishReasons[status]
  const messageMetadata = { ...ids, ...(usage && { usage }) }
  yield { type: 'finish', finishReason, messageMetadata }
}

/** Words, or what the model thinks. */
const piece = (part: Extract<TurnPart, { type: `${'text' | 'reasoning'}${string}` }>) =>
  'text' in part
    ? { type: `${part.type}-delta`, id: part.id, delta: part.text }
    : { type: part.type, id: part.id }

/** The steps of a message: one ends once its calls are answered and something else begins. */
class Steps {
  #isOpen = false
  #isAnswered = false

  answered(): void {
    this.#isAnswered = true
  }

  *open(): Generator<unknown> {
    if (this.#isOpen && !this.#isAnswered) return
    if (this.#isOpen) yield { type: 'finish-step' }
    this.#isOpen = true
    this.#isAnswered = false
    yield { type: 'start-step' }
  }

  *close(): Generator<unknown> {
    if (this.#isOpen) yield { type: 'finish-step' }
    this.#isOpen = false
  }
}

import { RuntimeError, type SaidBefore, type TurnClientTool } from '#core'
import { waitingOf } from './names.ts'
import type { AgMessage, RunInput } from './request.ts'

/** What a request asks of the agent: a turn, a person's decision, or to go on with what the client made of its tools. */
export type Asked =
  | {
      readonly is: 'turn'
      readonly message: string
      readonly history: readonly SaidBefore[]
      readonly instructions?: string
      readonly metadata: Readonly<Record<string, unknown>>
      readonly tools: readonly TurnClientTool[]
    }
  | {
      readonly is: 'decision'
      readonly runId: string
      readonly answer:
        | { readonly decision: 'approve' | 'reject'; readonly reason?: string }
        | { readonly decision: 'edit'; readonly args: Readonly<Record<string, unknown>> }
    }
  /** Of the calls of the client at the end of the messages: the turn waits for some of them. */
  | { readonly is: 'results'; readonly results: readonly ClientResult[] }

/** What the client made of a call of its own tool. */
export interface ClientResult {
  readonly toolCallId: string
  readonly result?: string
  readonly error?: string
}

const [instructionBytes, contextBytes, metadataBytes] = [16 * 1024, 16 * 1024, 7 * 1024]
const longestReason = 500

/** A request that cannot be, and the field in which it cannot. */
export const refused = (path: string, message: string): RuntimeError =>
  new RuntimeError('INVALID_INPUT', message, { details: [{ path, message }] })

const isAside = ({ role }: AgMessage) => role === 'system' || role === 'developer'
const isShown = ({ role }: AgMessage) => role === 'activity' || role === 'reasoning'

/** Reads what a request asks for: what it resumes, or else its last message decides. */
export function read(input: RunInput): Asked {
  const { messages, tools } = input
  if (input.resume?.length) return decisionOf(input.resume)
  const at = messages.findLastIndex((message) => !isAside(message) && !isShown(message))
  const last = messages[at]
  if (last?.role === 'tool') return resultsOf(messages, at)
  if (last?.role !== 'user')
    throw refused(
      'messages',
      'The last message is the one that is answered: it is a user’s, or a tool’s.',
    )
  const message = wordsOf(last)
  if (message.trim() === '')
    throw refused(`messages.${at}.content`, 'The message that is to be answered has no words.')
  const instructions = instructionsOf(input)
  return {
    is: 'turn',
    message,
    history: messages.slice(0, at).flatMap(lineOf),
    metadata: metadataOf(input),
    ...(instructions && { instructions }),
    tools: (tools ?? []).map(toolOf),
  }
}

function decisionOf([entry, ...others]: NonNullable<RunInput['resume']>): Asked {
  if (!entry || others.length > 0)
    throw refused('resume', 'One interrupt is open at a time, and so one is resumed.')
  const asked = waitingOf(entry.interruptId)
  if (!asked) throw stale()
  const { runId } = asked
  const { approved, args, reason } = Object(entry.payload)
  if (entry.status === 'cancelled' || approved === false) {
    const why =
      typeof reason === 'string' && reason ? { reason: reason.slice(0, longestReason) } : {}
    return { is: 'decision', runId, answer: { decision: 'reject', ...why } }
  }
  if (args === undefined) return { is: 'decision', runId, answer: { decision: 'approve' } }
  if (typeof args !== 'object' || args === null || Array.isArray(args))
    throw refused('resume.0.payload.args', 'Other arguments are an object.')
  return { is: 'decision', runId, answer: { decision: 'edit', args } }
}

/** The refusal of an answer that nobody waits for. */
export const stale = (): RuntimeError =>
  new RuntimeError('CONFLICT', 'Nothing of yours waits for this answer.', {
    hint: 'It was answered before, or has run out: send a message.',
  })

/** What the client made of its calls: the results at the end of the messages. Those of our own tools stand among them. */
function resultsOf(messages: readonly AgMessage[], at: number): Asked {
  const results: ClientResult[] = []
  for (let i = at; i >= 0; i--) {
    const message = messages[i]
    if (!message || isAside(message) || isShown(message)) continue
    if (message.role !== 'tool') break
    const { toolCallId, error } = message
    if (!toolCallId) throw refused(`messages.${i}.toolCallId`, 'The result says of no call.')
    if (results.some((known) => known.toolCallId === toolCallId))
      throw refused(`messages.${i}.toolCallId`, 'There are two results of this call.')
    results.unshift({ toolCallId, ...(error ? { error } : { result: wordsOf(message) }) })
  }
  return { is: 'results', results }
}

/** The words of a message. */
export function wordsOf({ content }: AgMessage): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content.flatMap(({ type, text }) => (type === 'text' && text ? text : [])).join('\n')
}

function lineOf(message: AgMessage): SaidBefore[] {
  const { role } = message
  if (role !== 'user' && role !== 'assistant') return []
  const content = wordsOf(message)
  return content.trim() === '' ? [] : [{ role, content }]
}

function toolOf({ name, description, parameters }: NonNullable<RunInput['tools']>[number]) {
  const isObject =
    typeof parameters === 'object' && parameters !== null && !Array.isArray(parameters)
  return {
    name,
    ...(description && { description }),
    ...(isObject && { schema: { ...parameters } }),
  }
}

/** The application's own lines, and what it says of where the person is, as quoted data. */
function instructionsOf({ messages, context }: RunInput): string {
  const lines = messages.filter(isAside).map(wordsOf).join('\n\n').trim()
  if (Buffer.byteLength(lines) > instructionBytes)
    throw refused('messages', `The system messages have more than ${instructionBytes} bytes.`)
  const told = (context ?? [])
    .map(({ description, value }) => `${description}: ${value}`)
    .join('\n')
  const quoted = cut(told, contextBytes)
    .split('\n')
    .map((line) => `> ${line}`)
  return [
    lines && `The application says:\n${lines}`,
    told.trim() && `What the application shows, as it says:\n${quoted.join('\n')}`,
  ]
    .filter(Boolean)
    .join('\n\n')
}

/** As much of a text as fits, quotation marks included. */
function cut(text: string, bytes: number): string {
  const marks = 2 * (text.split('\n').length + 1)
  return Buffer.from(text)
    .subarray(0, Math.max(0, bytes - marks))
    .toString()
    .replace(/\uFFFD+$/u, '')
}

/** What handlers of the turn find in `ctx.metadata`. What is too long for it is left out. */
function metadataOf({ context, forwardedProps }: RunInput): Record<string, unknown> {
  const found: Record<string, unknown> = { protocol: 'ag-ui' }
  let left = metadataBytes
  for (const [name, value] of Object.entries({ context, forwardedProps })) {
    if (value === undefined || value === null) continue
    const bytes = Buffer.byteLength(JSON.stringify(value))
    if (bytes > left) continue
    left -= bytes
    found[name] = value
  }
  return found
}

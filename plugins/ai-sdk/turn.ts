import { RuntimeError, type SaidBefore, type TurnClientTool } from '#core'
import { waitingOf } from './names.ts'
import type { ChatMessage, ChatPart, ChatRequest } from './request.ts'

/** What a request asks of the agent: a turn, a person's decision, or to go on with what the page made of its tools. */
export type Asked =
  | {
      readonly is: 'turn'
      readonly message: string
      readonly messageId?: string
      readonly attachments: readonly { readonly url: string; readonly name?: string }[]
      /** Undefined where the page sent the new message alone. */
      readonly history?: readonly SaidBefore[]
      readonly instructions?: string
      readonly tools: readonly TurnClientTool[]
    }
  | {
      readonly is: 'answers'
      /** The message that goes on. */
      readonly message: ChatMessage
      readonly decisions: readonly PersonsDecision[]
      /** Of all calls of the message that the page has carried out: the turn waits for some of them. */
      readonly results: readonly PageResult[]
    }

/** What a person decided about a call. */
export interface PersonsDecision {
  readonly runId: string
  readonly approved: boolean
  readonly reason?: string
}

/** What the page made of a call of its own tool. */
export interface PageResult {
  readonly toolCallId: string
  readonly result?: unknown
  readonly error?: string
}

/** How long the application's own lines may be, in bytes. */
const instructionBytes = 32 * 1024
const longestReason = 500

/** A request that cannot be, and the field in which it cannot. */
export const refused = (path: string, message: string): RuntimeError =>
  new RuntimeError('INVALID_INPUT', message, { details: [{ path, message }] })

/** Reads what a request asks for: its last message decides. */
export function read({ messages, message, messageId, tools }: ChatRequest): Asked {
  const all = messages ?? (message ? [message] : [])
  const named = all.findIndex(({ id, role }) => role === 'assistant' && id && id === messageId)
  const at = named >= 0 ? named : all.findLastIndex(({ role }) => role !== 'system')
  const last = all[at]
  if (last?.role === 'assistant') return answerOf(last, `messages.${at}`)
  if (last === undefined)
    throw refused('messages', 'The last message is the one that is answered, and there is none.')
  const lines = all.filter(({ role }) => role === 'system').map(wordsOf)
  const instructions = lines.join('\n\n').trim()
  if (Buffer.byteLength(instructions) > instructionBytes)
    throw refused('messages', `The system messages have more than ${instructionBytes} bytes.`)
  return {
    is: 'turn',
    ...questionOf(last, messages ? `messages.${at}` : 'message'),
    ...(last.id && { messageId: last.id }),
    ...(messages && { history: messages.slice(0, at).flatMap(lineOf) }),
    ...(instructions && { instructions: `The application says:\n${instructions}` }),
    tools: (tools ?? []).map(toolOf),
  }
}

/** The words of a message. */
const wordsOf = ({ parts }: ChatMessage): string =>
  parts.flatMap(({ type, text }) => (type === 'text' && text ? text : [])).join('\n')

const onlyFiles = '(a file)'

function lineOf(message: ChatMessage): SaidBefore[] {
  const { role, parts } = message
  if (role === 'system') return []
  const words = wordsOf(message)
  const isFile = role === 'user' && parts.some(({ type }) => type === 'file')
  const content = words.trim() === '' && isFile ? onlyFiles : words
  return content.trim() === '' ? [] : [{ role, content }]
}

const toolOf = ({ name, description, schema }: NonNullable<ChatRequest['tools']>[number]) => ({
  name,
  ...(description && { description }),
  ...(schema && { schema }),
})

/** The message that is answered: its words, and its files as attachments. */
function questionOf(message: ChatMessage, where: string) {
  const attachments: { url: string; name?: string }[] = []
  for (const [i, { type, url, filename }] of message.parts.entries()) {
    if (type !== 'file') continue
    if (url === undefined || !/^data:[^,]*;base64,/iu.test(url))
      throw refused(
        `${where}.parts.${i}`,
        'A file comes as a data: address in base64; other addresses are not fetched.',
      )
    attachments.push({ url, ...(filename && { name: filename }) })
  }
  const words = wordsOf(message)
  if (words.trim() === '' && attachments.length === 0)
    throw refused(where, 'The message that is to be answered is empty.')
  return { message: words.trim() === '' ? onlyFiles : words, attachments }
}

/** What the page answers in the parts of an assistant's message. */
function answerOf(message: ChatMessage, where: string): Asked {
  const tools = message.parts.filter(
    ({ type }) => type === 'dynamic-tool' || type.startsWith('tool-'),
  )
  const [decisions, results] = [tools.flatMap(decisionIn), tools.flatMap(resultIn)]
  if (decisions.length + results.length > 0) return { is: 'answers', message, decisions, results }
  throw refused(
    where,
    'The last message is the assistant’s, and has neither an answered approval nor a result of a tool of the page.',
  )
}

function decisionIn({ state, approval }: ChatPart): PersonsDecision[] {
  const asked = waitingOf(approval?.id ?? '')
  if (state !== 'approval-responded' || !asked || typeof approval?.approved !== 'boolean') return []
  const { approved, reason } = approval
  return [
    { runId: asked.runId, approved, ...(reason && { reason: reason.slice(0, longestReason) }) },
  ]
}

function resultIn({
  state,
  toolCallId,
  providerExecuted,
  output,
  errorText,
}: ChatPart): PageResult[] {
  if (toolCallId === undefined || providerExecuted) return []
  if (state === 'output-available') return [{ toolCallId, result: output ?? null }]
  return state === 'output-error' ? [{ toolCallId, error: errorText ?? 'It failed.' }] : []
}

import type { SaidBefore, TurnClientTool } from '#core'
import { refused } from './faults.ts'
import { runOfCall } from './names.ts'
import { type ChatMessage, type ChatRequest, wordsOf } from './request.ts'

/** What a request asks of the agent: a turn, or to go on with the results of the client's tools. */
export type Asked =
  | {
      readonly is: 'turn'
      readonly message: string
      readonly attachments: readonly { readonly url: string }[]
      readonly history: readonly SaidBefore[]
      readonly instructions?: string
      readonly tools: readonly TurnClientTool[]
    }
  | {
      readonly is: 'results'
      readonly runId: string
      readonly results: readonly { readonly toolCallId: string; readonly result: string }[]
    }

/** How long the application's own lines may be, in bytes. */
const instructionBytes = 32 * 1024

const isAside = ({ role }: ChatMessage) => role === 'system' || role === 'developer'

/** Reads what a request asks for. The last message that is not the application's decides. */
export function read({ messages, tools, tool_choice }: ChatRequest): Asked {
  const at = messages.findLastIndex((message) => !isAside(message))
  const last = messages[at]
  if (last?.role === 'tool') return resultsOf(messages, at)
  if (last?.role !== 'user')
    throw refused(
      'messages',
      'The last message is the one that is answered: it is a user’s, or a tool’s.',
    )
  const { message, attachments } = questionOf(last, at)
  const lines = messages.filter(isAside).map(wordsOf).join('\n\n').trim()
  if (Buffer.byteLength(lines) > instructionBytes)
    throw refused(
      'messages',
      `The system messages have more than ${instructionBytes} bytes together.`,
    )
  return {
    is: 'turn',
    message,
    attachments,
    history: messages.slice(0, at).flatMap(lineOf),
    ...(lines && { instructions: `The application says:\n${lines}` }),
    tools: tool_choice === 'none' ? [] : (tools ?? []).map(toolOf),
  }
}

function lineOf(message: ChatMessage): SaidBefore[] {
  const { role } = message
  if (role !== 'user' && role !== 'assistant') return []
  const content = wordsOf(message)
  return content.trim() === '' ? [] : [{ role, content }]
}

const toolOf = ({
  function: { name, description, parameters },
}: NonNullable<ChatRequest['tools']>[number]) => ({
  name,
  ...(description && { description }),
  ...(parameters && { schema: parameters }),
})

/** The message that is answered: its words, and its pictures as attachments. */
function questionOf(message: ChatMessage, at: number) {
  const attachments: { url: string }[] = []
  for (const [i, part] of (Array.isArray(message.content) ? message.content : []).entries()) {
    const where = `messages.${at}.content.${i}`
    if (part.type === 'text') continue
    const url = part.type === 'image_url' ? part.image_url?.url : undefined
    if (url === undefined)
      throw refused(
        where,
        `A part of the type "${part.type}" is not read here; text and image_url are.`,
      )
    if (!/^data:[^,]*;base64,/iu.test(url))
      throw refused(
        where,
        'A picture comes as a data: address in base64; other addresses are not fetched.',
      )
    attachments.push({ url })
  }
  const words = wordsOf(message)
  if (words.trim() === '' && attachments.length === 0)
    throw refused(`messages.${at}.content`, 'The message that is to be answered is empty.')
  return { message: words.trim() === '' ? '(a picture)' : words, attachments }
}

/** What the client made of its calls: the results at the end of the messages. */
function resultsOf(messages: readonly ChatMessage[], at: number): Asked {
  const results: { toolCallId: string; result: string }[] = []
  let runId: string | undefined
  for (let i = at; i >= 0; i--) {
    const message = messages[i]
    if (!message || isAside(message)) continue
    if (message.role !== 'tool') break
    const where = `messages.${i}.tool_call_id`
    const call = runOfCall(message.tool_call_id ?? '')
    if (!call) throw unknownCall(where)
    runId ??= call.runId
    if (call.runId !== runId) throw refused(where, 'The results are of calls of two answers.')
    if (results.some(({ toolCallId }) => toolCallId === call.toolCallId))
      throw refused(where, 'There are two results of this call.')
    results.unshift({ toolCallId: call.toolCallId, result: wordsOf(message) })
  }
  return { is: 'results', runId: runId ?? '', results }
}

/** The refusal of results that nobody waits for. */
export const unknownCall = (param = 'tool_call_id') =>
  refused(param, 'No answer of yours waits for the result of this call.')

import { randomUUID } from 'node:crypto'
import { RuntimeError } from '../../../errors.ts'
import type { AskedLine, AskedPrompt, Message } from '../../../plugin.ts'

/** How many lines a prompt has at most, and how many bytes of text all of them together. */
const mostLines = 500
const mostBytes = 1024 * 1024

const roles = ['system', 'user', 'assistant', 'tool']

/** A prompt as messages, for a model: what the system says first. Throws INPUT_INVALID for what no model takes. */
export function promptMessages(prompt: AskedPrompt, system: string | undefined): Message[] {
  const lines = linesOf(prompt)
  const messages = [
    ...(system?.trim() ? [{ role: 'system', content: system } as const] : []),
    ...lines.map(asMessage),
  ]
  const said = messages.filter(({ role }) => role !== 'system')
  if (said.length === 0) throw refused('holds no words.', 'Write what the model is asked.')
  if (said[0]?.role !== 'user')
    throw refused(
      'does not begin with the user.',
      'Providers refuse that: put a line of the user first.',
    )
  const bytes = messages.reduce((sum, { content }) => sum + Buffer.byteLength(content), 0)
  if (bytes > mostBytes)
    throw refused(`has ${bytes} bytes, and ${mostBytes} are the most.`, 'Ask about a part of it.')
  return messages
}

function linesOf(prompt: AskedPrompt): readonly AskedLine[] {
  if (typeof prompt === 'string') return prompt.trim() ? [{ role: 'user', content: prompt }] : []
  if (!Array.isArray(prompt)) throw refused('is neither text nor a list of lines.')
  if (prompt.length > mostLines)
    throw refused(
      `has ${prompt.length} lines, and ${mostLines} are the most.`,
      'Ask about a part of it.',
    )
  const wrong = prompt.findIndex(
    (line) =>
      typeof line?.content !== 'string' ||
      !roles.includes(line.role) ||
      (line.role === 'tool' && typeof line.toolCallId !== 'string'),
  )
  if (wrong >= 0)
    throw refused(`has no { role, content } at ${wrong}.`, `The roles are ${roles.join(', ')}.`)
  return prompt
}

/** A line as a message. What is attached stays behind and is named: files belong to the turn in which they came. */
function asMessage(line: AskedLine): Message {
  if (line.role === 'system') return { role: 'system', content: line.content }
  if (!('id' in line)) return { ...line, id: randomUUID() }
  if (line.role === 'assistant' || !line.parts?.length) return line
  const { parts, ...rest } = line
  const named = parts.map(
    ({ type, name }) => `[${type} ${JSON.stringify(name ?? '')}: not passed on]`,
  )
  return { ...rest, content: [line.content, ...named].join('\n') }
}

function refused(what: string, hint?: string): RuntimeError {
  return new RuntimeError('INPUT_INVALID', `What a model is asked ${what}`, { hint })
}

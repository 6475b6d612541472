import { fieldsIn, isRecord } from '../../base/fields.ts'
import type { Message, MessagePart, ModelRequest } from '../../../plugin.ts'
import { callName } from '../transport/call-slots.ts'

type Said = Extract<Message, { role: 'assistant' }>
type Role = 'user' | 'assistant' | 'tool'

interface Entry {
  readonly role: Role
  readonly content: object[]
}

/** How the model of a conversation is asked. */
interface Listener {
  /** What this origin gave goes back as it came. */
  readonly origin: string
  readonly version: string
  /** The `providerOptions` of the first call of each answer of another model, where the provider wants its signature. */
  readonly callOfOthers?: Readonly<Record<string, unknown>>
}

/** A conversation as the AI SDK has it: what the system says, then messages of roles that alternate. */
export async function promptOf(request: ModelRequest, listener: Listener): Promise<object[]> {
  const entries: Entry[] = []
  const add = (role: Role, content: readonly object[]) => {
    const last = entries.at(-1)
    if (last?.role === role) last.content.push(...content)
    else if (content.length > 0) entries.push({ role, content: [...content] })
  }
  const ids = new Map<string, string>()
  /** What tools gave beside their texts. It follows their results as the user's: few packages take files in a result. */
  let after: object[] = []
  for (const message of request.messages) {
    if (message.role !== 'tool') add('user', after.splice(0))
    switch (message.role) {
      case 'system':
        break
      case 'user': {
        const files = await filesOf(message.parts, request, listener)
        add('user', [...textOf(message.content, files.length === 0), ...files])
        break
      }
      case 'assistant':
        add('assistant', assistantParts(message, listener, ids))
        break
      case 'tool': {
        const { name, content, failed, parts } = message
        const toolCallId = ids.get(message.toolCallId) ?? message.toolCallId
        const output = { type: failed ? 'error-text' : 'text', value: content }
        add('tool', [{ type: 'tool-result', toolCallId, toolName: callName(name), output }])
        const files = await filesOf(parts, request, listener)
        if (files.length > 0)
          after.push(...textOf(`What the call ${toolCallId} of "${name}" returned:`), ...files)
      }
    }
  }
  add('user', after)
  const system = request.messages.flatMap(({ role, content }) =>
    role === 'system' && content.trim() ? [content] : [],
  )
  return system.length > 0
    ? [{ role: 'system', content: system.join('\n\n') }, ...entries]
    : entries
}

/** A text; none without a letter, which some providers refuse, unless there has to be one. */
function textOf(text: string, isNeeded = false): object[] {
  if (text.trim()) return [{ type: 'text', text }]
  return isNeeded ? [{ type: 'text', text: '(no words)' }] : []
}

function assistantParts(message: Said, listener: Listener, ids: Map<string, string>): object[] {
  const { content, toolCalls = [] } = message
  const kept = keptOf(message, listener.origin)
  if (kept) {
    const own = kept.filter(isOwnCall)
    for (const [nth, { id }] of toolCalls.entries()) ids.set(id, String(own[nth]?.toolCallId))
    return kept
  }
  const calls = toolCalls.map(({ id, name, args }, nth) => ({
    type: 'tool-call',
    toolCallId: id,
    toolName: callName(name),
    input: fieldsIn(args),
    ...(nth === 0 && listener.callOfOthers && { providerOptions: listener.callOfOthers }),
  }))
  return [...textOf(content), ...calls]
}

/** The parts that the model of this origin gave with a message; undefined for a message of another model. */
function keptOf({ provider, toolCalls = [] }: Said, origin: string) {
  const parts = provider?.by === origin ? fieldsIn(provider.data).parts : undefined
  if (!Array.isArray(parts) || !parts.every(isRecord)) return undefined
  // A message whose calls were changed does not fit its parts any more.
  return parts.filter(isOwnCall).length === toolCalls.length ? parts : undefined
}

/** Whether a part is a call of a tool of ours: what the provider carried out itself is none. */
function isOwnCall({ type, providerExecuted }: Readonly<Record<string, unknown>>): boolean {
  return type === 'tool-call' && !providerExecuted
}

/** Whether each answer with calls in the turn under way begins with a signed thought of this origin. */
export function isThoughtThrough(messages: readonly Message[], origin: string): boolean {
  for (const message of messages.toReversed()) {
    if (message.role === 'user') return true
    if (message.role !== 'assistant' || !message.toolCalls?.length) continue
    const [first] = keptOf(message, origin) ?? []
    if (first?.type !== 'reasoning' || first.providerOptions === undefined) return false
  }
  return true
}

/** Pictures, sounds and files with their bytes, in the form of the version. */
async function filesOf(
  parts: readonly MessagePart[] | undefined,
  { file }: ModelRequest,
  { version }: Listener,
): Promise<object[]> {
  const files: object[] = []
  // One after the other: all files of a conversation at once would stand twice in memory.
  for (const { type, mediaType, name, file: id } of parts ?? []) {
    if (!file) {
      files.push({ type: 'text', text: `[${type} "${name ?? mediaType}" is not there]` })
      continue
    }
    const bytes = await file(id)
    const data = version === 'v3' ? bytes : { type: 'data', data: bytes }
    files.push({ type: 'file', mediaType, data, ...(name && { filename: name }) })
  }
  return files
}

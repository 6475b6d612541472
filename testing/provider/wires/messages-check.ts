import type { ProviderRequest } from '../answers.ts'
import { mediaFault } from '../media.ts'
import { fieldsIn, itemsOf, recordsOf, textOf } from '../read.ts'
import type { Provider } from '../wire.ts'

type Block = Readonly<Record<string, unknown>>

/** A message with its content as blocks, and its number in the request. */
interface Turn {
  readonly at: number
  readonly role: string
  readonly blocks: readonly Block[]
}

/** Why `/v1/messages` does not take a request, in its words; undefined where it does. */
export function messagesFault(request: ProviderRequest, provider: Provider): string | undefined {
  const { body } = request
  const turns = recordsOf(body.messages).map((message, at): Turn => {
    const { content } = message
    const blocks = typeof content === 'string' ? [{ type: 'text', text: content }] : content
    return { at, role: textOf(message.role), blocks: recordsOf(blocks) }
  })
  return (
    settingsFault(request, provider) ??
    thinkingFault(body) ??
    orderFault(turns, provider.rules.alternates === true) ??
    blockFault(turns) ??
    pairFault(joined(turns)) ??
    endFault(turns) ??
    toolFault(body) ??
    mediaFault(request.media) ??
    signatureFault(turns, fieldsIn(body.thinking).type, provider) ??
    lastThoughtFault(turns)
  )
}

function settingsFault(
  { body, headers, model, tokens, text }: ProviderRequest,
  { rules }: Provider,
): string | undefined {
  const { maxOutputTokens = Infinity, window = Infinity, refuses = [] } = rules
  if (!headers['anthropic-version']) return 'anthropic-version: header is required'
  if (typeof body.max_tokens !== 'number') return 'max_tokens: Field required'
  if (body.max_tokens > maxOutputTokens)
    return (
      `max_tokens: ${body.max_tokens} > ${maxOutputTokens}, ` +
      `which is the maximum allowed number of output tokens for ${model}`
    )
  if (tokens > window) return `prompt is too long: ${tokens} tokens > ${window} maximum`
  const thinking = fieldsIn(body.thinking).type
  if (thinking === 'adaptive' && refuses.includes('adaptive'))
    return 'adaptive thinking is not supported on this model'
  if (thinking === 'enabled' && refuses.includes('enabled'))
    return (
      '"thinking.type.enabled" is not supported for this model. ' +
      'Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.'
    )
  if (body.temperature !== undefined && refuses.includes('temperature'))
    return '`temperature` is deprecated for this model.'
  if (fieldsIn(body.output_config).format !== undefined && refuses.includes('object'))
    return 'output_config.format: Extra inputs are not permitted'
  if (body.tools !== undefined && refuses.includes('tools'))
    return 'tools: Extra inputs are not permitted'
  const marks = text.split('"cache_control":').length - 1
  if (marks > 4) return `A maximum of 4 blocks with cache_control may be provided. Found ${marks}.`
  return undefined
}

function thinkingFault(body: Block): string | undefined {
  const { type, budget_tokens: budget } = fieldsIn(body.thinking)
  if (type !== 'enabled' && type !== 'adaptive') return undefined
  if (body.temperature !== undefined && body.temperature !== 1)
    return '`temperature` may only be set to 1 when thinking is enabled or in adaptive mode.'
  if (type === 'adaptive') return undefined
  if (typeof budget !== 'number') return 'thinking.enabled.budget_tokens: Field required'
  if (budget < 1024)
    return 'thinking.enabled.budget_tokens: Input should be greater than or equal to 1024'
  if (budget >= Number(body.max_tokens))
    return '`max_tokens` must be greater than `thinking.budget_tokens`.'
  if (['any', 'tool'].includes(textOf(fieldsIn(body.tool_choice).type)))
    return 'Thinking may not be enabled when tool_choice forces tool use.'
  return undefined
}

function orderFault(turns: readonly Turn[], alternates: boolean): string | undefined {
  if (turns.length === 0) return 'messages: at least one message is required'
  for (const { at, role, blocks } of turns) {
    if (role !== 'user' && role !== 'assistant')
      return `messages.${at}.role: Input should be 'user' or 'assistant'`
    if (blocks.length === 0)
      return `messages.${at}: all messages must have non-empty content except for the optional final assistant message`
    if (alternates && turns[at - 1]?.role === role)
      return (
        `messages: roles must alternate between "user" and "assistant", ` +
        `but found multiple "${role}" roles in a row`
      )
  }
  if (turns[0]?.role !== 'user') return 'messages: first message must use the "user" role'
  return undefined
}

function blockFault(turns: readonly Turn[]): string | undefined {
  const ids = new Set<unknown>()
  for (const { at, blocks } of turns)
    for (const [place, block] of blocks.entries()) {
      const where = `messages.${at}.content.${place}`
      if (block.type === 'text' && !textOf(block.text).trim())
        return textOf(block.text)
          ? 'messages: text content blocks must contain non-whitespace text'
          : 'messages: text content blocks must be non-empty'
      if (block.type !== 'tool_use') continue
      if (!/^[\w-]+$/.test(textOf(block.id)))
        return `${where}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'`
      if (!/^[\w-]{1,128}$/.test(textOf(block.name)))
        return `${where}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'`
      if (typeof block.input !== 'object' || block.input === null || Array.isArray(block.input))
        return `${where}.tool_use.input: Input should be a valid dictionary`
      if (ids.has(block.id)) return `${where}: \`tool_use\` ids must be unique`
      ids.add(block.id)
    }
  return undefined
}

/** The turns as the server joins them: messages of one role in a row are one. */
function joined(turns: readonly Turn[]): readonly Turn[] {
  const all: Turn[] = []
  for (const turn of turns) {
    const last = all.at(-1)
    if (last?.role === turn.role)
      all[all.length - 1] = { ...last, blocks: [...last.blocks, ...turn.blocks] }
    else all.push(turn)
  }
  return all
}

function pairFault(turns: readonly Turn[]): string | undefined {
  for (const [nth, { at, blocks }] of turns.entries()) {
    const before = idsOf(turns[nth - 1], 'tool_use', 'id')
    for (const [place, block] of blocks.entries())
      if (block.type === 'tool_result' && !before.includes(textOf(block.tool_use_id)))
        return (
          `messages.${at}.content.${place}: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ` +
          `${textOf(block.tool_use_id)}. Each \`tool_result\` block must have a corresponding ` +
          '`tool_use` block in the previous message.'
        )
    const next = turns[nth + 1]
    // Words before a result count as no result: results come first.
    const first = next?.blocks.findIndex(({ type }) => type !== 'tool_result') ?? 0
    const results = next && first >= 0 ? { ...next, blocks: next.blocks.slice(0, first) } : next
    const answered = idsOf(results, 'tool_result', 'tool_use_id')
    const open = idsOf(turns[nth], 'tool_use', 'id').filter((id) => !answered.includes(id))
    if (open.length > 0)
      return (
        `messages.${at}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ` +
        `${open.join(', ')}. Each \`tool_use\` block must have a corresponding \`tool_result\` block in the next message.`
      )
  }
  return undefined
}

function endFault(turns: readonly Turn[]): string | undefined {
  if (turns.at(-1)?.role === 'user') return undefined
  return (
    'This model does not support assistant message prefill. ' +
    'The conversation must end with a user message.'
  )
}

const idsOf = (turn: Turn | undefined, type: string, field: string): string[] =>
  turn?.blocks.flatMap((block) => (block.type === type ? [textOf(block[field])] : [])) ?? []

function lastThoughtFault(turns: readonly Turn[]): string | undefined {
  for (const { at, role, blocks } of turns)
    if (role === 'assistant' && /thinking$/.test(textOf(blocks.at(-1)?.type)))
      return `messages.${at}: The final block in an assistant message cannot be \`thinking\`.`
  return undefined
}

function toolFault(body: Block): string | undefined {
  const names = recordsOf(body.tools).map(({ name }) => textOf(name))
  for (const [at, name] of names.entries())
    if (!/^[\w-]{1,128}$/.test(name))
      return `tools.${at}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'`
  const choice = fieldsIn(body.tool_choice)
  if (choice.type === 'tool' && !names.includes(textOf(choice.name)))
    return `tool_choice.tool: Tool '${textOf(choice.name)}' not found in provided tools`
  return undefined
}

/** Checks what the server signed: in every message that it comes back; in the loop of tools under way, that nothing is missing. */
function signatureFault(
  turns: readonly Turn[],
  thinking: unknown,
  { signer, memory }: Provider,
): string | undefined {
  const asked = turns.findLastIndex(
    ({ role, blocks }) => role === 'user' && blocks.some(({ type }) => type !== 'tool_result'),
  )
  for (const { at, role, blocks } of turns) {
    if (role !== 'assistant') continue
    const modified =
      '`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. ' +
      'These blocks must remain as they were in the original response.'
    for (const [place, block] of blocks.entries()) {
      const where = `messages.${at}.content.${place}`
      const isThought = block.type === 'thinking'
      if (!isThought && block.type !== 'redacted_thinking') continue
      if (isThought && block.signature === undefined)
        return `${where}.thinking.signature: Field required`
      const read = isThought
        ? signer.read(textOf(block.signature), textOf(block.thinking))
        : signer.read(textOf(block.data), '')
      if (!read)
        return isThought
          ? `${where}: Invalid \`signature\` in \`thinking\` block`
          : `${where}: Invalid \`data\` in \`redacted_thinking\` block`
      if (read.place !== place) return `${where}: ${modified}`
    }
    if (at < asked || thinking === 'disabled') continue
    const calls = blocks.filter(({ type }) => type === 'tool_use')
    const wanted = calls.flatMap(({ id }) => memory.get(textOf(id))?.wanted.length ?? [])
    const most = Math.max(0, thinking === 'enabled' && calls.length > 0 ? 1 : 0, ...wanted)
    const found = blocks.filter(({ type }) => /thinking$/.test(textOf(type))).length
    if (found === 0 && most > 0)
      return (
        `messages.${at}.content.0.type: Expected \`thinking\` or \`redacted_thinking\`, but found ` +
        `\`${textOf(itemsOf(blocks.map(({ type }) => type))[0])}\`. When \`thinking\` is enabled, a final \`assistant\` ` +
        'message must start with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks). ' +
        'We recommend you include thinking blocks from previous turns. To avoid this requirement, disable `thinking`.'
      )
    if (found < most) return `messages.${at}.content.${found}: ${modified}`
  }
  return undefined
}

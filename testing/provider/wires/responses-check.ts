import type { ProviderRequest } from '../answers.ts'
import { mediaFault } from '../media.ts'
import { fieldsIn, parsed, recordsOf, textOf } from '../read.ts'
import type { Provider } from '../wire.ts'

type Item = Readonly<Record<string, unknown>>

/** A refusal in the words of Responses. */
export interface ResponsesFault {
  readonly message: string
  readonly code?: string
}

/** Why `/v1/responses` does not take a request, in its words; undefined where it does. */
export function responsesFault(
  request: ProviderRequest,
  provider: Provider,
): ResponsesFault | undefined {
  const { body } = request
  const said = typeof body.input === 'string' ? [{ role: 'user', content: body.input }] : body.input
  const items = recordsOf(said)
  if (items.length === 0) return { message: "Missing required parameter: 'input'." }
  const media = mediaFault(request.media)
  const message =
    settingsFault(request, provider) ?? pairFault(items) ?? nameFault(body, items) ?? media
  if (message !== undefined) return { message }
  return lengthFault(request, provider) ?? reasoningFault(items, body.store === false, provider)
}

function settingsFault({ body }: ProviderRequest, { rules }: Provider): string | undefined {
  const { maxOutputTokens = Infinity, refuses = [] } = rules
  const most = body.max_output_tokens
  if (typeof most === 'number' && most > maxOutputTokens)
    return (
      "Invalid 'max_output_tokens': integer above maximum value. " +
      `Expected a value <= ${maxOutputTokens}, but got ${most} instead.`
    )
  if (typeof most === 'number' && most < 16)
    return (
      "Invalid 'max_output_tokens': integer below minimum value. " +
      `Expected a value >= 16, but got ${most} instead.`
    )
  const refused: readonly (readonly [isSet: boolean, field: string])[] = [
    [refuses.includes('temperature') && body.temperature !== undefined, 'temperature'],
    [refuses.includes('object') && fieldsIn(body.text).format !== undefined, 'text.format'],
    [refuses.includes('tools') && body.tools !== undefined, 'tools'],
    [body.messages !== undefined, 'messages'],
    [body.stream_options !== undefined && refuses.includes('stream_options'), 'stream_options'],
  ]
  const [, field] = refused.find(([isSet]) => isSet) ?? []
  return field && `Unsupported parameter: '${field}' is not supported with this model.`
}

function lengthFault({ tokens }: ProviderRequest, { rules }: Provider): ResponsesFault | undefined {
  if (tokens <= (rules.window ?? Infinity)) return undefined
  // The real server names no number here.
  return {
    message:
      'Your input exceeds the context window of this model. Please adjust your input and try again.',
    code: 'context_length_exceeded',
  }
}

function pairFault(items: readonly Item[]): string | undefined {
  const idsOf = (type: string) =>
    items.flatMap((item) => (item.type === type ? [textOf(item.call_id)] : []))
  const [calls, outputs] = [idsOf('function_call'), idsOf('function_call_output')]
  const open = calls.find((id) => !outputs.includes(id))
  if (open !== undefined) return `No tool output found for function call ${open}.`
  for (const [at, item] of items.entries()) {
    if (item.type !== 'function_call_output') continue
    const id = textOf(item.call_id)
    const isCalled = items
      .slice(0, at)
      .some(({ type, call_id }) => type === 'function_call' && call_id === id)
    if (!isCalled) return `No tool call found for function call output with call_id ${id}.`
  }
  return undefined
}

function nameFault(body: Item, items: readonly Item[]): string | undefined {
  const pattern = "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
  const wrong = (where: string) => `Invalid '${where}': string does not match pattern. ${pattern}`
  for (const [at, item] of items.entries()) {
    if (item.type !== 'function_call') continue
    if (!/^[\w-]{1,64}$/.test(textOf(item.name))) return wrong(`input[${at}].name`)
    if (typeof item.arguments !== 'string')
      return `Invalid type for 'input[${at}].arguments': expected a string, but got an object instead.`
    if (typeof parsed(item.arguments) !== 'object')
      return `Invalid 'input[${at}].arguments': function call arguments must be valid JSON.`
  }
  for (const [at, tool] of recordsOf(body.tools).entries())
    if (tool.type === 'function' && !/^[\w-]{1,64}$/.test(textOf(tool.name)))
      return wrong(`tools[${at}].name`)
  return undefined
}

/** Checks the reasoning items: whole, unchanged, each before what it led to. */
function reasoningFault(
  items: readonly Item[],
  isForgotten: boolean,
  { signer, memory }: Provider,
): ResponsesFault | undefined {
  const seen = new Map<string, number>()
  const asked = items.findLastIndex(({ role }) => role === 'user')
  let last: { answer: string; place: number } | undefined
  for (const [at, item] of items.entries()) {
    const id = textOf(item.id)
    if (item.type === 'reasoning') {
      if (!Array.isArray(item.summary))
        return { message: `Missing required parameter: 'input[${at}].summary'.` }
      if (seen.has(id))
        return {
          message: `Duplicate item found with id ${id}. Remove duplicate items from your input and try again.`,
        }
      if (typeof item.encrypted_content !== 'string') {
        if (isForgotten)
          return {
            message:
              `Item with id '${id}' not found. Items are not persisted when \`store\` is set to false. ` +
              'Try again with `store` set to true, or remove this item from your input.',
          }
      } else {
        const read = signer.read(item.encrypted_content, id)
        if (!read)
          return {
            message:
              `The encrypted content for item ${id} could not be verified. ` +
              'Reason: Encrypted content could not be decrypted or parsed.',
            code: 'invalid_encrypted_content',
          }
        const follows = items.slice(at + 1).find(({ type }) => type !== 'reasoning')
        const isModels = follows?.type === 'function_call' || follows?.role === 'assistant'
        const isBackwards = last?.answer === read.answer && last.place > read.place
        if (!isModels || isBackwards)
          return {
            message: `Item '${id}' of type 'reasoning' was provided without its required following item.`,
          }
        last = read
      }
      seen.set(id, at)
    }
    if (item.type !== 'function_call') continue
    const wanted = memory.get(textOf(item.call_id))?.wanted ?? []
    const lost = wanted.find((reasoning) => !seen.has(reasoning))
    if (lost !== undefined && (at > asked || id))
      return {
        message:
          `Item '${id || textOf(item.call_id)}' of type 'function_call' was provided without its required ` +
          `'reasoning' item: '${lost}'.`,
      }
  }
  return undefined
}

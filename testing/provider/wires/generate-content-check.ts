import type { ProviderRequest } from '../answers.ts'
import { mediaFault } from '../media.ts'
import { canonical, fieldsIn, isRecord, recordsOf, textOf } from '../read.ts'
import type { Provider } from '../wire.ts'

type Part = Readonly<Record<string, unknown>>

/** A content of the request with its parts. */
interface Content {
  readonly role: string
  readonly parts: readonly Part[]
}

/** What a client gives in place of a signature for a call that another model made. */
export const skipSigns: readonly string[] = [
  'skip_thought_signature_validator',
  'context_engineering_is_the_way_to_go',
]

/** What a lost signature of a call is called, on both wires that have such a signature. */
export const lostSignature = (name: string, position: number): string =>
  'Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, ' +
  'and missing thought_signature may lead to degraded model performance. ' +
  `Additional data, function call \`default_api:${name}\` , position ${position}. ` +
  'Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures for more details.'

/** What the signature of a call covers. */
export const callContent = (name: string, args: unknown): string => canonical([name, args])

/** Why `:streamGenerateContent` does not take a request, in its words; undefined where it does. */
export function generateContentFault(
  request: ProviderRequest,
  provider: Provider,
): string | undefined {
  const { body } = request
  const contents = recordsOf(body.contents).map(({ role, parts }): Content => {
    return { role: textOf(role) || 'user', parts: recordsOf(parts) }
  })
  return (
    settingsFault(request, provider) ??
    schemaFault(body) ??
    contentFault(contents, provider.rules.alternates === true) ??
    turnFault(contents) ??
    mediaFault(request.media) ??
    signatureFault(contents, provider)
  )
}

function settingsFault({ body, tokens }: ProviderRequest, { rules }: Provider): string | undefined {
  const { maxOutputTokens = Infinity, window = Infinity, refuses = [] } = rules
  const config = fieldsIn(body.generationConfig)
  if (Number(config.maxOutputTokens) > maxOutputTokens)
    return (
      `Unable to submit request because it has a maxOutputTokens value of ${Number(config.maxOutputTokens)} but the ` +
      `supported range is from 1 (inclusive) to ${maxOutputTokens + 1} (exclusive). Update the value and try again.`
    )
  if (tokens > window)
    return `The input token count (${tokens}) exceeds the maximum number of tokens allowed (${window}).`
  const unknown = (name: string, at: string) =>
    `Invalid JSON payload received. Unknown name "${name}" at '${at}': Cannot find field.`
  const hasSchema = config.responseJsonSchema !== undefined || config.responseSchema !== undefined
  if (hasSchema && refuses.includes('object'))
    return unknown('responseJsonSchema', 'generation_config')
  if (config.temperature !== undefined && refuses.includes('temperature'))
    return unknown('temperature', 'generation_config')
  if (body.tools !== undefined && refuses.includes('tools'))
    return 'Function calling is not enabled for this model'
  return undefined
}

/** The words of JSON Schema that the wire's own form of a schema does not have. */
const foreignWords = ['$schema', '$defs', '$ref', 'additionalProperties', 'const']

function schemaFault(body: Part): string | undefined {
  for (const [nth, tool] of recordsOf(body.tools).entries())
    for (const [place, declared] of recordsOf(tool.functionDeclarations).entries()) {
      const where = `tools[${nth}].function_declarations[${place}]`
      if (!/^[a-zA-Z_][\w.:-]{0,63}$/.test(textOf(declared.name)))
        return `Invalid function name at '${where}.name'. Must start with a letter or an underscore.`
      const word = foreignWordIn(declared.parameters)
      if (word)
        return (
          `Invalid JSON payload received. Unknown name "${word}" at '${where}.parameters': ` +
          'Cannot find field.'
        )
    }
  return undefined
}

/** The first foreign word of a schema. Names of properties are no words of it. */
function foreignWordIn(schema: unknown, depth = 0): string | undefined {
  if (!isRecord(schema) || depth > 12) return undefined
  const own = foreignWords.find((word) => Object.hasOwn(schema, word))
  if (own) return own
  const inner = [...Object.values(fieldsIn(schema.properties)), schema.items]
  return inner.map((each) => foreignWordIn(each, depth + 1)).find(Boolean)
}

function contentFault(contents: readonly Content[], alternates: boolean): string | undefined {
  if (contents.length === 0) return '* GenerateContentRequest.contents: contents is not specified'
  for (const [at, { role, parts }] of contents.entries()) {
    if (role !== 'user' && role !== 'model' && role !== 'function')
      return 'Please use a valid role: user, model.'
    if (parts.length === 0)
      return `* GenerateContentRequest.contents[${at}].parts: contents.parts must not be empty.`
    if (alternates && contents[at - 1]?.role === role)
      return 'Please ensure that multiturn requests alternate between user and model.'
    for (const [place, part] of parts.entries()) {
      const answer = part.functionResponse
      if (answer === undefined) continue
      const where = `contents[${at}].parts[${place}].function_response`
      if (!isRecord(fieldsIn(answer).response))
        return `Invalid value at '${where}.response' (type.googleapis.com/google.protobuf.Struct)`
      if (!textOf(fieldsIn(answer).name))
        return `* GenerateContentRequest.${where}.name: Name cannot be empty.`
    }
  }
  const [first] = contents
  if (first?.role === 'model')
    return first.parts.some(hasCall)
      ? 'Please ensure that function call turn comes immediately after a user turn or after a function response turn.'
      : 'Please ensure that multiturn requests begin with a user turn.'
  return undefined
}

const hasCall = (part: Part): boolean => part.functionCall !== undefined
const hasAnswer = (part: Part): boolean => part.functionResponse !== undefined
const namesOf = (parts: readonly Part[], field: string): string[] =>
  parts.flatMap((part) => (part[field] === undefined ? [] : [textOf(fieldsIn(part[field]).name)]))

function turnFault(contents: readonly Content[]): string | undefined {
  for (const [at, { role, parts }] of contents.entries()) {
    const before = contents[at - 1]
    if (parts.some(hasAnswer) && !(before?.role === 'model' && before.parts.some(hasCall)))
      return 'Please ensure that function response turn comes immediately after a function call turn.'
    if (role !== 'model' || !parts.some(hasCall)) continue
    const calls = namesOf(parts, 'functionCall')
    const answers = namesOf(contents[at + 1]?.parts ?? [], 'functionResponse')
    if (calls.length !== answers.length)
      return (
        'Please ensure that the number of function response parts is equal to ' +
        'the number of function call parts of the function call turn.'
      )
    const other = answers.find((name, nth) => name !== calls[nth] && !calls.includes(name))
    if (other !== undefined)
      return `Function response "${other}" answers none of the function calls before it: ${calls.join(', ')}.`
  }
  return undefined
}

/** Checks the turn under way: the first call of each of its steps has its signature, as it was given. */
function signatureFault(
  contents: readonly Content[],
  { signer, memory }: Provider,
): string | undefined {
  const asked = contents.findLastIndex(
    ({ role, parts }) => role === 'user' && !parts.some(hasAnswer),
  )
  for (const [at, { role, parts }] of contents.entries()) {
    if (role !== 'model') continue
    for (const part of parts) {
      const signature = part.thoughtSignature ?? part.thought_signature
      if (signature === undefined || skipSigns.includes(textOf(signature))) continue
      const { name, args = {} } = fieldsIn(part.functionCall)
      const content = hasCall(part) ? callContent(textOf(name), args) : ''
      if (!signer.read(textOf(signature), content)) return 'Corrupted thought signature.'
    }
    const first = parts.find(hasCall)
    if (at < asked || !first || first.thoughtSignature || first.thought_signature) continue
    const { id, name } = fieldsIn(first.functionCall)
    // A call that went out unsigned comes back so.
    if (memory.get(textOf(id))?.wanted.length === 0) continue
    return lostSignature(textOf(name), at + 1)
  }
  return undefined
}

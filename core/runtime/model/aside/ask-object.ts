import { randomUUID } from 'node:crypto'
import { z } from 'zod'
import { RuntimeError, type Fault } from '../../../errors.ts'
import { faultsOf, faultText } from '../../../manifest/faults.ts'
import type { Message, Schema } from '../../../plugin.ts'
import { parseJson } from '../../base/safe-json.ts'
import { askAside, type AsideAnswer, type AsideQuestion, type WantedObject } from './ask-aside.ts'

/** How often a model may mend what did not fit. */
const repairs = 1
/** How many faults a model is told, and how many characters of them. */
const mostFaults = 20
const mostFaultText = 4000

const wanted = {
  name: 'answer',
  description: 'Gives the answer. Only what it is called with is read.',
}

/** Asks a model for a value. The schema's own parse decides; what does not fit goes back with its faults, once. */
export async function askObject<S extends Schema>(
  schema: S,
  question: Omit<AsideQuestion, 'object' | 'tools'>,
): Promise<z.core.output<S>> {
  const form = new Form(schema)
  let { messages } = question
  let faults: readonly Fault[] = []
  for (let asked = 0; asked <= repairs; asked++) {
    const answer = await askAside({ ...question, messages, object: form.object })
    const read = form.read(answer)
    const parsed = read.faults ? undefined : await z.safeParseAsync(schema, read.value)
    if (parsed?.success) return parsed.data
    faults = (read.faults ?? (parsed?.error ? faultsOf(parsed.error) : [])).slice(0, mostFaults)
    messages = [...messages, ...toMend(answer, form.told(faults))]
  }
  const { id } = question.model
  throw new RuntimeError(
    'MODEL_ANSWER_INVALID',
    `"${id}" gave nothing that fits, though it was told why: ${faultText(faults).slice(0, 500)}`,
    {
      hint: 'Describe the fields in the schema, ask for less at once, or choose another model.',
      details: { faults },
    },
  )
}

/** The form in which a value travels: models give objects, so a value that is none stands in one. */
class Form {
  readonly object: WantedObject
  readonly #isWrapped: boolean

  constructor(schema: Schema) {
    const { $schema: _, ...json } = jsonSchemaOf(schema)
    this.#isWrapped = json.type !== 'object'
    this.object = { ...wanted, schema: this.#isWrapped ? wrapped(json) : json }
  }

  /** What the model gave: by a call, or in words. */
  read({ calls, text }: AsideAnswer): {
    readonly value?: unknown
    readonly faults?: readonly Fault[]
  } {
    const call = calls.find(({ name }) => name === wanted.name)
    const given = call ? parsed(call.args) : parsed(text)
    if (!given) return { faults: [{ path: '', message: 'The answer is no JSON.' }] }
    if (!this.#isWrapped) return given
    const { value } = given
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
    // Some models leave the wrapping out, and then the value itself has to fit.
    return { value: isObject && 'result' in value ? value.result : value }
  }

  /** What the model is told of the faults. */
  told(faults: readonly Fault[]): string {
    const said = faultText(faults).slice(0, mostFaultText)
    return `That does not fit: ${said}. Give the whole answer again, mended, in the same form.`
  }
}

/** A value of JSON; undefined for a text that is none. Models like to put their JSON between marks of code. */
function parsed(given: unknown): { readonly value: unknown } | undefined {
  if (typeof given !== 'string') return { value: given }
  const [, fenced] = /```(?:json)?\s*\n([\s\S]*?)\n\s*```/.exec(given) ?? []
  for (const text of [given, fenced])
    try {
      if (text?.trim()) return { value: parseJson(text) }
    } catch {
      // The next text, or none, is the JSON.
    }
  return undefined
}

/** The answer that did not fit and what was wrong with it, as lines of the conversation: each call has its result. */
function toMend({ message, calls, text }: AsideAnswer, told: string): Message[] {
  const results = calls.map(({ id, name }): Message => ({
    ...{ role: 'tool', id: randomUUID(), toolCallId: id, name },
    content: told,
    failed: true,
  }))
  if (results.length > 0) return [message, ...results]
  const line: Message = { role: 'user', id: randomUUID(), content: told }
  // Providers refuse an answer without a word.
  return text.trim() ? [message, line] : [line]
}

function jsonSchemaOf(schema: Schema): Record<string, unknown> {
  try {
    return z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' })
  } catch (cause) {
    throw new RuntimeError('INPUT_INVALID', 'The schema of an answer has no form in JSON.', {
      hint: 'Write it with what JSON has: objects, lists, texts, numbers, true and false, null.',
      cause,
    })
  }
}

/** Definitions stay at the root, where references look for them. */
function wrapped({ $defs, ...json }: Record<string, unknown>): Record<string, unknown> {
  return {
    type: 'object',
    properties: { result: json },
    required: ['result'],
    additionalProperties: false,
    ...($defs !== undefined && { $defs }),
  }
}

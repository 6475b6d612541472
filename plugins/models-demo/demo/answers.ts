import { asNumber, isNumeric, matchesText } from './read/fitting.ts'
import { fillArguments, type Filled, type Sentence } from './read/arguments.ts'
import { findings, type Finding } from './read/findings.ts'
import { explicitValue, splitList } from './read/phrases.ts'
import type { Field, JsonSchema } from './read/schema.ts'

/** Adds the values of the user's answer to the arguments, for the fields that the model asked about. */
export function withAnswer(schema: JsonSchema, filled: Filled, answer: Sentence): Filled {
  const found = findings(answer.text, answer.now)
  const read = fillArguments(schema, answer, found)
  const args = { ...filled.args }
  const several = filled.missing.length > 1
  for (const { name, type } of filled.missing) {
    // When several fields are missing, a free text counts only for a field that the answer names.
    const isGuess =
      several && type === 'string' && !found.some(({ value }) => value === read.args[name])
    if (
      Object.hasOwn(read.args, name) &&
      !(isGuess && explicitValue(name, answer.text) === undefined)
    )
      args[name] = read.args[name]
  }
  const open = filled.missing.filter(({ name }) => !Object.hasOwn(args, name))
  const isOneOfMany = open.length > 1 || open.length < filled.missing.length
  const parts = (isOneOfMany ? partsOf(answer.text, found) : [plain(answer.text)]).map(
    (text): Part => ({ text, value: findings(text, answer.now)[0] }),
  )
  for (const field of [...open]) {
    const at = parts.findIndex((part) => valueFrom(field, part) !== undefined)
    const part = parts[at]
    if (!part) continue
    args[field.name] = valueFrom(field, part)
    parts.splice(at, 1)
    open.splice(open.indexOf(field), 1)
  }
  return { args, missing: open }
}

/** A piece of an answer, and the first value in the piece that `findings` knows by its form. */
interface Part {
  readonly text: string
  readonly value: Finding | undefined
}

/** How many pieces of an answer to several questions the model reads. */
const mostParts = 16

/** The pieces of an answer to several questions, without the pieces whose values an argument already has. */
function partsOf(answer: string, found: readonly Finding[]): string[] {
  const taken = found.filter(({ used }) => used).map(({ start, end }) => answer.slice(start, end))
  return plain(answer)
    .split(/\s*[,;]\s*|\s+and\s+/)
    .filter((part) => part && !/=/.test(part) && !taken.some((text) => part.includes(text)))
    .slice(0, mostParts)
}

function plain(answer: string): string {
  return answer
    .trim()
    .replace(/^(?:it'?s|it is|the|use|take|make it|please|in|for)\s+/i, '')
    .replace(/[,\s]*\b(?:please|thanks|thank you)\b[.!]*$/i, '')
    .replace(/[.!?]+$/, '')
}

/** The value that a bare answer such as "Lusaka", "5" or "yes" has for a field; undefined when it does not fit the field. */
function valueFrom(field: Field, { text: answer, value }: Part): unknown {
  if (answer === '') return undefined
  if (isNumeric(field)) return value?.kind === 'number' ? asNumber(field, value) : undefined
  if (field.type === 'boolean') return /^(y|yes|true|on|sure|ok)/i.test(answer)
  if (field.type === 'array') return splitList(answer)
  if (field.type !== 'string') return undefined
  const text = value?.kind === 'quoted' ? String(value.value) : answer
  return matchesText(field.schema, text) ? text : undefined
}

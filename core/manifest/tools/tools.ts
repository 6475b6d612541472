import { z } from 'zod'
import { RuntimeError } from '../../errors.ts'
import type { AnyDefinition, AnyTool } from '../../plugin.ts'
import { meant } from '../did-you-mean.ts'
import { unknownFields } from './known-fields.ts'

const toolName = /^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$/

/** Faults of a plugin's tools. */
export function checkTools(
  definition: AnyDefinition,
  tools: Readonly<Record<string, AnyTool>>,
): RuntimeError[] {
  const faults: RuntimeError[] = []
  const { name } = definition
  for (const [key, tool] of Object.entries(tools)) {
    const fault = (message: string, hint?: string) =>
      faults.push(
        new RuntimeError('TOOL_INVALID', `Plugin ${name}: the tool "${key}" ${message}`, { hint }),
      )
    if (!toolName.test(key))
      fault(
        'has a name that models cannot call.',
        'Use at most 64 letters, digits and underscores.',
      )
    if (!tool?.description?.trim())
      fault('has no description.', 'Say in a sentence what it does and when to call it.')
    if (typeof tool?.run !== 'function') fault('has no run function.')
    for (const [message, hint] of unknownFields('tool', tool ?? {})) fault(`${message}.`, hint)
    for (const [message, hint] of optionFaults(tool ?? {})) fault(message, hint)
    if (!isSchema(tool?.input))
      fault(
        tool?.input === undefined ? 'has no input schema.' : 'has an input that is no schema.',
        'Write input: z.object({ city: z.string() }), or z.object({}) when it takes nothing.',
      )
    else if (argumentsType(tool.input) !== 'object')
      fault(
        'takes something other than an object.',
        'Models call tools with an object: wrap it in z.object({ … }).',
      )
    else for (const [message, hint] of beyondJson(tool.input)) fault(message, hint)
    if (tool?.output !== undefined && !isSchema(tool.output))
      fault('has an "output" that is no schema.', 'Write z.object({ … }), or leave it out.')
  }
  return faults
}

/** How long a call may take at most, in milliseconds: an hour. */
export const longestToolMs = 3_600_000
const mostRetries = 10
const mostResultBytes = 256 * 1024
/** Names with dots between; `*` is every entry of a list. */
const redactPath = /^[^.\s]{1,100}(\.[^.\s]{1,100}){0,9}$/
const mostCalls = 1_000_000_000
const monthMs = 31 * 86_400_000

/** What is wrong with the options of a tool: a sentence and a hint for each. Types cannot stop a plugin in plain JavaScript. */
export function* optionFaults(tool: Partial<AnyTool>): Generator<readonly [string, string?]> {
  const { effect, can, approve, foreign, timeoutMs, retry, repeatable, limit, maxResultBytes } =
    tool
  if (effect !== undefined && effect !== 'read' && effect !== 'write')
    yield [
      `has an "effect" of ${shown(effect)}.`,
      meant(String(effect), ['read', 'write']) || 'It is read or write; left out, it is write.',
    ]
  if (can !== undefined && typeof (can as Partial<typeof can> | null)?.can !== 'string')
    yield [
      `has a "can" of ${shown(can)}.`,
      `It is an object: can: { can: ${typeof can === 'string' ? shown(can) : '"notes/write"'} }.`,
    ]
  if (!['undefined', 'boolean', 'function'].includes(typeof approve))
    yield [
      `has an "approve" of ${shown(approve)}.`,
      'It is true, false or a function that says whether a person is asked.',
    ]
  if (!['undefined', 'boolean'].includes(typeof foreign))
    yield [
      `has a "foreign" of ${shown(foreign)}.`,
      'It is true or false: whether the result holds other people’s words.',
    ]
  if (timeoutMs !== undefined && !isWhole(timeoutMs, 1, longestToolMs))
    yield [
      `has a "timeoutMs" of ${shown(timeoutMs)}.`,
      'It is a whole number of milliseconds from 1 to 3,600,000, which is an hour.',
    ]
  if (retry !== undefined && effect !== 'read')
    yield [
      'has a "retry", but it writes.',
      'Only a read is tried again. For a write whose service knows keys, say repeatable: true and pass ctx.callKey on.',
    ]
  else if (retry !== undefined && !isWhole(retry, 0, mostRetries))
    yield [`has a "retry" of ${shown(retry)}.`, `It is a whole number from 0 to ${mostRetries}.`]
  if (repeatable !== undefined && typeof repeatable !== 'boolean')
    yield [`has a "repeatable" of ${shown(repeatable)}.`, 'It is true or false.']
  else if (repeatable && effect === 'read')
    yield ['is "repeatable", but it reads.', 'A read may always run again: leave the word out.']
  if (
    limit !== undefined &&
    !(isWhole(limit?.max, 1, mostCalls) && isWhole(limit.perMs, 1, monthMs))
  )
    yield [
      `has a "limit" of ${shown(limit)}.`,
      'It is { max, perMs }: so many calls of one user (from 1) in so many milliseconds (at most 31 days).',
    ]
  const { redact, input } = tool
  const isPath = (path: unknown) => typeof path === 'string' && redactPath.test(path)
  if (
    redact !== undefined &&
    !(Array.isArray(redact) && redact.length <= 50 && redact.every(isPath))
  )
    yield [
      `has a "redact" of ${shown(redact)}.`,
      'It is a list of paths to arguments, such as ["pin", "card.number", "lines.*.secret"].',
    ]
  else if (redact && isSchema(input))
    for (const path of redact) {
      const near = strayName(input, path.split('.'))
      if (near !== undefined)
        yield [`has a "redact" of "${path}", and no argument is called that.`, near]
    }
  if (maxResultBytes !== undefined && !isWhole(maxResultBytes, 1024, mostResultBytes))
    yield [
      `has a "maxResultBytes" of ${shown(maxResultBytes)}.`,
      'It is a whole number of bytes from 1,024 to 262,144, which is 256 KiB.',
    ]
}

/** A value as a sentence about it shows it. */
export function shown(value: unknown): string {
  if (typeof value === 'function') return 'a function'
  try {
    return (JSON.stringify(value) ?? String(value)).slice(0, 100)
  } catch {
    return typeof value === 'bigint' ? `${value}n` : 'no JSON' // a circle, or an object that holds a bigint
  }
}

/** Whether a value is a whole number between two others. */
export const isWhole = (value: unknown, least: number, most: number): value is number =>
  Number.isInteger(value) && Number(value) >= least && Number(value) <= most

/** Whether a value is a zod schema. */
export function isSchema(value: unknown): value is z.core.$ZodType {
  return typeof value === 'object' && value !== null && '_zod' in value
}

/** What to write for arguments that no JSON can be, by the type of their schema. */
const fromJson: Readonly<Record<string, string>> = {
  date: 'Write z.coerce.date(), or take a text: z.iso.datetime().',
  bigint: 'Write z.coerce.bigint(), or take a number.',
  map: 'Take an object: z.record(…).',
  set: 'Take a list: z.array(…).',
}

/** The arguments of a plain object of which no call of a model can bring a value, as a sentence and a hint for each. */
function* beyondJson({ _zod: { def } }: z.core.$ZodType): Generator<readonly [string, string]> {
  if (!('shape' in def) || typeof def.shape !== 'object') return
  for (const [key, schema] of Object.entries(def.shape ?? {})) {
    if (!isSchema(schema)) continue
    const inner = innermost(schema)._zod.def
    const hint = fromJson[inner.type]
    if (hint === undefined || ('coerce' in inner && inner.coerce)) continue
    yield [
      `takes a ${inner.type} as "${key}", and the arguments of models are JSON, which has none.`,
      hint,
    ]
  }
}

/** A hint where a path to an argument goes astray in an object that says which members it has; undefined where it may lead somewhere. */
function strayName(
  schema: z.core.$ZodType,
  [name, ...rest]: readonly string[],
): string | undefined {
  const { def } = innermost(schema)._zod
  if (name === undefined) return undefined
  if (def.type === 'array' && 'element' in def && isSchema(def.element))
    return strayName(def.element, rest)
  if (!('shape' in def) || ('catchall' in def && def.catchall)) return undefined
  const members = new Map<string, unknown>(Object.entries(def.shape ?? {}))
  const next = members.get(name)
  if (isSchema(next)) return strayName(next, rest)
  const names = [...members.keys()]
  return meant(name, names) || `There are ${names.join(', ')}.`
}

/** The schema within those that let a value be missing. */
function innermost(schema: z.core.$ZodType): z.core.$ZodType {
  const { def } = schema._zod
  const isAround = def.type === 'optional' || def.type === 'nullable' || def.type === 'default'
  return isAround && 'innerType' in def && isSchema(def.innerType)
    ? innermost(def.innerType)
    : schema
}

/** The `type` of a schema's JSON form; undefined where it has none. */
export function argumentsType(schema: z.core.$ZodType): unknown {
  // Nearly every tool takes a plain object, and writing its JSON Schema costs a millisecond or two of every boot.
  if (schema._zod.def.type === 'object') return 'object'
  try {
    const json = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' })
    return json.type ?? (json.anyOf || json.oneOf || json.allOf ? 'object' : undefined)
  } catch {
    return undefined // A schema without a JSON form cannot be shown to a model; the caller reports it.
  }
}

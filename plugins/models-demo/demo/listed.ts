import type { ToolSpec } from '#core/models'
import { fillArguments } from './read/arguments.ts'
import { findings } from './read/findings.ts'
import { matches } from './read/match.ts'
import type { Now } from './read/moments.ts'
import { fieldsOf, type Field, type JsonSchema } from './read/schema.ts'
import { likely, type Task } from './tasks.ts'
import type { KnownTurn } from './turn.ts'
import { deed } from './read/words.ts'

/** How many entries of a list the model reads. */
const mostEntries = 100
/** How many calls of one turn a list may lead to. */
const mostSteps = 2

type Entry = Readonly<Record<string, unknown>>

/**
 * The call that a list of this turn leads to: of a tool with a field that the entries of the list have, filled with the entry
 * that fits the message best. Undefined where there is no list, or nothing in it fits.
 */
export function fromListed(
  turn: KnownTurn,
  done: KnownTurn['results'],
  tools: readonly ToolSpec[],
  now: Now,
): Task | undefined {
  const last = done.at(-1)
  if (!last || last.failed || done.length > mostSteps) return undefined
  const entries = entriesOf(last.content)
  const made = turn.calls.get(last.toolCallId)
  if (entries.length === 0 || !made) return undefined
  // A change is nothing that a list alone decides.
  // One entry is what was looked for: asking for it once more finds nothing new.
  const same = tools.filter(({ name }) => name === made.name && entries.length > 1)
  const others = tools.filter((tool) => tool.name !== made.name && likely(turn.said, [tool]))
  const called = new Set(
    done.map(({ name, toolCallId }) => keyOf(name, turn.calls.get(toolCallId)?.args)),
  )
  for (const tool of [...same, ...others]) {
    if (['create', 'change', 'remove', 'send'].includes(deed(tool.name) ?? '')) continue
    const task = taskOf(tool, tool.name === made.name ? made.args : {}, entries, turn.said, now)
    if (task && !called.has(keyOf(tool.name, task.args))) return task
  }
  return undefined
}

const keyOf = (name: string, args: unknown) => JSON.stringify([name, args])

function taskOf(
  tool: ToolSpec,
  given: Entry,
  entries: readonly Entry[],
  said: string,
  now: Now,
): Task | undefined {
  const fields = fieldsOf(tool.parameters)
  const field = fields.find(
    ({ name, type }) =>
      type === 'string' &&
      given[name] === undefined &&
      entries.every((entry) => typeof entry[name] === 'string'),
  )
  if (!field) return undefined
  const rest = fields.filter(({ type, name }) => type === 'object' && name !== field.name)
  const options = entries.map((entry) => {
    const filled = filledFrom(entry, rest, said, now)
    const strong = String(entry[field.name])
    return { name: strong, strong, weak: JSON.stringify(entry), entry, filled }
  })
  const scored = matches(said, options).map((match) => ({
    ...match.of,
    // An entry that has a place for what the message names is the one that is meant.
    score: match.score + 3 * match.of.filled.count,
  }))
  // A value that has a place in one entry alone tells, too, where no word does.
  const best = scored.sort((a, b) => b.score - a.score)[0]
  if (!best) return undefined
  return { tool, args: { ...given, [field.name]: best.name, ...best.filled.args }, missing: [] }
}

/** The objects of a call that an entry describes, field by field, filled from the message. */
function filledFrom(entry: Entry, fields: readonly Field[], said: string, now: Now) {
  const args: Record<string, unknown> = {}
  let count = 0
  for (const { name } of fields) {
    const described = entry[name]
    if (typeof described !== 'object' || described === null) continue
    const properties = Object.fromEntries(
      Object.entries(described)
        .filter((pair): pair is [string, string] => typeof pair[1] === 'string')
        .map(([key, type]) => [key, schemaOf(type)]),
    )
    // A single field is what the message is about, so it takes the only value there is.
    const required = Object.keys(properties).length === 1 ? Object.keys(properties) : []
    const found = findings(said, now)
    const filled = fillArguments({ properties, required }, { text: said, tool: '', now }, found)
    args[name] = filled.args
    count += found.filter(({ used }) => used).length
  }
  return { args, count }
}

/** What a list says of a field, as a schema: a type by its name, or values with bars between. */
function schemaOf(type: string): JsonSchema {
  if (type.includes('|')) return { enum: type.split('|') }
  if (['integer', 'number', 'boolean'].includes(type)) return { type }
  return { type: type === 'string' ? 'string' : 'object' }
}

/** The entries of a list: objects, at the top or in the only list of the answer. */
function entriesOf(content: string): Entry[] {
  let value: unknown
  try {
    value = JSON.parse(content)
  } catch {
    return []
  }
  const lists = Array.isArray(value)
    ? [value]
    : Object.values(typeof value === 'object' && value ? value : {}).filter(Array.isArray)
  const list: readonly unknown[] = (lists.length === 1 && lists[0]) || []
  const entries = list.slice(0, mostEntries)
  return entries.every(isEntry) ? entries : []
}

const isEntry = (value: unknown): value is Entry => typeof value === 'object' && value !== null

import type { ToolSpec } from '#core/models'
import { fillArguments } from './read/arguments.ts'
import { findings } from './read/findings.ts'
import type { Now } from './read/moments.ts'
import { fieldsOf } from './read/schema.ts'
import { surely, type Task } from './tasks.ts'
import type { KnownTurn } from './turn.ts'

/** How a message begins that asks for the last thing once more, with something else in it. */
const beginning = /^\s*(?:and|or|now|what about|how about|same|the same|again)\b[\s,]*/i
/** How many words such a message has at most; a longer one asks for something of its own. */
const mostWords = 8

/** The last call with the one thing changed that the message says: "and in Paris?". Undefined where it says none. */
export function onceMore(
  { said, last }: KnownTurn,
  tools: readonly ToolSpec[],
  now: Now,
): Task | undefined {
  const tool = last && tools.find(({ name }) => name === last.name)
  if (!tool || !beginning.test(said) || said.trim().split(/\s+/).length > mostWords)
    return undefined
  const text = said.replace(beginning, '').replace(/[\s?!.]+$/, '')
  const another = surely(text, tools)
  if (another && another.name !== tool.name) return undefined
  const { args } = fillArguments(tool.parameters, { text, tool: tool.name, now })
  const known = new Set(fieldsOf(tool.parameters).map(({ name }) => name))
  const changed = Object.entries(args).filter(
    ([name, value]) => known.has(name) && JSON.stringify(value) !== JSON.stringify(last.args[name]),
  )
  if (changed.length > 0)
    return { tool, args: { ...last.args, ...Object.fromEntries(changed) }, missing: [] }
  const other = withOther(last.args, text, now)
  return other && { tool, args: other, missing: [] }
}

/** Arguments in which the only value of a form, such as an address, is the one of this form that a text has. */
function withOther(
  args: Record<string, unknown>,
  text: string,
  now: Now,
): Record<string, unknown> | undefined {
  const [found, more] = findings(text, now)
  if (!found || more || typeof found.value !== 'string') return undefined
  let count = 0
  const json = JSON.stringify(args, (_, value: unknown) => {
    if (typeof value !== 'string' || value === found.value) return value
    const [own] = findings(value, now)
    if (own?.kind !== found.kind || own.end - own.start !== value.length) return value
    count++
    return found.value
  })
  return count === 1 ? (JSON.parse(json) as Record<string, unknown>) : undefined
}

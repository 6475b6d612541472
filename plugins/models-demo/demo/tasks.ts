import type { Now } from './read/moments.ts'
import { giveWay } from '#core'
import type { ToolSpec } from '#core/models'
import { withAnswer } from './answers.ts'
import { fillArguments, sortOf } from './read/arguments.ts'
import { clausesOf } from './read/clauses.ts'
import { matches, type Described, type Match } from './read/match.ts'
import { manners } from './read/manners.ts'
import { namesIn, type Name } from './read/phrases.ts'
import { fieldsOf, type Field, type JsonSchema } from './read/schema.ts'
import type { KnownTurn } from './turn.ts'
import { beginsARequest, deed, meaning } from './read/words.ts'

/** One thing that the user asked for, and the tool that does it. */
export interface Task {
  readonly tool: ToolSpec
  /** The arguments that the message gives. */
  readonly args: Record<string, unknown>
  /** The fields that the tool needs and the message does not give. */
  readonly missing: readonly Field[]
}

/** Chooses a tool for a clause, or none. */
type Choose = (clause: string, tools: readonly ToolSpec[]) => ToolSpec | undefined

/** The tasks that a message asks for, clause by clause, and the clauses for which `choose` found no tool. */
export async function tasksFor(
  turn: KnownTurn,
  tools: readonly ToolSpec[],
  now: Now,
  choose: Choose,
): Promise<{ readonly tasks: readonly Task[]; readonly open: readonly string[] }> {
  const waiting = turn.asked && tools.find(({ name }) => name === turn.asked?.tool)
  if (turn.asked && waiting) {
    const heard = (text: string) => ({ text, tool: waiting.name, now })
    const filled = [...turn.asked.answers, turn.said].reduce(
      (so, answer) => withAnswer(waiting.parameters, so, heard(answer)),
      fillArguments(waiting.parameters, heard(turn.asked.before)),
    )
    return { tasks: [{ tool: waiting, ...filled }], open: [] }
  }
  const text = turn.asked
    ? [turn.asked.before, ...turn.asked.answers, turn.said].join('. ')
    : turn.said
  const read = (tool: ToolSpec, clause: string) =>
    fillArguments(tool.parameters, { text: clause, tool: tool.name, now })
  const tasks: Task[] = []
  const open: string[] = []
  let last: { tool: ToolSpec; text: string; at: number } | undefined
  for (const clause of clausesOf(text)) {
    await giveWay()
    const tool = choose(clause, tools)
    if (tool && (tool !== last?.tool || named(clause, tool))) {
      last = { tool, text: clause, at: tasks.length }
      tasks.push({ tool, ...read(tool, clause) })
      continue
    }
    if (!last) {
      open.push(clause)
      continue
    }
    // "… and Nairobi" asks for the same once more; "… and 5 % dropout" adds an argument to the task before.
    const once = tasks[last.at]!
    const own = read(last.tool, clause)
    const whole = read(last.tool, `${last.text} and ${clause}`)
    const repeats =
      Object.keys(own.args).length > 0 &&
      Object.keys(own.args).every((key) => isText(once.args[key]))
    if (repeats && once.missing.length === 0)
      tasks.push({ tool: last.tool, args: { ...once.args, ...own.args }, missing: [] })
    else if (beginsARequest(clause) && meaning(clause).length > 1 && !tool) open.push(clause)
    else {
      tasks[last.at] = { tool: last.tool, ...whole }
      last.text += ` and ${clause}`
    }
  }
  return { tasks, open: tasks.length === 0 && open.length > 1 ? merged(open) : open }
}

/** Joins clauses that found no tool, because together they may name one. A clause that begins a request stays apart. */
function merged(clauses: readonly string[]): string[] {
  return clauses.reduce<string[]>((all, clause) => {
    if (all.length === 0 || beginsARequest(clause)) all.push(clause)
    else all[all.length - 1] += ` and ${clause}`
    return all
  }, [])
}

function isText(value: unknown): boolean {
  return typeof value === 'string'
}

/** A tool that the words of a clause name, or describe with three words or more. */
export function surely(clause: string, tools: readonly ToolSpec[]): ToolSpec | undefined {
  return best(clause, tools, ({ of, named, described }) => {
    const length = new Set(meaning(of.name)).size
    const changes = ['create', 'change', 'remove', 'send'].includes(deed(of.name) ?? '')
    if (changes && deed(of.name) !== deed(clause) && named < 2) return false
    return named >= 2 || (named === 1 && length <= 2) || described >= 3
  })
}

/** A tool that shares any word with a clause. */
export function likely(clause: string, tools: readonly ToolSpec[]): ToolSpec | undefined {
  return best(clause, tools, () => true)
}

/** What of a person's wishes a tool may keep, for "call me Ana", "answer in French" and "speak more formally". */
const kept = new Set<Name['sort']>(['user', 'agent', 'language', ...manners])

/** A tool that keeps how somebody wants to be talked to. */
export function forNames(text: string, tools: readonly ToolSpec[]): ToolSpec | undefined {
  const sorts = new Set(namesIn(text, '').map(({ sort }) => sort))
  return tools.find(({ parameters }) =>
    fieldsOf(parameters).some((field) => {
      const sort = sortOf(field)
      return kept.has(sort) && sorts.has(sort)
    }),
  )
}

function named(clause: string, tool: ToolSpec): boolean {
  return matches(clause, [describe(tool)]).some((match) => match.named > 0)
}

type DescribedTool = Described & { readonly tool: ToolSpec }
const known = new WeakMap<ToolSpec, DescribedTool>()

function describe(tool: ToolSpec): DescribedTool {
  let described = known.get(tool)
  if (!described) {
    const fields = fieldsOf(tool.parameters as JsonSchema)
    const about = fields.map(({ name, schema }) => `${name} ${(schema.enum ?? []).join(' ')}`)
    const weak = `${tool.description} ${about.join(' ')}`
    known.set(tool, (described = { name: tool.name, strong: tool.name, weak, tool }))
  }
  return described
}

function best(
  clause: string,
  tools: readonly ToolSpec[],
  isEnough: (match: Match<DescribedTool>) => boolean,
): ToolSpec | undefined {
  return matches(clause, tools.map(describe)).find(isEnough)?.of.tool
}

/** The tasks with arguments from the clauses that found no tool: "be brief" in "Call me Ana and be brief". */
export function absorbed(
  { tasks, open }: { tasks: readonly Task[]; open: readonly string[] },
  now: Now,
): Task[] {
  return tasks.map(({ tool, args, missing }) => {
    const more = fillArguments(tool.parameters, { text: open.join(' and '), tool: tool.name, now })
    const still = missing.filter(({ name }) => !(name in more.args))
    return { tool, args: { ...more.args, ...args }, missing: still }
  })
}

import type { Message, ToolSpec } from '../../../plugin.ts'
import { withAnswer } from './answers.ts'
import { fillArguments, sortOf } from './arguments.ts'
import { clausesOf } from './clauses.ts'
import { matches, type Match } from './match.ts'
import { namesIn } from './phrases.ts'
import { askedFor, askFor, tellFault, tellResult } from './render.ts'
import { fieldsOf, type Field, type Schema } from './schema.ts'
import {
  asksForLength,
  asksWhatThereIs,
  givesUp,
  introduction,
  longAnswer,
  smallTalk,
} from './speech.ts'
import { beginsARequest, deed, meaning } from './words.ts'

/** What the model does next: call tools, or say something. */
export type Act =
  { readonly calls: readonly Call[]; readonly thought?: string } | { readonly say: string }

interface Call {
  readonly name: string
  readonly args: Record<string, unknown>
}

/** One thing that was asked for, and the tool that does it. */
interface Task {
  readonly tool: ToolSpec
  readonly args: Record<string, unknown>
  readonly missing: readonly Field[]
}

interface Turn {
  readonly said: string
  /** Set when this message answers our question: what was asked for before it. */
  readonly asked?: {
    readonly tool: string
    readonly before: string
    readonly answers: readonly string[]
  }
  readonly calls: ReadonlyMap<string, Call>
  readonly results: readonly Extract<Message, { role: 'tool' }>[]
  /** Nothing was said in this session yet. */
  readonly first: boolean
}

interface Capability {
  readonly name: string
  readonly summary?: string
  readonly visibility?: string
  readonly loaded?: boolean
  readonly tags?: readonly string[]
  readonly whenToUse?: readonly string[]
  readonly examples?: readonly string[]
  readonly category?: string
}

/** Characters of a message that are read: what is looked for stands at its beginning. */
const longest = 8000

const list = 'list_capabilities'
const load = 'load_capability'

/** Decides from the conversation alone: the same conversation and tools always lead to the same act. */
export function decide(messages: readonly Message[], tools: readonly ToolSpec[], now: Date): Act {
  const own = tools.filter(({ name }) => name !== list && name !== load)
  const turn = readTurn(messages, own)
  const speak = (text: string): Act => ({ say: turn.first ? `${introduction}\n\n${text}` : text })
  const has = (name: string) => tools.some((tool) => tool.name === name)
  const listed = turn.results.find(({ name }) => name === list)
  const loaded = turn.results.find(({ name }) => name === load)
  const done = turn.results.filter(({ name }) => name !== list && name !== load)

  if (done.length > 0) return speak(conclusion(turn, done, own, now))
  if (loaded) {
    if (loaded.failed) return speak(tellFault(load, loaded.content))
    return afterLoading(turn, loaded.content, own, now, speak)
  }
  if (listed) {
    if (listed.failed) return speak(tellFault(list, listed.content))
    return afterListing(turn, listed.content, own, now, speak)
  }

  if (!turn.asked) {
    const answer = smallTalk(turn.said)
    if (answer) return speak(answer)
    if (asksForLength(turn.said)) return { say: longAnswer }
    if (asksWhatThereIs(turn.said) && has(list)) return { calls: [{ name: list, args: {} }] }
  }
  const { tasks, open } = tasksFor(turn, own, now, surely)
  if (open.length === 0 && tasks.length > 0) return act(tasks, speak)
  const thought = `I look for what has to do with ${meaning(turn.said).join(', ') || 'this'}.`
  if (has(list)) return { calls: [{ name: list, args: {} }], thought }
  return tasks.length > 0 ? act(tasks, speak) : speak(nothingFits([]))
}

function afterListing(
  turn: Turn,
  content: string,
  own: readonly ToolSpec[],
  now: Date,
  speak: (text: string) => Act,
): Act {
  const capabilities = (parsed(content)?.plugins ?? []) as Capability[]
  if (asksWhatThereIs(turn.said)) return speak(whatThereIs(capabilities))
  const { tasks, open } = tasksFor(turn, own, now, surely)
  const described = capabilities.map((plugin) => ({
    ...plugin,
    strong: [plugin.name, ...(plugin.tags ?? [])].join(' '),
    weak: [
      plugin.summary,
      plugin.category,
      ...(plugin.whenToUse ?? []),
      ...(plugin.examples ?? []),
    ].join(' '),
  }))
  const chosen = open.map((clause) => matches(clause, described)[0]?.of)
  const names = new Set(chosen.filter((one) => one && !isLoaded(one)).map((one) => one!.name))
  if (names.size > 0) return { calls: [{ name: load, args: { names: [...names] } }] }
  if (tasks.length === 0) {
    // What fits is perhaps there already, only less plainly than we ask for at first sight.
    const again = tasksFor(turn, own, now, (clause, tools) => {
      const tool = likely(clause, tools) ?? forNames(turn.said, tools)
      if (!tool || fieldsOf(tool.parameters).length === 0) return tool
      const { args } = fillArguments(tool.parameters, { text: turn.said, tool: tool.name, now })
      return Object.keys(args).length > 0 ? tool : undefined
    })
    if (again.tasks.length > 0) return act(absorbed(again, now), speak)
  }
  if (tasks.length > 0) return act(tasks, speak)
  return speak(nothingFits(capabilities))
}

function afterLoading(
  turn: Turn,
  content: string,
  own: readonly ToolSpec[],
  now: Date,
  speak: (text: string) => Act,
): Act {
  const { loaded = [], unknown = [] } = (parsed(content) ?? {}) as {
    loaded?: readonly {
      name: string
      summary?: string
      tools?: readonly { name: string; description?: string }[]
    }[]
    unknown?: readonly { name: string; didYouMean?: string }[]
  }
  const names = new Set(loaded.flatMap(({ tools = [] }) => tools.map(({ name }) => name)))
  const fresh = own.filter(({ name }) => names.has(name))
  const { tasks } = tasksFor(
    turn,
    [...fresh, ...own.filter((tool) => !names.has(tool.name))],
    now,
    (clause, tools) => {
      const sure = surely(clause, tools)
      if (sure) return sure
      const [only, another] = fresh.filter((tool) => deed(tool.name) === deed(clause))
      const byDeed = another ? undefined : only
      return likely(clause, fresh) ?? byDeed ?? (fresh.length === 1 ? fresh[0] : undefined)
    },
  )
  if (tasks.length > 0) return act(tasks, speak)
  const told = loaded.map(({ name, tools = [] }) => {
    const offers = tools.map(
      (tool) => `${tool.name} (${(tool.description ?? '').replace(/\.$/, '')})`,
    )
    return `I loaded ${name}. It offers ${offers.join('; ') || 'no tools'}.`
  })
  const missed = unknown.map(
    ({ name, didYouMean }) =>
      `There is no "${name}"${didYouMean ? `; did you mean ${didYouMean}` : ''}.`,
  )
  return speak([...told, ...missed].join(' ') || 'Nothing was loaded.')
}

/** What came of the calls, and the question for what could not be called yet. */
function conclusion(
  turn: Turn,
  done: Turn['results'],
  own: readonly ToolSpec[],
  now: Date,
): string {
  const told = done.map(({ name, toolCallId, content, failed }) =>
    failed ? tellFault(name, content) : tellResult(name, turn.calls.get(toolCallId)?.args, content),
  )
  const { tasks } = tasksFor(turn, own, now, surely)
  const open = tasks.filter(
    ({ tool, missing }) => missing.length > 0 && !done.some(({ name }) => name === tool.name),
  )
  return [...told, ...open.map(({ tool, missing }) => askFor(tool.name, missing))].join(' ')
}

/** Clauses that found no tool may hold more for the one that was found: "Call me Ana and be brief". */
function absorbed(
  { tasks, open }: { tasks: readonly Task[]; open: readonly string[] },
  now: Date,
): Task[] {
  return tasks.map(({ tool, args, missing }) => {
    const more = fillArguments(tool.parameters, { text: open.join(' and '), tool: tool.name, now })
    const still = missing.filter(({ name }) => !(name in more.args))
    return { tool, args: { ...more.args, ...args }, missing: still }
  })
}

/** Calls everything that is complete; asks only when nothing is. */
function act(tasks: readonly Task[], speak: (text: string) => Act): Act {
  const ready = tasks.filter(({ missing }) => missing.length === 0)
  if (ready.length > 0) return { calls: ready.map(({ tool, args }) => ({ name: tool.name, args })) }
  return speak(tasks.map(({ tool, missing }) => askFor(tool.name, missing)).join(' '))
}

type Choose = (clause: string, tools: readonly ToolSpec[]) => ToolSpec | undefined

/** The tools for what was asked, clause by clause, and the clauses that no tool was found for. */
function tasksFor(turn: Turn, tools: readonly ToolSpec[], now: Date, choose: Choose) {
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
    // "… and Nairobi" is the same once more; "… and 5 % dropout" belongs to what was said before.
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

/** Clauses of which none alone found anything are perhaps one, unless each begins a request. */
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

/** A tool that the words of a clause name, or describe at length. */
function surely(clause: string, tools: readonly ToolSpec[]): ToolSpec | undefined {
  return best(clause, tools, ({ of, named, described }) => {
    const length = new Set(meaning(of.name)).size
    const changes = ['create', 'change', 'remove', 'send'].includes(deed(of.name) ?? '')
    if (changes && deed(of.name) !== deed(clause) && named < 2) return false
    return named >= 2 || (named === 1 && length <= 2) || described >= 3
  })
}

/** A tool that shares any word with a clause. */
function likely(clause: string, tools: readonly ToolSpec[]): ToolSpec | undefined {
  return best(clause, tools, () => true)
}

/** A tool that keeps what people call each other, for "call me Ana". */
function forNames(text: string, tools: readonly ToolSpec[]): ToolSpec | undefined {
  const sorts = new Set(namesIn(text, '').map(({ sort }) => sort))
  return tools.find(({ parameters }) =>
    fieldsOf(parameters).some((field) => {
      const sort = sortOf(field)
      return (sort === 'user' || sort === 'agent') && sorts.has(sort)
    }),
  )
}

function named(clause: string, tool: ToolSpec): boolean {
  return matches(clause, [describe(tool)]).some((match) => match.named > 0)
}

function describe(tool: ToolSpec) {
  const fields = fieldsOf(tool.parameters as Schema)
  const about = fields.map(({ name, schema }) => `${name} ${(schema.enum ?? []).join(' ')}`)
  return {
    name: tool.name,
    strong: tool.name,
    weak: `${tool.description} ${about.join(' ')}`,
    tool,
  }
}

function best(
  clause: string,
  tools: readonly ToolSpec[],
  isEnough: (match: Match<ReturnType<typeof describe>>) => boolean,
): ToolSpec | undefined {
  return matches(clause, tools.map(describe)).find(isEnough)?.of.tool
}

function readTurn(messages: readonly Message[], tools: readonly ToolSpec[]): Turn {
  const at = messages.findLastIndex(({ role }) => role === 'user')
  const said = (messages[at]?.content ?? '').slice(0, longest)
  const asksAnew = beginsARequest(said) && clausesOf(said).some((clause) => surely(clause, tools))
  const since = messages.slice(at + 1)
  const before = messages.slice(0, Math.max(0, at))
  const calls = since.flatMap((message) =>
    message.role === 'assistant' ? (message.toolCalls ?? []) : [],
  )
  return {
    said,
    asked: givesUp(said) || asksAnew ? undefined : questionBefore(before),
    calls: new Map(
      calls.map(({ id, name, args }) => [
        id,
        { name, args: (args ?? {}) as Record<string, unknown> },
      ]),
    ),
    results: since.filter((message) => message.role === 'tool'),
    first: !before.some(({ role, content }) => role === 'assistant' && content !== ''),
  }
}

/** Our own question, when it was the last thing said, and the messages that it was about. */
function questionBefore(messages: readonly Message[]): Turn['asked'] {
  const spoken = messages.filter(
    ({ role, content }) => role === 'user' || (role === 'assistant' && content !== ''),
  )
  const tool = spoken.at(-1)?.role === 'assistant' ? askedFor(spoken.at(-1)!.content) : undefined
  if (!tool) return undefined
  const about: string[] = []
  for (let nth = spoken.length - 1; nth > 0 && askedFor(spoken[nth]!.content) === tool; nth -= 2)
    about.unshift(spoken[nth - 1]!.content)
  const [before = '', ...answers] = about
  return { tool, before, answers }
}

function isLoaded({ loaded, visibility }: Capability): boolean {
  return loaded === true || visibility === 'always'
}

function whatThereIs(capabilities: readonly Capability[]): string {
  if (capabilities.length === 0) return 'There are no plugins here yet.'
  const lines = capabilities.slice(0, 12).map(({ name, summary }) => `${name}: ${summary ?? ''}`)
  const rest = capabilities.length > 12 ? `\nand ${capabilities.length - 12} more.` : ''
  return `This is what there is:\n${lines.join('\n')}${rest}`
}

function nothingFits(capabilities: readonly Capability[]): string {
  const names = capabilities.slice(0, 12).map(({ name }) => name)
  const offer =
    names.length > 0 ? ` There is: ${names.join(', ')}. Ask me with words of theirs.` : ''
  return `I found nothing here that does this, and I do not make answers up.${offer}`
}

function parsed(content: string): any {
  // any: a tool's answer; each field is checked where it is read
  try {
    return JSON.parse(content)
  } catch {
    return undefined
  }
}

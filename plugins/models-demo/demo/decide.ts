import type { Now } from './read/moments.ts'
import type { Message } from '#core'
import type { ToolSpec } from '#core/models'
import { onceMore } from './again.ts'
import { fillArguments } from './read/arguments.ts'
import { clausesOf } from './read/clauses.ts'
import { fromListed } from './listed.ts'
import { matches } from './read/match.ts'
import { isManner } from './read/manners.ts'
import { namesIn } from './read/phrases.ts'
import { askFor, tellFault, tellResult } from './render.ts'
import { fieldsOf } from './read/schema.ts'
import { asksForLength, asksWhatThereIs, introduction, longAnswer } from './speech.ts'
import { realModel, smallTalk } from './small-talk.ts'
import { fromTold } from './told.ts'
import { absorbed, forNames, likely, surely, tasksFor, type Task } from './tasks.ts'
import { readTurn, type Call, type KnownTurn } from './turn.ts'
import { beginsARequest, deed, meaning } from './read/words.ts'

/** What the model does next: it calls tools, or it says something. */
type Act = { readonly calls: readonly Call[]; readonly thought?: string } | { readonly say: string }

/** The fields of a plugin that the model reads in the answer of `list_capabilities`. */
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

const list = 'list_capabilities'
const load = 'load_capability'

/** Decides from the conversation alone: the same conversation and tools always lead to the same act. */
export async function decide(
  messages: readonly Message[],
  tools: readonly ToolSpec[],
  now: Now,
): Promise<Act> {
  const own = tools.filter(({ name }) => name !== list && name !== load)
  const turn = forgetting(readTurn(messages), own)
  const speak = (text: string): Act => ({ say: turn.first ? `${introduction}\n\n${text}` : text })
  const has = (name: string) => tools.some((tool) => tool.name === name)
  const listed = turn.results.find(({ name }) => name === list)
  const loaded = turn.results.find(({ name }) => name === load)
  const done = turn.results.filter(({ name }) => name !== list && name !== load)

  if (done.length > 0) {
    // What the message asks for besides goes before a second look at a list.
    const later = await heldBack(turn, done, own, now)
    if (later) return act(later, speak)
    const next = fromListed(turn, done, own, now)
    return next ? act([next], speak) : speak(await conclusion(turn, done, own, now))
  }
  if (loaded) {
    if (loaded.failed) return speak(tellFault(load, loaded.content))
    return await afterLoading(turn, loaded.content, own, now, speak)
  }
  if (listed) {
    if (listed.failed) return speak(tellFault(list, listed.content))
    return await afterListing(turn, listed.content, own, now, speak)
  }

  if (!turn.asked) {
    const answer = smallTalk(turn.said)
    if (answer) return speak(answer)
    if (asksForLength(turn.said)) return { say: longAnswer }
    if (asksWhatThereIs(turn.said) && has(list)) return { calls: [{ name: list, args: {} }] }
    const again = onceMore(turn, own, now)
    if (again) return act([again], speak)
  }
  const { tasks, open } = await tasksFor(turn, own, now, surely)
  if (open.length === 0 && tasks.length > 0) return act(await first(turn, tasks, own, now), speak)
  const told = tasks.length === 0 ? fromTold(turn.said, messages) : undefined
  if (told) return speak(told)
  const thought = `I look for what has to do with ${meaning(turn.said).join(', ') || 'this'}.`
  if (has(list)) return { calls: [{ name: list, args: {} }], thought }
  return tasks.length > 0 ? act(tasks, speak) : speak(nothingFits([], turn.first))
}

/** Drops the model's question from the turn when the message plainly asks for something else. */
function forgetting(turn: KnownTurn, tools: readonly ToolSpec[]): KnownTurn {
  const asksAnew =
    beginsARequest(turn.said) && clausesOf(turn.said).some((clause) => surely(clause, tools))
  return asksAnew ? { ...turn, asked: undefined } : turn
}

async function afterListing(
  turn: KnownTurn,
  content: string,
  own: readonly ToolSpec[],
  now: Now,
  speak: (text: string) => Act,
): Promise<Act> {
  const capabilities = (parsed(content)?.plugins ?? []) as Capability[]
  if (asksWhatThereIs(turn.said)) return speak(whatThereIs(capabilities))
  const { tasks, open } = await tasksFor(turn, own, now, surely)
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
    // A tool that is loaded may fit, though it shares fewer words with the message than `surely` asks for.
    const again = await tasksFor(turn, own, now, (clause, tools) => {
      const tool = forNames(clause, tools) ?? likely(clause, tools) ?? forNames(turn.said, tools)
      if (!tool || fieldsOf(tool.parameters).length === 0) return tool
      const said = { text: turn.said, tool: tool.name, now }
      const { args, missing } = fillArguments(tool.parameters, said)
      // A tool that lists what there is needs no argument: the list tells what to ask for.
      const lists = missing.length === 0 && /\blists?\b/i.test(tool.description)
      return lists || Object.keys(args).length > 0 ? tool : undefined
    })
    if (again.tasks.length > 0) return act(absorbed(again, now), speak)
  }
  if (tasks.length > 0) return act(await first(turn, tasks, own, now), speak)
  return speak(nothingFits(capabilities, turn.first))
}

async function afterLoading(
  turn: KnownTurn,
  content: string,
  own: readonly ToolSpec[],
  now: Now,
  speak: (text: string) => Act,
): Promise<Act> {
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
  const { tasks } = await tasksFor(
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
  if (tasks.length > 0) return act(await first(turn, tasks, own, now), speak)
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

/** How many tasks stand before the first "then". The tasks after it wait until these are done. */
async function beforeThen(turn: KnownTurn, own: readonly ToolSpec[], now: Now): Promise<number> {
  const said = turn.said.split(/[,.;]?\s+(?:and )?then,?\s+/i)[0] ?? ''
  if (turn.asked || said === turn.said) return Infinity
  return (await tasksFor({ ...turn, said }, own, now, surely)).tasks.length
}

/** The tasks to begin with: those before a "then" when another tool follows it, and otherwise all. */
async function first(turn: KnownTurn, tasks: readonly Task[], own: readonly ToolSpec[], now: Now) {
  const count = await beforeThen(turn, own, now)
  const names = new Set(tasks.slice(0, count).map(({ tool }) => tool.name))
  const follows = tasks.slice(count).some(({ tool }) => !names.has(tool.name))
  return count > 0 && follows ? tasks.slice(0, count) : tasks
}

/** The tasks after a "then", once all tasks before it went well; undefined when none of them can run. */
async function heldBack(
  turn: KnownTurn,
  done: KnownTurn['results'],
  own: readonly ToolSpec[],
  now: Now,
): Promise<readonly Task[] | undefined> {
  const count = await beforeThen(turn, own, now)
  if (done.length !== count || done.some(({ failed }) => failed)) return undefined
  const names = new Set(done.map(({ name }) => name))
  const later = (await tasksFor(turn, own, now, surely)).tasks.slice(count)
  const isReady = later.some(({ tool, missing }) => missing.length === 0 && !names.has(tool.name))
  return isReady ? later : undefined
}

/** The results of the calls as text, and a question about each task that still lacks arguments. */
async function conclusion(
  turn: KnownTurn,
  done: KnownTurn['results'],
  own: readonly ToolSpec[],
  now: Now,
): Promise<string> {
  const told = done.map(({ name, toolCallId, content, failed }) =>
    failed ? tellFault(name, content) : tellResult(name, turn.calls.get(toolCallId)?.args, content),
  )
  const { tasks } = await tasksFor(turn, own, now, surely)
  const open = tasks.filter(
    ({ tool, missing }) => missing.length > 0 && !done.some(({ name }) => name === tool.name),
  )
  const asked = open.map(({ tool, missing }) => askFor(tool.name, missing))
  return [...told, ...ownStyle(turn, done), ...asked].join(' ')
}

/** What is said where somebody wishes for other answers: the wish is kept, and the rules speak as before. */
function ownStyle(turn: KnownTurn, done: KnownTurn['results']): string[] {
  const wishes = namesIn(turn.said, '').some(({ sort }) => sort === 'language' || isManner(sort))
  const isKept = done.some(({ failed }) => !failed)
  return wishes && isKept
    ? ['A real model keeps to that; the sentences of my rules stay as they are.']
    : []
}

/** Calls the tools of all tasks that are complete. When no task is complete, it asks for what is missing. */
function act(tasks: readonly Task[], speak: (text: string) => Act): Act {
  const ready = tasks.filter(({ missing }) => missing.length === 0)
  if (ready.length > 0) return { calls: ready.map(({ tool, args }) => ({ name: tool.name, args })) }
  return speak(tasks.map(({ tool, missing }) => askFor(tool.name, missing)).join(' '))
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

/** The introduction of a first answer says already how one gets a real model. */
function nothingFits(capabilities: readonly Capability[], isIntroduced: boolean): string {
  const names = capabilities.slice(0, 12).map(({ name }) => name)
  const offer =
    names.length > 0 ? ` There is: ${names.join(', ')}. Ask me with words of theirs.` : ''
  const real = isIntroduced
    ? ''
    : ` I am a demonstration model; for the answers of a real one, ${realModel}.`
  return `I found nothing here that does this, and I do not make answers up.${real}${offer}`
}

// any: the answer of a tool; its readers give each field a default
function parsed(content: string): any {
  try {
    return JSON.parse(content)
  } catch {
    return undefined
  }
}

import type { Message, Model, ToolSpec } from '../../../plugin.ts'
import { bytesOfTools, bytesOfWords, messageBytes } from '../../model/window/sizes.ts'
import { MessageSum } from '../../model/usage/message-sum.ts'
import type { PluginBytes, SentBytes } from '../../turns/run.ts'
import { isSummary } from '../../turns/summary.ts'
import type { LoopPrompt } from './prompt.ts'

/** How many plugins have bytes of their own: what is kept of a call is small, however many plugins are loaded. */
const mostPlugins = 10

/** Whose a tool is: a plugin's, the client's, or else the kernel's. */
interface Owned {
  readonly record?: { readonly name: string }
  readonly client?: object
}

/** A request to a model, and whose loop has made it. */
interface Sent {
  readonly loop: {
    readonly prompt: LoopPrompt
    readonly tools: { entry(name: string): Owned | undefined }
    readonly site: { readonly turnTools?: ReadonlyMap<string, Owned> }
  }
  /** The system prompt: the same text is the same object. */
  readonly system: Message
  readonly specs: readonly ToolSpec[]
  readonly messages: readonly Message[]
  readonly model: Model
}

/** The bytes of a request by whom they come from. The parts are as many bytes as `whole`: what joins them is the kernel's. */
export function bytesByPart(
  whole: Pick<SentBytes, 'system' | 'tools' | 'conversation'>,
  { loop, system, specs, messages, model }: Sent,
): SentBytes {
  const { persona, catalogue, lines } = bytesOfPrompt(system, loop.prompt)
  const plugins = new Map<string, { lines: number; tools: number }>()
  for (const [plugin, bytes] of lines) plugins.set(plugin, { lines: bytes, tools: 0 })
  let clientTools = 0
  for (const spec of specs) {
    const entry = loop.tools.entry(spec.name) ?? loop.site.turnTools?.get(spec.name)
    if (entry?.client) clientTools += bytesOfTools([spec])
    else if (entry?.record) {
      const { name } = entry.record
      const known = plugins.get(name)
      if (known) known.tools += bytesOfTools([spec])
      else plugins.set(name, { lines: 0, tools: bytesOfTools([spec]) })
    }
  }
  const { results, summary } = sumsFor(model)
  const [ofResults, ofSummary] = [results.of(messages), summary.of(messages)]
  const sorted = [...plugins].sort(([, a], [, b]) => b.lines + b.tools - a.lines - a.tools)
  const all = together(sorted)
  const further = sorted.slice(mostPlugins)
  return {
    ...whole,
    kernel: whole.system + whole.tools - persona - catalogue - all.lines - all.tools - clientTools,
    persona,
    catalogue,
    plugins: Object.fromEntries(sorted.slice(0, mostPlugins)),
    ...(further.length > 0 && { furtherPlugins: together(further) }),
    clientTools,
    history: whole.conversation - ofSummary - ofResults,
    summary: ofSummary,
    results: ofResults,
  }
}

/** How many bytes a prompt has of whom. */
interface PromptBytes {
  readonly persona: number
  readonly catalogue: number
  readonly lines: ReadonlyMap<string, number>
}

const prompts = new WeakMap<Message, PromptBytes>()

/** The parts of a prompt, which is the same in nearly all calls of a model. */
function bytesOfPrompt(system: Message, { told }: LoopPrompt): PromptBytes {
  const known = prompts.get(system)
  if (known) return known
  let [persona, catalogue] = [0, 0]
  const lines = new Map<string, number>()
  for (const { part, plugin, text } of told) {
    const bytes = bytesOfWords(text) - bytesOfWords('')
    if (part === 'persona') persona += bytes
    if (part === 'catalogue') catalogue += bytes
    if (part === 'plugin' && plugin !== undefined)
      lines.set(plugin, (lines.get(plugin) ?? 0) + bytes)
  }
  const counted = { persona, catalogue, lines }
  prompts.set(system, counted)
  return counted
}

/** What a conversation has of results and of summaries, as a model reads them; no more is counted of it than what is new. */
interface Sums {
  readonly results: MessageSum
  readonly summary: MessageSum
}

const sums = new WeakMap<Model, Sums>()

function sumsFor(model: Model): Sums {
  let known = sums.get(model)
  if (!known) {
    const ofThose = (which: (message: Message) => boolean) =>
      new MessageSum((message) => (which(message) ? messageBytes(message, model) : 0))
    known = {
      results: ofThose(({ role }) => role === 'tool'),
      summary: ofThose((message) => message.role !== 'tool' && isSummary(message)),
    }
    sums.set(model, known)
  }
  return known
}

function together(plugins: readonly (readonly [string, PluginBytes])[]): PluginBytes {
  let [lines, tools] = [0, 0]
  for (const [, bytes] of plugins) {
    lines += bytes.lines
    tools += bytes.tools
  }
  return { lines, tools }
}

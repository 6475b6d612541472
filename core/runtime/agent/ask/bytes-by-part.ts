import type { Message, Model, ToolSpec } from '../../../plugin.ts'
import { bytesOfTools, bytesOfWords, messageBytes } from '../../model/window/sizes.ts'
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
  readonly specs: readonly ToolSpec[]
  readonly messages: readonly Message[]
  readonly model: Model
}

/** The bytes of a request by whom they come from. The parts are as many bytes as `whole`: what joins them is the kernel's. */
export function bytesByPart(
  whole: Pick<SentBytes, 'system' | 'tools' | 'conversation'>,
  { loop, specs, messages, model }: Sent,
): SentBytes {
  const plugins = new Map<string, { lines: number; tools: number }>()
  const of = (name: string) => {
    const known = plugins.get(name)
    if (known) return known
    const fresh = { lines: 0, tools: 0 }
    plugins.set(name, fresh)
    return fresh
  }
  let [persona, catalogue, clientTools, summary, results] = [0, 0, 0, 0, 0]
  for (const { part, plugin, text } of loop.prompt.told) {
    const bytes = bytesOfWords(text) - bytesOfWords('')
    if (part === 'persona') persona += bytes
    if (part === 'catalogue') catalogue += bytes
    if (part === 'plugin' && plugin !== undefined) of(plugin).lines += bytes
  }
  for (const spec of specs) {
    const entry = loop.tools.entry(spec.name) ?? loop.site.turnTools?.get(spec.name)
    if (entry?.client) clientTools += bytesOfTools([spec])
    else if (entry?.record) of(entry.record.name).tools += bytesOfTools([spec])
  }
  for (const message of messages) {
    if (message.role === 'tool') results += messageBytes(message, model)
    else if (isSummary(message)) summary += messageBytes(message, model)
  }
  const sorted = [...plugins].sort(([, a], [, b]) => b.lines + b.tools - a.lines - a.tools)
  const { lines, tools } = together(sorted)
  const further = sorted.slice(mostPlugins)
  return {
    ...whole,
    kernel: whole.system + whole.tools - persona - catalogue - lines - tools - clientTools,
    persona,
    catalogue,
    plugins: Object.fromEntries(sorted.slice(0, mostPlugins)),
    ...(further.length > 0 && { furtherPlugins: together(further) }),
    clientTools,
    history: whole.conversation - summary - results,
    summary,
    results,
  }
}

function together(plugins: readonly (readonly [string, PluginBytes])[]): PluginBytes {
  let [lines, tools] = [0, 0]
  for (const [, bytes] of plugins) {
    lines += bytes.lines
    tools += bytes.tools
  }
  return { lines, tools }
}

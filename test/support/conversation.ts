import { z } from 'zod'
import { assemble } from '../../core/runtime/model/assemble.ts'
import type { Message, Model, ToolSpec } from '../../core/plugin.ts'

/** A tool that a test makes up. */
export interface ToyTool {
  readonly description: string
  readonly input: z.ZodType
  run?(input: any): unknown // any: each test knows the input of its own toy
}

/** A plugin that a test makes up. */
export interface ToyPlugin {
  readonly name: string
  readonly summary: string
  readonly tags?: readonly string[]
  readonly whenToUse?: readonly string[]
  readonly visibility?: 'always' | 'on-demand'
  readonly tools: Readonly<Record<string, ToyTool>>
}

/** A call that the model made, as the tests compare it. */
export type Made = readonly [name: string, args: unknown]

/**
 * A conversation with a model, with the two kernel tools and toy plugins behind it: enough of a
 * runtime to try a model that chooses its tools itself.
 */
export function conversation(model: Model, plugins: readonly ToyPlugin[]) {
  const messages: Message[] = [{ role: 'system', content: 'You are an oracle.' }]
  const loaded = new Set(plugins.filter((p) => p.visibility === 'always').map((p) => p.name))
  let ids = 0

  function present(): ToolSpec[] {
    const kernel = [
      spec(
        'list_capabilities',
        'What this oracle can do.',
        z.object({ query: z.string().optional() }),
      ),
      spec('load_capability', 'Loads plugins by name.', z.object({ names: z.array(z.string()) })),
    ]
    const own = plugins
      .filter((plugin) => loaded.has(plugin.name))
      .flatMap(({ tools }) => Object.entries(tools))
      .map(([name, tool]) => spec(name, tool.description, tool.input))
    return [...kernel, ...own]
  }

  function run(name: string, args: any): { content: unknown; failed?: boolean } {
    if (name === 'list_capabilities')
      return {
        content: {
          plugins: plugins.map(({ name, summary, tags, whenToUse, visibility = 'on-demand' }) => ({
            name,
            summary,
            tags,
            whenToUse,
            visibility,
            loaded: loaded.has(name),
            stability: 'stable',
          })),
        },
      }
    if (name === 'load_capability') {
      const known = plugins.filter((plugin) => args.names.includes(plugin.name))
      for (const plugin of known) loaded.add(plugin.name)
      const described = known.map(({ name, summary, tools }) => ({
        name,
        summary,
        tools: Object.entries(tools).map(([name, { description }]) => ({ name, description })),
      }))
      return { content: { loaded: described, unknown: [] } }
    }
    const tool = plugins.map(({ tools }) => tools[name]).find(Boolean)
    const input = tool?.input.safeParse(args)
    if (!tool || !input?.success)
      return { content: `Invalid arguments: ${input?.error?.message}`, failed: true }
    try {
      return { content: tool.run?.(input.data) ?? { ok: true } }
    } catch (error) {
      const { code = 'FAILED', message, hint } = error as Record<string, unknown>
      return { content: { code, message, hint }, failed: true }
    }
  }

  /** Says something and lets the model work until it answers in words. */
  async function say(content: string): Promise<{ calls: Made[]; answer: string }> {
    messages.push({ role: 'user', id: `m${++ids}`, content })
    const calls: Made[] = []
    for (let step = 0; step < 10; step++) {
      const signal = new AbortController().signal
      const {
        usage: _,
        provider: __,
        ...reply
      } = await assemble(model.stream({ messages, tools: present(), signal }))
      messages.push({ role: 'assistant', id: `m${++ids}`, ...reply })
      if (reply.toolCalls.length === 0) return { calls, answer: reply.content }
      for (const { id, name, args } of reply.toolCalls) {
        calls.push([name, args])
        const { content, failed } = run(name, args)
        const text = typeof content === 'string' ? content : JSON.stringify(content)
        messages.push({
          role: 'tool',
          id: `m${++ids}`,
          toolCallId: id,
          name,
          content: text,
          failed,
        })
      }
    }
    throw new Error(`The model did not come to an end: ${JSON.stringify(calls)}`)
  }
  return { say, messages, present, loaded }
}

function spec(name: string, description: string, input: z.ZodType): ToolSpec {
  const parameters = z.toJSONSchema(input, { io: 'input' }) as Record<string, unknown>
  return { name, description, parameters }
}

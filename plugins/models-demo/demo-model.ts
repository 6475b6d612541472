import type { Model } from '#core'
import { estimatedUsage, readSummaryRequest, type ModelSettings, type ToolSpec } from '#core/models'

interface DemoOptions {
  /** How fast the model speaks. Twenty-five words a second feel like a real model; tests take `Infinity`. */
  readonly wordsPerSecond?: number
  /** The time that "today" and "tomorrow" count from. */
  readonly now?: () => Date
}

/**
 * The demonstration model, which needs no key and no network. It follows fixed rules, so the same conversation gets the same
 * answer. It says that it is a demonstration, and it really calls the tools of the plugins.
 */
export function demoModel({
  wordsPerSecond = 25,
  now = () => new Date(),
}: DemoOptions = {}): Model {
  return {
    id: 'demo',
    label: 'Demonstration model (no key, no network)',
    // It takes every file, to say by name that it looks into none.
    reads: { image: ['*/*'], audio: ['*/*'], file: ['*/*'] },
    can: { object: true },
    async *stream({ messages, tools, settings, signal }) {
      signal.throwIfAborted()
      const asked = readSummaryRequest(messages)
      if (asked) {
        const { summaryOf } = await import('./demo/summary.ts')
        const text = summaryOf(asked)
        yield { type: 'text', text }
        yield { type: 'usage', ...estimatedUsage({ messages, tools }, text.length) }
        return
      }
      const { decide } = await import('./demo/decide.ts') // the rules are twenty files, and no start needs them
      const { withoutAttached } = await import('./demo/turn.ts')
      const { messages: words, sentence } = withoutAttached(messages)
      const { zoneIn } = await import('./demo/read/moments.ts')
      const system = messages.find(({ role }) => role === 'system')?.content ?? ''
      const present = { at: now(), zone: zoneIn(system) }
      if (settings?.object) {
        const { objectFor } = await import('./demo/object.ts')
        const text = JSON.stringify(objectFor(settings.object.schema, words, present))
        yield { type: 'text', text }
        yield { type: 'usage', ...estimatedUsage({ messages, tools }, text.length) }
        return
      }
      const forced = forcedIn(settings, tools)
      if (forced) {
        const { objectFor } = await import('./demo/object.ts')
        const args = JSON.stringify(objectFor(forced.parameters, words, present))
        yield { type: 'tool-call', index: 0, name: forced.name, args }
        yield { type: 'usage', ...estimatedUsage({ messages, tools }, args.length) }
        return
      }
      const act = await decide(words, tools, present)
      const usage = (characters: number) =>
        ({ type: 'usage', ...estimatedUsage({ messages, tools }, characters) }) as const
      if ('calls' in act) {
        let characters = act.thought?.length ?? 0
        if (act.thought) yield { type: 'reasoning', text: act.thought }
        for (const [index, call] of act.calls.entries()) {
          const args = JSON.stringify(call.args)
          characters += call.name.length + args.length
          yield { type: 'tool-call', index, name: call.name, args }
        }
        yield usage(characters)
        return
      }
      // Each piece is a word with the gap before it.
      const said = sentence ? `${sentence}\n\n${act.say}` : act.say
      for (const word of said.split(/(?<=\S)(?=\s)/)) {
        await pause(1000 / wordsPerSecond, signal)
        yield { type: 'text', text: word }
      }
      yield usage(said.length)
    },
  }
}

/** The tool that the model must call, where it must call one. */
function forcedIn(
  settings: ModelSettings | undefined,
  tools: readonly ToolSpec[],
): ToolSpec | undefined {
  const choice = settings?.toolChoice
  return typeof choice === 'object' ? tools.find(({ name }) => name === choice.tool) : undefined
}

/** Waits, and rejects with the signal's reason as soon as the signal fires. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const settle = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', settle)
      if (signal.aborted) reject(signal.reason)
      else resolve()
    }
    signal.addEventListener('abort', settle)
    const timer = ms > 0 ? setTimeout(settle, ms) : undefined
    if (timer === undefined || signal.aborted) settle()
  })
}

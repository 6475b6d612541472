import type { Model } from '../../plugin.ts'
import { decide } from './demo/decide.ts'

interface DemoOptions {
  /** Twenty-five feel like a real model. `Infinity` for tests. */
  readonly wordsPerSecond?: number
  /** For "today" and "tomorrow". */
  readonly now?: () => Date
}

/**
 * The model of a machine without a key and without a network. It is made of rules, is the same every
 * time, says what it is, and really calls the tools of whatever plugins there are.
 */
export function demoModel({
  wordsPerSecond = 25,
  now = () => new Date(),
}: DemoOptions = {}): Model {
  return {
    id: 'demo',
    label: 'Demonstration model (no key, no network)',
    async *stream({ messages, tools, signal }) {
      signal.throwIfAborted()
      const act = await decide(messages, tools, now())
      if ('calls' in act) {
        if (act.thought) yield { type: 'reasoning', text: act.thought }
        for (const [index, { name, args }] of act.calls.entries())
          yield { type: 'tool-call', index, name, args: JSON.stringify(args) }
        return
      }
      // A word and the gap before it.
      for (const word of act.say.split(/(?<=\S)(?=\s)/)) {
        await pause(1000 / wordsPerSecond, signal)
        yield { type: 'text', text: word }
      }
    },
  }
}

/** Waits, and throws the signal's reason the moment that it fires. */
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

import type { Message } from '#core'
import { meaning, Stems, words } from './read/words.ts'

/** How many lines of what is known the model reads. */
const mostLines = 100
const line = /^\[\w{1,20}\] ("(?:[^"\\\n]|\\.)*") \(([^()\n]*)\)$/gm

/**
 * The answer to a question about the user that stands in the system prompt, in a line `[name] "sentence" (what it is, since
 * when)`; undefined where no line shares a word with the question.
 */
export function fromTold(said: string, messages: readonly Message[]): string | undefined {
  if (!/[?]\s*$|^\s*(?:what|where|who|which|when|how|do|am|have)\b/i.test(said)) return undefined
  if (!words(said).some((word) => ['i', 'my', 'me', 'mine'].includes(word))) return undefined
  const system = messages.find(({ role }) => role === 'system')?.content ?? ''
  const asked = meaning(said)
  let best: { readonly text: string; readonly shares: number } | undefined
  for (const [, quoted = '', what = ''] of [...system.matchAll(line)].slice(0, mostLines)) {
    const text = sentenceIn(quoted)
    if (text === undefined) continue
    const known = new Stems([...meaning(text), ...meaning(what)])
    const shares = asked.reduce((sum, word) => sum + known.likeness(word), 0)
    if (shares > (best?.shares ?? 0)) best = { text: `“${text}” (${what})`, shares }
  }
  return best && `You told me: ${best.text}.`
}

function sentenceIn(quoted: string): string | undefined {
  try {
    return String(JSON.parse(quoted))
  } catch {
    return undefined // a line that only looks like one
  }
}

import type { Message } from '../../../plugin.ts'
import { quote, unquote } from '../../base/quote.ts'

/** The result of a call as a model reads it. */
export type Result = Extract<Message, { role: 'tool' }>

/** A result with another text, between the same marks where it is quoted; files that the call gave are left out. */
export function withText(result: Result, text: (own: string) => string): Result {
  const { parts: _, ...rest } = result
  const own = unquote(result.content)
  const cut = text(own)
  return { ...rest, content: own === result.content ? cut : quote(cut, result.name, result.id) }
}

/** The beginning of a text, with a word about how much it was. */
export function beginningOf(text: string, characters: number): string {
  if (text.length <= characters) return text
  return `${text.slice(0, characters).toWellFormed()}\n[cut here: ${sizeOf(text)} in all]`
}

/** How large a text is, for people and models. */
export function sizeOf(text: string): string {
  const bytes = Buffer.byteLength(text)
  return bytes < 1000 ? `${bytes} bytes` : `${Math.round(bytes / 1000)} kB`
}

import type { ProviderExchange } from './post.ts'

/** How long a server may be silent in the middle of a text that is no stream. */
const idleMs = 5000

/** The text of an answer that is no stream, up to `most` characters; what came so far, when the server falls silent. */
export async function readText(exchange: ProviderExchange, most: number): Promise<string> {
  let text = ''
  while (text.length < most) {
    await exchange.ready(idleMs)
    const piece = exchange.take()
    if (!piece) break
    text += piece
  }
  return text
}

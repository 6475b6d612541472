/** How many clauses of one message the model reads. */
const most = 8

/** The clauses of a message, each of which may ask for one thing. Text in quotes or brackets stays whole. */
export function clausesOf(message: string): string[] {
  const quotes: string[] = []
  const hidden = message.replace(
    /"[^"]*"|“[^“”]*”|\{(?:[^{}]|\{[^{}]*\})*\}|\[[^\]]*\]/g,
    (quote) => {
      quotes.push(quote)
      return `\u0001${quotes.length - 1}\u0001`
    },
  )
  return hidden
    .split(
      /(?<=\p{L}{3})[.]\s+(?=\p{Lu})|[;?!]\s+|,?\s+(?:and then|and also|and|then|also|plus)\s+/u,
    )
    .map((clause) =>
      clause.replace(/\u0001(\d+)\u0001/g, (_, nth) => quotes[Number(nth)] ?? '').trim(),
    )
    .filter((clause) => /[\p{L}\p{N}]/u.test(clause))
    .slice(0, most)
}

import { RuntimeError } from '#core'

/**
 * The parameters of a query string, in their order. Unlike URLSearchParams, this parser refuses bytes that are no UTF-8
 * instead of replacing them, because a replacement would change the client's question.
 */
export function* readQuery(query: string): Generator<readonly [name: string, value: string]> {
  for (const pair of query.split('&')) {
    if (pair === '') continue
    const at = pair.indexOf('=')
    yield at < 0 ? [decoded(pair), ''] : [decoded(pair.slice(0, at)), decoded(pair.slice(at + 1))]
  }
}

function decoded(text: string): string {
  if (!/[%+]/.test(text)) return text
  try {
    return withoutNul(decodeURIComponent(text.replaceAll('+', ' ')))
  } catch (cause) {
    if (cause instanceof RuntimeError) throw cause
    throw new RuntimeError('BAD_REQUEST', `"${text}" in the query is not percent-encoded UTF-8.`, {
      cause,
    })
  }
}

/** Refuses a text with U+0000, because software behind the gateway may take U+0000 for the end of a text. */
export function withoutNul(text: string): string {
  if (text.includes('\0'))
    throw new RuntimeError('BAD_REQUEST', 'A value holds the character U+0000.')
  return text
}

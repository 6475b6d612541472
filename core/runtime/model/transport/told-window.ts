/** What a provider says of a conversation that is too long for its model, in tokens. */
export interface ToldWindow {
  /** How much the model reads at most. */
  readonly window?: number
  /** How much it was sent. */
  readonly tokens?: number
}

const number = '`?\\(?(\\d[\\d,_]*)\\)?`?'

/** The sentences in which providers name both numbers or one: `w` stands for the window, `t` for what was sent. */
const sentences: readonly (readonly [pattern: RegExp, order: string])[] = [
  [`${number} tokens > ${number}`, 'tw'],
  [`${number} \\+ ${number} > ${number}`, 'ttw'],
  [`token count ${number} exceeds .*?${number}`, 'tw'],
  [`contains ${number} tokens.*? ${number} maximum`, 'tw'],
  [`maximum (?:context|prompt) length (?:is|of|:) ?${number}.*?${number} tokens`, 'wt'],
  [`maximum (?:context|prompt) length ?(?:is|of|:) ?${number}.*?contains ${number}`, 'wt'],
  [`too long: ${number},.*?(?:context|prompt) length: ${number}`, 'tw'],
  [`first ${number} tokens .*?context length of only ${number}`, 'tw'],
  [`maximum (?:context|prompt) length ?(?:is|of|:) ?${number}`, 'w'],
  [`context length of (?:only )?${number}`, 'w'],
  [`must be <= ${number}`, 'w'],
  ['"n_prompt_tokens": ?(\\d+).*?"n_ctx": ?(\\d+)', 'tw'],
  ['"n_ctx": ?(\\d+).*?"n_prompt_tokens": ?(\\d+)', 'wt'],
].map(([pattern = '', order = '']) => [new RegExp(pattern, 'is'), order])

/** No model reads less, so a smaller number means something else. */
const smallest = 256
const largest = 1_000_000_000
/** How much of a provider's words is read. */
const mostText = 4000

/** Reads the numbers of a refusal. A window that is not smaller than what was sent is none. */
export function toldWindow(text: string): ToldWindow {
  const read = text.slice(0, mostText)
  for (const [pattern, order] of sentences) {
    const found = pattern.exec(read)
    if (!found) continue
    let window: number | undefined
    let tokens = 0
    for (const [nth, letter] of [...order].entries()) {
      const value = Number((found[nth + 1] ?? '').replace(/[,_]/g, ''))
      if (letter === 'w') window = value
      else tokens += value
    }
    if (window === undefined || window < smallest || window > largest) continue
    if (tokens > 0 && (tokens <= window || tokens > largest)) continue
    return { window, ...(tokens > 0 && { tokens }) }
  }
  return {}
}

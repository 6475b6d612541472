import type { Changes, WireRefusal } from '#core/models'

/** How hard a model thinks, as this wire names it, and what is asked for where a server does not know the word. */
const instead: Readonly<Record<string, string>> = { xhigh: 'high', none: 'minimal', minimal: 'low' }

/** Fields that a request can do without. */
const dispensable = [
  'temperature',
  'top_p',
  'text.format',
  'tool_choice',
  'parallel_tool_calls',
  'store',
] as const

/** Whether the server cannot read thoughts that it sealed itself: its keys have changed, or another account asks. */
export function isUnsealable({ text }: WireRefusal): boolean {
  return /invalid_encrypted_content|encrypted content\b[^"]*could not be (verified|decrypted)/i.test(
    text,
  )
}

/** What of a request to change, because the server refused it by name. */
export function changeOf({
  text,
}: WireRefusal): readonly [name: string, value: unknown] | undefined {
  if (isAbout(text, 'max_output_tokens')) return lengthChange(text)
  if (/encrypted.content is not supported/i.test(text) || isAbout(text, 'include'))
    return ['include', false]
  if (isAbout(text, 'reasoning.summary') || /reasoning summaries/i.test(text))
    return ['summary', false]
  if (/\breasoning([._]effort)?\b/.test(text) && refuses.test(text)) return effortChange(text)
  const field = dispensable.find((name) => isAbout(text, name))
  return field && [field, false]
}

const refuses = /unsupported|not support|unknown|unrecognized|invalid (value|type)/i

/** Whether a text names a field in quotes, as servers name what they refuse. */
function isAbout(text: string, field: string): boolean {
  return refuses.test(text) || /invalid/i.test(text)
    ? ["'", '"', '`'].some(
        (mark) =>
          text.includes(`${mark}${field}${mark}`) || text.includes(`\\${mark}${field}\\${mark}`),
      )
    : false
}

/** The longest answer that the server names. */
function lengthChange(text: string): readonly [string, unknown] {
  const [, most] =
    /(?:at most|maximum|less than or equal to|<=|up to)\D{0,40}(\d{2,9})/i.exec(text) ?? []
  return ['length', most ? Number(most) : false]
}

/** One step nearer to what every model knows, for the word that the server quotes; without a word the field is left out. */
function effortChange(text: string): readonly [string, unknown] {
  const [, word] = /nsupported value: \\?['"`](\w+)/.exec(text) ?? []
  return word ? [`effort ${word}`, instead[word] ?? false] : ['effort', false]
}

/** How hard to think, in a word that the server has not refused; undefined where it takes none. */
export function effortFor(wanted: string, changes: Changes): string | undefined {
  if (changes.has('effort')) return undefined
  let word: unknown = wanted
  // No word is asked for twice, because each change leads to another one.
  while (changes.has(`effort ${String(word)}`)) word = changes.get(`effort ${String(word)}`)
  return typeof word === 'string' ? word : undefined
}

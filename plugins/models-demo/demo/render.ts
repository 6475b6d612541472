import type { Field } from './read/schema.ts'
import { words } from './read/words.ts'

const units: Record<string, string> = {
  c: '°C',
  f: '°F',
  km: 'km',
  kmh: 'km/h',
  kg: 'kg',
  mm: 'mm',
  ms: 'ms',
  pct: '%',
  percent: '%',
  usd: 'USD',
}
const inFull: Record<string, string> = {
  temp: 'temperature',
  lat: 'latitude',
  lon: 'longitude',
  num: 'number',
  qty: 'quantity',
  desc: 'description',
  config: 'configuration',
  avg: 'average',
  max: 'highest',
  min: 'lowest',
}

/** The result of any tool as a sentence. */
export function tellResult(tool: string, args: unknown, content: string): string {
  const result = parsed(content)
  if (typeof result !== 'object' || result === null)
    return plainly(result) ? sentence(plainly(result)) : `${tool} is done.`
  if (Array.isArray(result) || result === null) return sentence(`I found ${tell(result)}`)
  // A tool may say itself what a person is told of its result.
  if ('told' in result && typeof result.told === 'string' && result.told)
    return sentence(result.told)
  const subject = subjectOf(args, result)
  const told = subject === undefined ? '' : tell(result, subject)
  if (told) return sentence(`For ${subject} I got ${told}`)
  const all = tell(result)
  return all ? sentence(`I got ${all}`) : `${tool} is done.`
}

/** The fault of a tool as a sentence, without codes and braces. */
export function tellFault(tool: string, content: string): string {
  const fault = parsed(content)
  const { error, message, hint, reason } = (
    typeof fault === 'object' && fault ? fault : {}
  ) as Record<string, unknown>
  const inner = typeof error === 'object' && error ? (error as Record<string, unknown>) : {}
  const plain = typeof fault === 'string' ? fault : undefined
  const said = [plain, message, inner.message, error, reason].find(
    (one) => typeof one === 'string' && one,
  )
  const advice = [hint, inner.hint].find((one) => typeof one === 'string' && one)
  const why = String(said ?? '')
    .replace(/^(\w*Error|[A-Z][A-Z_]{3,}):\s*/, '')
    .trim()
  if (!why) return `I asked ${tool}, but it did not work, and it did not say why.`
  return [
    `I asked ${tool}, but it did not work: ${sentence(why)}`,
    advice && sentence(String(advice)),
  ]
    .filter(Boolean)
    .join(' ')
}

/** The question about the arguments that a tool needs and the message did not give. */
export function askFor(tool: string, missing: readonly Field[]): string {
  const list = missing.map(({ name, schema }) => {
    const about = plainly(schema.enum ? `one of ${schema.enum.join(', ')}` : schema.description)
    return about ? `${name} (${about.replace(/\.$/, '')})` : name
  })
  const what = missing.length === 1 ? 'What should it be?' : 'What should they be?'
  return `To use ${tool} I still need: ${list.join('; ')}. ${what}`
}

/** The tool that a question of `askFor` is about; undefined when the text is no such question. */
export function askedFor(text: string): string | undefined {
  return /\bTo use (\S+) I still need: /.exec(text)?.[1]
}

function tell(value: unknown, subject?: string, depth = 0): string {
  if (Array.isArray(value)) return tellList(value, depth)
  if (typeof value !== 'object' || value === null) return plainly(value)
  const parts = Object.entries(value)
    .filter(([key, one]) => isTelling(key, one, subject))
    .slice(0, depth === 0 ? 8 : 4)
    .map(([key, one]) => tellField(key, one, depth))
  return depth === 0 && parts.length > 1
    ? `${parts.slice(0, -1).join(', ')} and ${parts.at(-1)}`
    : parts.join(', ')
}

function tellField(key: string, value: unknown, depth: number): string {
  const parts = words(key)
  const unit = typeof value === 'number' && parts.length > 1 ? units[parts.at(-1) ?? ''] : undefined
  if (unit) parts.pop()
  const label = parts.map((word) => inFull[word] ?? word).join(' ')
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return depth > 1 ? label : `${label} (${tell(value, undefined, depth + 1)})`
  return `${label} ${tell(value, undefined, depth + 1)}${unit ? ` ${unit}` : ''}`
}

function tellList(list: readonly unknown[], depth: number): string {
  if (list.length === 0) return 'nothing'
  const shown = list.slice(0, 5).map((one) => tell(one, undefined, depth + 1))
  const rest = list.length > shown.length ? ` and ${list.length - shown.length} more` : ''
  const isPlain = list.every((one) => typeof one !== 'object' || one === null)
  return isPlain ? shown.join(', ') + rest : `${list.length} (${shown.join('; ')}${rest})`
}

function plainly(value: unknown): string {
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  if (typeof value === 'number') return String(Number(value.toPrecision(12)))
  const text = String(value ?? '')
    .replace(/\s+/g, ' ')
    .trim()
  return text.length > 300 ? `${text.slice(0, 300)}…` : text
}

/** Whether a person wants to hear of a field: not of an empty one, not of a mere success, not of what the person said. */
function isTelling(key: string, value: unknown, subject: string | undefined): boolean {
  if (value === null || value === undefined || value === '') return false
  if (['ok', 'success', 'type', 'schema'].includes(key.toLowerCase()) && typeof value !== 'object')
    return false
  return !(subject !== undefined && value === subject)
}

/** The subject of a result: an argument of the call that comes back in the result. */
function subjectOf(args: unknown, result: unknown): string | undefined {
  if (typeof result !== 'object' || result === null || typeof args !== 'object' || args === null)
    return undefined
  const asked = Object.values(args).filter((value) => typeof value === 'string')
  return Object.values(result).find(
    (value): value is string =>
      typeof value === 'string' &&
      value !== '' &&
      value.length <= 60 &&
      asked.some((one) => one.toLowerCase() === value.toLowerCase()),
  )
}

function parsed(content: string): unknown {
  try {
    return JSON.parse(content)
  } catch {
    return content
  }
}

function sentence(text: string): string {
  const plain = text.trim()
  // A name such as did:key or find_book keeps its small letter.
  const isWord = /^\p{L}+[\p{P}]?(\s|$)/u.test(plain)
  const first = isWord ? plain[0]?.toUpperCase() : plain[0]
  return `${first ?? ''}${plain.slice(1)}${/[.!?…]$/.test(plain) ? '' : '.'}`
}

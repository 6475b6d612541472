import { momentFor, momentForms, momentOf, type Moment, type Now } from './moments.ts'
import { words } from './words.ts'

/** The forms by which `findings` knows a value. */
export type Kind =
  | 'quoted'
  | 'did'
  | 'url'
  | 'email'
  | 'uuid'
  | 'address'
  | 'phone'
  | 'date'
  | 'number'
  | 'json'
  | 'word'

/** A value that is known by its form, and its place in the sentence. */
export interface Finding {
  readonly kind: Kind
  readonly value: unknown
  readonly start: number
  readonly end: number
  /** Set for a number with a percent sign. */
  readonly percent?: boolean
  /** Set for a number of minutes, hours and the like. */
  readonly span?: Span
  /** Set for a day or a time that is said in words. */
  readonly moment?: Moment
  /** Set when an argument has the value. */
  used: boolean
}

/** The unit of time behind a number: its length, and where the word of the unit ends. */
interface Span {
  readonly unitMs: number
  readonly end: number
}

const forms: readonly [Kind, RegExp][] = [
  ['json', /\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}|\[[^[\]]*\]/g],
  ['quoted', /"([^"]+)"|“([^“”]+)”|(?<!\p{L})'([^']+)'(?!\p{L})|«([^«»]+)»/gu],
  ['did', /\bdid:[a-z0-9]+:[\w.:%-]*[\w%-]/gi],
  ['url', /\b(?:https?|wss?):\/\/[^\s"'<>]*[^\s"'<>.,;:!?)]/gi],
  ['email', /\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b/g],
  ['uuid', /\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/gi],
  ...momentForms.map((form): [Kind, RegExp] => ['date', form]),
  ['date', /\b\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?\b/g],
  ['address', /(?<![\w.:@/+-])(?=[a-z0-9]*\d)(?=[a-z0-9]*[a-z])[a-z0-9]{8,100}(?![\w:@/-])/gi],
  ['phone', /\+\d[\d ()-]{6,18}\d/g],
  ['number', /(?<![\w.-])-?\d+(?:[,\u00a0\u202f]\d{3})*(?:\.\d+)?(?:k\b|\s?%| percent\b)?/gi],
  [
    'number',
    /\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|fifty|hundred)\b/gi,
  ],
  ['number', /(?<=\b(?:in|after|within)\s+)an?(?=\s+(?:second|minute|hour|day|week)\b)/gi],
]

const spelled = new Map(
  'one two three four five six seven eight nine ten eleven twelve'
    .split(' ')
    .map((word, nth): [string, number] => [word, nth + 1]),
)
  .set('a', 1)
  .set('an', 1)
  .set('twenty', 20)
  .set('fifty', 50)
  .set('hundred', 100)

/** How many values of one sentence the model reads. */
const mostFindings = 64

/** The values of a sentence that are known by their form, in order. A part of the sentence belongs to one value only. */
export function findings(sentence: string, now: Now): Finding[] {
  const found: Finding[] = []
  for (const [kind, form] of forms) {
    for (const match of sentence.matchAll(form)) {
      if (found.length === mostFindings) break
      const [start, end] = [match.index, match.index + match[0].length]
      if (found.some((other) => start < other.end && other.start < end)) continue
      const moment = kind === 'date' && match.groups ? momentOf(match, now) : undefined
      const value =
        kind === 'date' && match.groups ? moment && dayText(moment, now) : valueOf(kind, match)
      if (value === undefined) continue
      const percent = kind === 'number' && /%|percent/i.test(match[0])
      const span = kind === 'number' ? spanAt(sentence, end) : undefined
      found.push({ kind, value, start, end, percent, span, moment, used: false })
    }
  }
  return found.sort((a, b) => a.start - b.start)
}

const units = new Map([
  ['ms', 1],
  ['millisecond', 1],
  ['second', 1_000],
  ['sec', 1_000],
  ['minute', 60_000],
  ['min', 60_000],
  ['hour', 3_600_000],
  ['day', 86_400_000],
  ['week', 604_800_000],
])

/** The unit of time that a word names, in milliseconds. */
export const unitOf = (word: string): number | undefined => units.get(word.replace(/(?<=..)s$/, ''))

function spanAt(sentence: string, at: number): Span | undefined {
  const [all, word = ''] = /^[\s-]{0,3}(\p{L}{2,12})(?![\p{L}\p{N}])/u.exec(
    sentence.slice(at, at + 20),
  ) ?? ['']
  const unitMs = unitOf(word.toLowerCase())
  return unitMs === undefined ? undefined : { unitMs, end: at + all.length }
}

/** A moment for fields of no format. */
const dayText = (moment: Moment, now: Now) =>
  momentFor({ name: '', schema: {}, type: 'string', required: false }, moment, now)

function valueOf(kind: Kind, [text, ...groups]: RegExpExecArray): unknown {
  switch (kind) {
    case 'quoted':
      return groups.find((group) => group !== undefined)
    case 'json':
      return parsed(text)
    case 'phone':
      return text.replace(/[^\d+]/g, '')
    case 'number':
      return numberOf(text.toLowerCase())
    default:
      return text
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function numberOf(text: string): number | undefined {
  const digits = Number(text.replace(/[^\d.-]/g, ''))
  if (!/\d/.test(text)) return spelled.get(text)
  if (Number.isNaN(digits)) return undefined
  return text.endsWith('k') ? digits * 1000 : digits
}

/** How many characters of a listed value the model looks for in a sentence. */
const longestWord = 64

/** The places where a sentence names one of these values, in the singular or the plural. A value may be several words. */
export function wordFindings(sentence: string, values: readonly unknown[]): Finding[] {
  return [...new Set(values)].flatMap((value) => {
    const parts = words(String(value).slice(0, longestWord)).map(
      (word) => `${word.replace(/(?<=..)(s|ly)$/, '')}\\w{0,2}`,
    )
    if (parts.length === 0) return []
    const form = new RegExp(`(?<![\\p{L}\\p{N}])${parts.join('[\\s_-]+')}(?![\\p{L}\\p{N}])`, 'giu')
    return Array.from(sentence.matchAll(form))
      .slice(0, mostFindings)
      .map(({ index, 0: text }): Finding => ({
        kind: 'word',
        value,
        start: index,
        end: index + text.length,
        used: false,
      }))
  })
}

/** The sentence with spaces in the place of its findings, so that a search for names does not meet them. */
export function withoutFindings(sentence: string, found: readonly Finding[]): string {
  return found.reduce((rest, { start, end: valueEnd, span }) => {
    const end = span?.end ?? valueEnd
    return rest.slice(0, start) + ' '.repeat(end - start) + rest.slice(end)
  }, sentence)
}

/** How many characters on each side of a finding `surroundings` reads. */
const nearby = 160

/** The words around a finding, nearest first. It gives more words from before, because they explain a value better. */
export function surroundings(sentence: string, { start, end }: Finding) {
  const clause = /[.;!?](?=\s)/
  const near = sentence.slice(Math.max(0, start - nearby), start)
  const before = words(near.split(clause).at(-1) ?? '').reverse()
  const after = words(sentence.slice(end, end + nearby).split(clause)[0] ?? '')
  return { before: before.slice(0, 5), after: after.slice(0, 3) }
}

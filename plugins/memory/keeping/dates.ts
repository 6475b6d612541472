import { plain } from '../words/text.ts'

const dayMs = 86_400_000
/** How far ahead a plan may end, in days. */
const farthest = 3_660
const weekdays = ['sunday', 'monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday']
const monthNames =
  'january february march april may june july august september october november december'.split(' ')
const units: Readonly<Record<string, number>> = { day: 1, week: 7, month: 30 }

/**
 * When what a person said ends, by the person's own words: a date, a day of the week, `tomorrow`, `in 3 weeks`. A date that only
 * a model names counts for nothing. The end of that day, in milliseconds; null where the words name none that is to come.
 */
export function untilIn(
  quote: string,
  proposed: string | undefined,
  saidAt: number,
): number | null {
  const words = plain(quote)
  const named = /\b(?:until|till|through|hadi|mpaka|jusqu'(?:au|a))\b(.*)$/.exec(words)?.[1]
  const next = /\b(for the next (?:\d{1,3}|two|three) (?:day|week|month)s?)\b/.exec(words)?.[1]
  // A date that stands in the words without `until` ends something only where the proposal says so.
  const said = named ?? next ?? (proposed === undefined ? undefined : words)
  const day = said === undefined ? undefined : dayIn(said, saidAt)
  if (day === undefined) return null
  const end = day + dayMs
  return end > saidAt && end - saidAt < farthest * dayMs ? end : null
}

/** The first day that words name, as its beginning in UTC. */
function dayIn(words: string, saidAt: number): number | undefined {
  const today = Math.floor(saidAt / dayMs) * dayMs
  const iso = /\b(\d{4})-(\d{2})-(\d{2})\b/.exec(words)
  if (iso) return dayOf(Number(iso[1]), Number(iso[2]), Number(iso[3]))
  const away = /\b(?:in|for|the next) (\d{1,3}|a|one|two|three) (day|week|month)s?\b/.exec(words)
  if (away) return today + numberOf(away[1] ?? '') * (units[away[2] ?? ''] ?? 1) * dayMs
  if (/\b(?:tomorrow|kesho|demain)\b/.test(words)) return today + dayMs
  if (/\b(?:today|tonight|leo|aujourd'hui)\b/.test(words)) return today
  if (/\bnext week\b/.test(words)) return today + 7 * dayMs
  const written = monthDay(words)
  if (written) return comingDay(written, today)
  const weekday = new RegExp(`\\b(next )?(${weekdays.join('|')})\\b`).exec(words)
  if (!weekday) return undefined
  const ahead = (weekdays.indexOf(weekday[2] ?? '') - new Date(today).getUTCDay() + 7) % 7 || 7
  return today + ahead * dayMs
}

const numberOf = (word: string): number =>
  ({ a: 1, one: 1, two: 2, three: 3 })[word] ?? Number(word)

interface Written {
  readonly day: number
  readonly month: number
  readonly year: number | undefined
}

/** `12 March`, `March 12th 2027`. */
function monthDay(words: string): Written | undefined {
  const months = monthNames.map((name) => `${name.slice(0, 3)}(?:${name.slice(3)})?`).join('|')
  const before = new RegExp(`\\b(\\d{1,2})(?:st|nd|rd|th)? (?:of )?(${months})\\b(?: (\\d{4}))?`)
  const after = new RegExp(`\\b(${months}) (\\d{1,2})(?:st|nd|rd|th)?\\b(?:,? (\\d{4}))?`)
  const [one, other] = [before.exec(words), after.exec(words)]
  const [day, name, year] = one ? one.slice(1) : other ? [other[2], other[1], other[3]] : []
  if (day === undefined || name === undefined) return undefined
  const month = monthNames.findIndex((full) => full.startsWith(name.slice(0, 3))) + 1
  return { day: Number(day), month, year: year === undefined ? undefined : Number(year) }
}

function comingDay({ day, month, year }: Written, today: number): number | undefined {
  const thisYear = new Date(today).getUTCFullYear()
  const found = dayOf(year ?? thisYear, month, day)
  if (found === undefined || year !== undefined || found >= today) return found
  return dayOf(thisYear + 1, month, day)
}

/** A day of the calendar; undefined for one that does not exist, as 31 February. */
function dayOf(year: number, month: number, day: number): number | undefined {
  const time = Date.UTC(year, month - 1, day)
  return new Date(time).getUTCDate() === day && new Date(time).getUTCMonth() === month - 1
    ? time
    : undefined
}

import type { Field } from './schema.ts'

/** The present, and the time zone in which the user's days begin and end. */
export interface Now {
  readonly at: Date
  /** An IANA name. */
  readonly zone: string
}

/** A day or a time as a sentence says it: "tomorrow at 5 pm", "on Friday", "at noon". */
export interface Moment {
  /** The day as `YYYY-MM-DD`; undefined where only a time is said. */
  readonly day: string | undefined
  /** The minute of that day; undefined where only a day is said. */
  readonly minute: number | undefined
}

const weekdays = 'sunday monday tuesday wednesday thursday friday saturday'.split(' ')
const day = String.raw`today|tonight|tomorrow|yesterday|(?:(?:on|next)\s+)?(?:${weekdays.join('|')})|\d{4}-\d{2}-\d{2}(?![T\d])`
const clock = String.raw`(?<![\d:T-])\d{1,2}(?::\d{2})?\s?(?:am\b|pm\b|a\.m\.|p\.m\.)|(?<![\d:T-])\d{1,2}:\d{2}(?![\d:])|noon\b|midnight\b`

/** The ways to say a moment: a time with a day after it, a day with a time after it, a time alone. */
export const momentForms: readonly RegExp[] = [
  new RegExp(String.raw`\b(?:at\s+)?(?<clock>${clock})\s+(?<day>${day})`, 'gi'),
  new RegExp(
    String.raw`\b(?<day>${day})(?:,?\s+(?:at\s+)?(?<clock>${clock})|\s+at\s+(?<hour>\d{1,2})(?:\s+o'clock)?\b)?`,
    'gi',
  ),
  new RegExp(String.raw`\b(?:at\s+)?(?<clock>${clock})`, 'gi'),
]

/** The moment that a match of `momentForms` says; undefined where the clock has no such time. */
export function momentOf({ groups = {} }: RegExpExecArray, now: Now): Moment | undefined {
  const said = groups.day?.toLowerCase()
  const time = (groups.clock ?? groups.hour)?.toLowerCase()
  const minute = time === undefined ? (said === 'tonight' ? 20 * 60 : undefined) : minuteOf(time)
  if (time !== undefined && minute === undefined) return undefined
  return { day: said === undefined ? undefined : dayOf(said, now), minute }
}

function minuteOf(time: string): number | undefined {
  if (time === 'noon') return 12 * 60
  if (time === 'midnight') return 0
  const [, hours = '', minutes = '0', half] = /^(\d+)(?::(\d+))?\s?([ap])?/.exec(time) ?? []
  const hour = Number(hours)
  if (half && (hour < 1 || hour > 12)) return undefined
  const whole = half ? (hour % 12) + (half === 'p' ? 12 : 0) : hour
  return whole > 23 || Number(minutes) > 59 ? undefined : whole * 60 + Number(minutes)
}

const dayMs = 86_400_000

function dayOf(said: string, now: Now): string {
  if (/^\d/.test(said)) return said
  const today = dayIn(now.zone, now.at)
  const offset = { today: 0, tonight: 0, tomorrow: 1, yesterday: -1 }[said]
  if (offset !== undefined) return later(today, offset)
  const weekday = weekdays.findIndex((name) => said.endsWith(name))
  // The weekday of today is the one in a week.
  const ahead = (weekday - new Date(today).getUTCDay() + 7) % 7 || 7
  return later(today, ahead)
}

const later = (from: string, days: number) =>
  new Date(Date.parse(from) + days * dayMs).toISOString().slice(0, 10)

/** The day in a time zone, as `YYYY-MM-DD`. */
export function dayIn(zone: string, at: Date): string {
  return localTime(zone, at).slice(0, 10)
}

/** What a moment is for a field: the day, the time, or both as an instant in UTC, as its format asks. */
export function momentFor({ schema }: Field, { day, minute }: Moment, now: Now): string {
  if (isTime(schema) && minute !== undefined) return `${clockAt(minute)}:00`
  const date = day ?? nextDay(minute ?? 0, now)
  if (schema.format === 'date') return date
  if (schema.format !== 'date-time' && minute === undefined) return date
  return instantAt(date, minute ?? 0, now.zone)
}

/** Whether a field takes a time of the day; zod says so by its pattern alone. */
export const isTime = ({ format, pattern }: Field['schema']): boolean =>
  format === 'time' || pattern?.startsWith('^(?:[01]\\d|2[0-3]):[0-5]') === true

/** The moment that a length of time is away, as an instant in UTC. */
export const momentIn = (ms: number, now: Now): string => plain(now.at.getTime() + ms)

/** A date-time as a field with that format takes it: one without a zone is the user's. */
export function inUtc(text: string, now: Now): string {
  const [, date, hours, minutes] =
    /^(\d{4}-\d{2}-\d{2})(?:T(\d{2}):(\d{2})(?::\d{2}(?:\.\d+)?)?)?$/.exec(text) ?? []
  if (date === undefined || Number.isNaN(Date.parse(date))) return text
  return instantAt(date, Number(hours ?? 0) * 60 + Number(minutes ?? 0), now.zone)
}

/** Today while the time is still to come, and tomorrow after it. */
function nextDay(minute: number, now: Now): string {
  const local = localTime(now.zone, now.at)
  const today = local.slice(0, 10)
  return local.slice(11, 16) < clockAt(minute) ? today : later(today, 1)
}

const clockAt = (minute: number) =>
  [Math.floor(minute / 60), minute % 60].map((part) => String(part).padStart(2, '0')).join(':')

function instantAt(date: string, minute: number, zone: string): string {
  const local = Date.parse(`${date}T${clockAt(minute)}Z`)
  if (Number.isNaN(local)) return date
  // The offset is the one at the instant itself, which the first guess may miss by the change of a clock.
  const guess = local - offsetAt(zone, local)
  return plain(local - offsetAt(zone, guess))
}

const offsetAt = (zone: string, at: number) =>
  Date.parse(`${localTime(zone, new Date(at))}Z`) - Math.floor(at / 1000) * 1000

/** The wall clock of a zone, as `YYYY-MM-DDTHH:MM:SS`. */
function localTime(zone: string, at: Date): string {
  return new Intl.DateTimeFormat('sv-SE', {
    timeZone: zone,
    dateStyle: 'short',
    timeStyle: 'medium',
  })
    .format(at)
    .replace(' ', 'T')
}

const plain = (at: number) => new Date(at).toISOString().replace('.000Z', 'Z')

/** The time zone of a conversation, from the sentence in which the runtime says the day; UTC where it says none. */
export function zoneIn(system: string): string {
  const zone = /\bToday is [^.()\n]{1,80} \(([\w/+-]{1,64})\)\./.exec(system)?.[1]
  try {
    return zone
      ? new Intl.DateTimeFormat('en', { timeZone: zone }).resolvedOptions().timeZone
      : 'UTC'
  } catch {
    return 'UTC'
  }
}

/** Whether a length of time is said as one from now: "in two hours". */
export const isAway = (text: string, { start }: { readonly start: number }): boolean =>
  /\b(?:in|after|within)\s+$/i.test(text.slice(Math.max(0, start - 12), start))

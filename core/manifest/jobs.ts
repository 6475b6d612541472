import { z } from 'zod'
import { RuntimeError } from '../errors.ts'
import type { AnyDefinition, AnyJob, Schema } from '../plugin.ts'
import { knownInstead } from './did-you-mean.ts'
import { isSchema, isWhole, shown } from './tools/tools.ts'

/** How often a job is tried when its definition does not say. */
export const defaultAttempts = 8
/** How long an attempt may take when the definition does not say, and how long at most. */
export const attemptMs = { default: 60_000, longest: 3_600_000 }

const unitMs: Readonly<Record<string, number>> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
}
const shortestMs = 1_000
/** A year: a rarer plan is a `cron`. */
const longestMs = 366 * 86_400_000
const mostAttempts = 1_000

const jobName = /^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$/
const fields = ['input', 'every', 'cron', 'timezone', 'attempts', 'timeoutMs', 'run']

/** The milliseconds of an `every`; undefined where it is none, or is out of bounds. */
export function everyMs(every: unknown): number | undefined {
  const [, digits, unit = ''] =
    typeof every === 'string' ? (/^(\d{1,12})([smhd])$/.exec(every) ?? []) : []
  const ms = typeof every === 'number' ? every : Number(digits) * (unitMs[unit] ?? NaN)
  return Number.isInteger(ms) && ms >= shortestMs && ms <= longestMs ? ms : undefined
}

/** A fault of a job, as boot tells it. */
export const jobFault = (plugin: string, job: string, message: string, hint: string) =>
  new RuntimeError('JOB_INVALID', `Plugin ${plugin}: the job "${job}" ${message}`, { hint })

/** Faults of a plugin's jobs that can be seen without a parser of cron texts. */
export function checkJobs({ name: plugin, jobs }: AnyDefinition): RuntimeError[] {
  if (jobs === undefined) return []
  if (typeof jobs !== 'object' || jobs === null)
    return [
      new RuntimeError('JOB_INVALID', `Plugin ${plugin}: "jobs" is ${shown(jobs)}.`, {
        hint: 'It is an object of jobs by name.',
      }),
    ]
  return Object.entries(jobs).flatMap(([name, job]) =>
    complaintsOf(name, job).map(([message, hint]) => jobFault(plugin, name, message, hint)),
  )
}

type Complaint = readonly [message: string, hint: string]

function complaintsOf(name: string, job: AnyJob): Complaint[] {
  if (!jobName.test(name))
    return [['has a name that cannot be kept.', 'Use at most 64 letters, digits, _ and -.']]
  if (typeof job !== 'object' || job === null)
    return [[`is ${shown(job)}.`, 'It is an object with a "run".']]
  const faults: Complaint[] = Object.keys(job)
    .filter((key) => !fields.includes(key))
    .map((key) => [`has "${key}", which is not a field of a job.`, knownInstead(key, fields)])
  if (typeof job.run !== 'function')
    faults.push(['has no run function.', 'Write run: (input, ctx) => { … }.'])
  const { input, attempts, timeoutMs } = job
  if (input !== undefined && !isSchema(input))
    faults.push(['has an "input" that is not a schema.', 'Write z.object({ … }).'])
  else if (isScheduled(job) && input !== undefined && !takesNothing(input))
    faults.push([
      'has a schedule, and its "input" does not take the {} that a schedule gives.',
      'Give each key a .default(…), make it .optional(), or leave "input" out.',
    ])
  if (attempts !== undefined && !isWhole(attempts, 1, mostAttempts))
    faults.push([
      `has "attempts" of ${shown(attempts)}.`,
      `It is a whole number from 1 to ${mostAttempts}.`,
    ])
  if (timeoutMs !== undefined && !isWhole(timeoutMs, 1, attemptMs.longest))
    faults.push([
      `has a "timeoutMs" of ${shown(timeoutMs)}.`,
      'It is a whole number of milliseconds from 1 to 3,600,000, which is an hour.',
    ])
  return [...faults, ...scheduleFaults(job)]
}

function takesNothing(input: Schema): boolean {
  try {
    return z.safeParse(input, {}).success
  } catch {
    return true // A schema that has to wait for an answer is asked before each attempt.
  }
}

/** Whether the job runs by itself. */
export const isScheduled = ({ every, cron }: AnyJob): boolean =>
  every !== undefined || cron !== undefined

/** What to write for a `cron` that cannot be read, or never comes. */
export const cronForm =
  'Write five fields (minute, hour, day, month, weekday), six with seconds before them, or @daily and its like.'

function scheduleFaults({ every, cron, timezone }: AnyJob): Complaint[] {
  if (every !== undefined && cron !== undefined)
    return [['has both "every" and "cron".', 'A job has one schedule: drop one of them.']]
  const faults: Complaint[] = []
  if (every !== undefined && everyMs(every) === undefined)
    faults.push([
      `has "every" of ${shown(every)}.`,
      'Write a number and s, m, h or d, such as "15m", or milliseconds: from 1 second to 366 days.',
    ])
  if (cron !== undefined && !isCronText(cron))
    faults.push([`has "cron" of ${shown(cron)}.`, cronForm])
  if (timezone === undefined) return faults
  if (cron === undefined)
    faults.push([
      'has a "timezone" and no "cron".',
      'A time zone says when a cron text comes true; "every" needs none.',
    ])
  if (!isZone(timezone))
    faults.push([
      `has the "timezone" ${shown(timezone)}, which is not known here.`,
      'Write a name of the IANA list, such as "Europe/Berlin".',
    ])
  return faults
}

/** Five or six fields, or one word with an @: what the fields say is the parser's to judge. */
function isCronText(cron: unknown): boolean {
  if (typeof cron !== 'string' || cron.length > 200) return false
  const parts = cron.trim().split(/\s+/)
  return parts.length === 1 ? cron.trim().startsWith('@') : parts.length === 5 || parts.length === 6
}

function isZone(zone: unknown): boolean {
  if (typeof zone !== 'string' || !/^[A-Za-z]/.test(zone)) return false
  try {
    new Intl.DateTimeFormat('en', { timeZone: zone })
    return true
  } catch {
    return false
  }
}

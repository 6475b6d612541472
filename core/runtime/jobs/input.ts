import { z } from 'zod'
import { RuntimeError } from '../../errors.ts'
import { faultsOf, faultText } from '../../manifest/faults.ts'
import type { AnyJob, LaterOptions } from '../../plugin.ts'
import { meant } from '../../manifest/did-you-mean.ts'
import { isDid } from '../base/did-form.ts'
import { isRecord } from '../base/fields.ts'

/** How much JSON the data of a job may be. */
const mostBytes = 64 * 1024
const longestKey = 200
/** How far ahead a job may be due: a time beyond that is a mistake in the caller's arithmetic. */
const furthestMs = 10 * 366 * 86_400_000

/** When a job is due: at a time, or so many milliseconds from now. */
export type Due = { readonly at: number } | { readonly inMs: number }

const refused = (message: string, hint?: string, details?: unknown) =>
  new RuntimeError('INPUT_INVALID', message, { hint, details })

/** The data as the database keeps it, once it fits the job's input. */
export async function readData(what: string, job: AnyJob, data: unknown): Promise<string> {
  if (job.input === undefined) {
    if (data === undefined) return 'null'
    throw refused(`${what} takes no data.`, 'Give the job an "input", a schema of its data.')
  }
  const text = toJson(what, data)
  const bytes = Buffer.byteLength(text)
  if (bytes > mostBytes)
    throw refused(
      `The data of ${what} is ${bytes.toLocaleString('en')} bytes of JSON, and 65,536 are taken.`,
      'Keep what is large in a table of the plugin, and hand the job its id.',
    )
  // The check reads the JSON again, because the handler will: a Date has become a text there.
  await parseData(what, job, text)
  return text
}

/** What the handler gets. A job of an older version may have data that no longer fits. */
export async function parseData(what: string, job: AnyJob, text: string): Promise<unknown> {
  if (job.input === undefined) return undefined
  const parsed = await z.safeParseAsync(job.input, JSON.parse(text))
  if (parsed.success) return parsed.data
  const faults = faultsOf(parsed.error)
  throw refused(`The data of ${what} does not fit: ${faultText(faults)}.`, undefined, { faults })
}

function toJson(what: string, data: unknown): string {
  try {
    const text = JSON.stringify(data)
    if (text !== undefined) return text
  } catch (cause) {
    throw new RuntimeError('INPUT_INVALID', `The data of ${what} is not JSON: ${String(cause)}.`, {
      cause,
    })
  }
  throw refused(`The data of ${what} is ${typeof data}, and has to be JSON.`)
}

/** The key as it is given; undefined where none is. */
export function readKey(what: string, key: unknown): string | undefined {
  if (key === undefined) return undefined
  if (typeof key !== 'string' || key === '')
    throw refused(`The key of ${what} is not a text of one character or more.`)
  if (key.length > longestKey)
    throw refused(
      `The key of ${what} has ${key.length.toLocaleString('en')} characters, and ${longestKey} are taken.`,
      'Hash what is longer.',
    )
  // PostgreSQL keeps no U+0000, and half of a pair is no text.
  if (/\p{Cc}/u.test(key) || !key.isWellFormed())
    throw refused(`The key of ${what} holds a control character or a broken one.`)
  return key
}

/** The DID that the job is about; undefined where none is given. */
export function readUser(what: string, user: unknown): string | undefined {
  if (user === undefined) return undefined
  if (isDid(user)) return user
  throw refused(`The user of ${what} is not a DID.`, 'Pass user.did.')
}

const optionNames = ['at', 'inMs', 'key', 'user']

/** The options of `later`. A misspelt one would make a job that runs at once. */
export function readLaterOptions(what: string, options: unknown): LaterOptions {
  if (!isRecord(options))
    throw refused(
      `The options of ${what} are ${String(options).slice(0, 40)}.`,
      'Pass an object such as { inMs: 60_000 }, or leave them out.',
    )
  for (const name of Object.keys(options))
    if (!optionNames.includes(name))
      throw refused(
        `The options of ${what} have "${name.slice(0, 64)}".`,
        meant(name, optionNames) || 'They are at, inMs, key and user.',
      )
  return options
}

/** When the job is due, by the time of this process. */
export function readDue(what: string, { at, inMs }: LaterOptions, now: Date): Due {
  if (at !== undefined && inMs !== undefined)
    throw refused(`${what} is asked for with both "at" and "inMs".`, 'Drop one of them.')
  if (inMs !== undefined) {
    if (typeof inMs !== 'number' || !(inMs >= 0 && inMs <= furthestMs))
      throw refused(
        `The "inMs" of ${what} is ${String(inMs).slice(0, 40)}.`,
        'It is a number of milliseconds from 0 to ten years.',
      )
    return { inMs: Math.round(inMs) }
  }
  if (at === undefined) return { inMs: 0 }
  if (!(at instanceof Date) || Number.isNaN(at.getTime()))
    throw refused(`The "at" of ${what} is not a date.`, 'Pass a valid Date.')
  if (at.getTime() > now.getTime() + furthestMs)
    throw refused(
      `The "at" of ${what} is ${at.toISOString()}, more than ten years ahead.`,
      'Let a job that comes sooner ask for the next one.',
    )
  return { at: Math.max(0, at.getTime()) }
}

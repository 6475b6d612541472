import { RuntimeError } from '../../errors.ts'

/** The first wait, which doubles with each attempt, and the longest. */
const waits = { firstMs: 1_000, longestMs: 3_600_000, spread: 0.2 }
/** A server that asks for more patience is asked again after a day all the same. */
const longestAskedMs = 86_400_000
/** Statuses of a caller's fault that pass: a timeout, a conflict, something too early, too many requests. */
const passing = new Set([408, 409, 425, 429])
const longestError = 500

/** Thrown by `job.giveUp`. */
export class GivenUp extends Error {}

/** Thrown by `job.retryIn`. */
export class RetryIn extends Error {
  readonly ms: number

  constructor(ms: number) {
    super(`The handler asked for another attempt in ${ms} ms.`)
    this.ms = ms
  }
}

/** What follows an attempt that threw. */
export type Verdict =
  | { readonly outcome: 'dead'; readonly error: string }
  | { readonly outcome: 'retry'; readonly error: string; readonly waitMs: number }

/** Whether the job is tried again after this, and when. */
export function verdictOn(thrown: unknown, attempt: number, attempts: number): Verdict {
  const error = sentenceOf(thrown)
  if (thrown instanceof GivenUp || isFinal(thrown) || attempt >= attempts)
    return { outcome: 'dead', error }
  if (thrown instanceof RetryIn) return { outcome: 'retry', error, waitMs: thrown.ms }
  const waitMs = Math.max(backoffMs(attempt), askedMs(thrown))
  return { outcome: 'retry', error, waitMs }
}

/** The wait after an attempt: 1 s, 2 s, 4 s and so on up to an hour, a fifth more or less. */
export function backoffMs(attempt: number, random: () => number = Math.random): number {
  const { firstMs, longestMs, spread } = waits
  const ms = Math.min(longestMs, firstMs * 2 ** Math.min(attempt - 1, 30))
  return Math.round(ms * (1 - spread + 2 * spread * random()))
}

/** A request that is refused for what it says is refused again. */
const isFinal = (thrown: unknown): boolean =>
  thrown instanceof RuntimeError &&
  thrown.status >= 400 &&
  thrown.status < 500 &&
  !passing.has(thrown.status)

/** What the `Retry-After` of a thrown error asks for: seconds or a date. */
function askedMs(thrown: unknown): number {
  const headers = thrown instanceof RuntimeError ? thrown.headers : undefined
  const [, said = ''] =
    Object.entries(headers ?? {}).find(([name]) => name.toLowerCase() === 'retry-after') ?? []
  if (said === '') return 0
  const ms = /^\d+$/.test(said) ? Number(said) * 1_000 : Date.parse(said) - Date.now()
  return ms > 0 ? Math.min(ms, longestAskedMs) : 0
}

/** What the operator reads of a failed attempt. */
export function sentenceOf(thrown: unknown): string {
  const safe = textOf(thrown).replaceAll('\0', '').toWellFormed()
  return safe.length <= longestError ? safe : `${safe.slice(0, longestError)}…`.toWellFormed()
}

function textOf(thrown: unknown): string {
  try {
    if (thrown instanceof RuntimeError) return `${thrown.message} (${thrown.code})`
    return String(thrown instanceof Error ? thrown.message : thrown)
  } catch {
    // An object without a prototype, or whose message throws when it is read: the job has to end all the same.
    return 'What was thrown cannot be read.'
  }
}

import { RuntimeError } from '../../errors.ts'
import { attemptMs, defaultAttempts } from '../../manifest/jobs.ts'
import type { Job, JobContext } from '../../plugin.ts'
import { Facts } from '../audit/line.ts'
import type { PluginRecord } from '../base/plugin-record.ts'
import { underWay } from '../watchdog/under-way.ts'
import type { ClaimedJob } from './claims.ts'
import { parseData } from './input.ts'
import type { KnownJob } from './known-jobs.ts'

/** How long a handler may go on after its signal has fired because its time was over. */
const graceMs = 1_000
/** The furthest that a handler may put its next attempt off. */
const longestRetryMs = 30 * 86_400_000

/** The first wait, which doubles with each attempt, and the longest. */
const waits = { firstMs: 1_000, longestMs: 3_600_000, spread: 0.2 }
/** A server that asks for more patience is asked again after a day all the same. */
const longestAskedMs = 86_400_000
/** Statuses of a caller's fault that pass: a timeout, a conflict, something too early, too many requests. */
const passing = new Set([408, 409, 425, 429])
const longestError = 500

/** Thrown by `job.giveUp`. */
class GivenUp extends Error {}

/** Thrown by `job.retryIn`. */
class RetryIn extends Error {
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

/** How an attempt ended, before the database heard of it. */
export type AttemptEnd =
  | { readonly outcome: 'done' }
  | (Verdict & { readonly thrown: unknown })
  /** The server stops, or another process has the job: the result of this attempt does not count. */
  | { readonly outcome: 'given-back' | 'lost' }

/** Why an attempt is stopped from outside. */
export type StopCause = 'closing' | 'lost'

/** One attempt of one job: the call of its handler, with its time limit. */
export class Attempt {
  readonly row: ClaimedJob
  readonly known: KnownJob
  /** What the handler told the audit of. */
  readonly facts = new Facts()
  /** When this process claimed the job or last renewed its lease. */
  heldSince = performance.now()
  /** How long the handler was at work; known when the attempt has ended. */
  tookMs = 0
  readonly #stopping = new AbortController()
  readonly #signal: AbortSignal
  readonly #over = Promise.withResolvers<'over'>()
  readonly #timer: NodeJS.Timeout
  readonly #timeoutMs: number
  #cause: StopCause | 'timeout' | undefined

  constructor(row: ClaimedJob, known: KnownJob) {
    this.row = row
    this.known = known
    this.#signal = this.#stopping.signal
    this.#timeoutMs = known.job.timeoutMs ?? attemptMs.default
    this.#timer = setTimeout(() => this.#stop('timeout'), this.#timeoutMs).unref()
  }

  /** Fires the signal of the handler. */
  stop(cause: StopCause): void {
    this.#stop(cause)
  }

  /** Stops waiting for the handler, even if the handler goes on. */
  abandon(): void {
    this.#over.resolve('over')
  }

  /** Calls the handler; resolves to how that ended. Never rejects. */
  async run(): Promise<AttemptEnd> {
    const { row, known } = this
    const attempts = known.job.attempts ?? defaultAttempts
    const work = this.#call(attempts).then(
      (): AttemptEnd => ({ outcome: 'done' }),
      (thrown: unknown): AttemptEnd =>
        // A handler that gave up before its signal fired has decided the job.
        (thrown instanceof GivenUp ? undefined : this.#interrupted()) ??
        this.#judge(thrown, attempts),
    )
    const end = await Promise.race([work, this.#over.promise])
    clearTimeout(this.#timer)
    if (end !== 'over') return end
    return this.#interrupted() ?? this.#judge(undefined, attempts)
  }

  #judge(thrown: unknown, attempts: number): AttemptEnd {
    const isDecision = thrown instanceof GivenUp || thrown instanceof RetryIn
    // The error names the time limit, because what the handler throws when its signal fires seldom does.
    const fault =
      this.#cause === 'timeout' && !isDecision
        ? new Error(`The attempt took longer than ${this.#timeoutMs} ms.`, { cause: thrown })
        : thrown
    return { ...verdictOn(fault, this.row.attempts, attempts), thrown: fault }
  }

  #interrupted(): AttemptEnd | undefined {
    if (this.#cause === 'closing') return { outcome: 'given-back' }
    return this.#cause === 'lost' ? { outcome: 'lost' } : undefined
  }

  #stop(cause: StopCause | 'timeout'): void {
    // Once the job is lost nothing changes that, and a time limit changes nothing in an attempt that is stopped already.
    if (this.#cause === 'lost' || (this.#cause && cause === 'timeout')) return
    this.#cause = cause
    this.#stopping.abort(new RuntimeError('ABORTED', sentences[cause]))
    if (cause === 'timeout') setTimeout(() => this.abandon(), graceMs).unref()
    if (cause === 'lost') this.abandon()
  }

  async #call(attempts: number): Promise<void> {
    const { row, known } = this
    const { job, record } = known
    // In each attempt the process died or lost the job, so no attempt is left.
    if (row.attempts > attempts)
      throw new GivenUp(`${attempts} attempts began and none ended: ${row.error ?? 'see the log'}.`)
    underWay(`job ${row.plugin}.${row.name}`)
    const data = await parseData(`${row.plugin}.${row.name}`, job, row.data)
    await job.run(data, contextOf(record, this.#signal, this.#job(), this.facts))
  }

  #job(): Job {
    const { id, name, key, attempts, planned_at, did } = this.row
    return {
      id,
      name,
      key,
      attempt: attempts,
      dueAt: new Date(planned_at),
      user: did ?? undefined,
      signal: this.#signal,
      giveUp(why) {
        throw new GivenUp(sentenceOf(why))
      },
      retryIn(ms) {
        if (typeof ms === 'number' && ms >= 0 && ms <= longestRetryMs) throw new RetryIn(ms)
        throw new RuntimeError(
          'INPUT_INVALID',
          `job.retryIn was given ${String(ms).slice(0, 40)}.`,
          { hint: 'It is a number of milliseconds from 0 to 30 days.' },
        )
      },
    }
  }
}

const sentences = {
  timeout: 'The time of the attempt is over.',
  closing: 'The server stops; the job is given back.',
  lost: 'Another process has the job.',
}

/** What the handler sees. Only jobs of plugins whose setup has finished are claimed. */
function contextOf(
  { base, modelsWithin }: PluginRecord,
  signal: AbortSignal,
  job: Job,
  facts: Facts,
): JobContext {
  if (base === undefined) throw new RuntimeError('UNAVAILABLE', 'The plugin is not set up.')
  const asked = modelsWithin?.({ signal: () => signal, did: job.user })
  return { ...base, ...asked, signal, job, requestId: job.id, audit: (ids) => facts.add(ids) }
}

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
function sentenceOf(thrown: unknown): string {
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

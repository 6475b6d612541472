import type { QueryExecutorProvider } from 'kysely'
import type { Base } from './context.ts'
import type { Rooms } from './sessions.ts'
import type { Parsed, Schema, SchemaLike } from './schema.ts'

/** When the job that `later` asks for runs, under which key and for whom. */
export interface LaterOptions {
  /** Not before this time, at most ten years ahead. A time that has passed means now. */
  readonly at?: Date
  /** Not before so many milliseconds have passed. */
  readonly inMs?: number
  /** At most 200 characters. The same key of one job finds the first, until 7 days after that one's end. */
  readonly key?: string
  /** The DID whose data the job is about. */
  readonly user?: string
}

/** The job that `later` made, or found by its key. */
export interface LaterJob {
  /** The id of the job, as the operator's lists show it. */
  readonly id: string
  /** False when a job with the same key was there before. */
  readonly isNew: boolean
}

/** The data of a job of which nothing is known: it is checked when `later` is called. */
interface UnknownInput {
  readonly '~unknown': true
}

/** The jobs of a plugin of which nothing is known. */
export type UnknownInputs = Readonly<Record<string, UnknownInput>>

/** What follows the name in a call of `later`: a job without `input` takes no data. */
type LaterArguments<Input> = Input extends UnknownInput
  ? [data?: unknown, options?: LaterOptions]
  : Input extends SchemaLike
    ? [data: Input['_zod']['input'], options?: LaterOptions]
    : [data?: undefined, options?: LaterOptions]

/** Asks for jobs of one plugin. `Inputs` are the schemas of their data, by the name of the job. */
export interface Jobs<Inputs> {
  /**
   * Keeps a job in the database, `later(name, data, options)`; some replica runs it, at least once. The data is at most
   * 64 KiB of JSON, and `undefined` for a job without `input`.
   */
  later<Name extends keyof Inputs & string>(
    name: Name,
    ...dataAndOptions: LaterArguments<Inputs[Name]>
  ): Promise<LaterJob>
  /**
   * Deletes the job of that key, so that no further attempt begins. Resolves to true when no attempt had begun; to false
   * also when there is no such job, and when the job is running, which `cancel` does not stop.
   */
  cancel<Name extends keyof Inputs & string>(name: Name, key: string): Promise<boolean>
  /** The same inside a transaction of yours: its jobs are there when it commits, and not when it rolls back. */
  within(trx: QueryExecutorProvider): Jobs<Inputs>
}

/** A job as its handler sees it, in one attempt. */
export interface Job {
  /** The id of the job. */
  readonly id: string
  /** The name of the job in the definition. */
  readonly name: string
  /** The same in every attempt, and for each planned time of a schedule another: pass it on as an Idempotency-Key. */
  readonly key: string
  /** 1 in the first attempt. */
  readonly attempt: number
  /** When the job was due; of a schedule the planned time, or the newest one that was missed. */
  readonly dueAt: Date
  /** The DID that `later` was given. */
  readonly user: string | undefined
  /** Fires when the time of the attempt is over, when the server stops, and when another process has the job. */
  readonly signal: AbortSignal
  /** Ends the job as dead, by a throw: no further attempt is made. `why` is what the operator reads. */
  giveUp(why: string): never
  /** Ends this attempt, by a throw, and begins the next after so many milliseconds. It counts as an attempt. */
  retryIn(ms: number): never
}

/** What the handler of a job sees. */
export interface JobContext<
  Env = unknown,
  Self = unknown,
  Peers = unknown,
  Inputs = UnknownInputs,
  State = Record<string, unknown>,
> extends Base<Env, Self, Peers, Inputs> {
  /** The plugin's room-scoped keys of any user. */
  readonly rooms: Rooms<State>
  /** The job, and which attempt this call makes. */
  readonly job: Job
}

/** A job: work that outlives the process. With `every` or `cron` it runs by itself, otherwise when `later` says so. */
export interface JobIn<Input, Context> {
  /** The schema of the data: checked when `later` is called, and again before each attempt. A schedule's data is `{}`. */
  readonly input?: Input
  /** `'15m'` (s, m, h, d) or milliseconds, one second at least. The phase stays as it was at the first boot. */
  readonly every?: string | number
  /** Five or six fields, or a word such as `@daily`. */
  readonly cron?: string
  /** The time zone of `cron`, such as `Europe/Berlin`; by default UTC. */
  readonly timezone?: string
  /** How many attempts are made, 8 by default; the waits between them grow from a second to an hour. */
  readonly attempts?: number
  /** How long an attempt may take, 60,000 by default and an hour at most. */
  readonly timeoutMs?: number
  /** Does the work. It may run again after a crash, so pass `ctx.job.key` on to what must happen once. */
  run(data: JobData<Input>, ctx: Context): unknown
}

type JobData<Input> = Input extends SchemaLike ? Parsed<Input> : undefined

/** Refuses an `input` that is not a schema, apart from the inference. The other fields are checked beside it. */
type JobSchemas = Readonly<
  Record<string, { readonly input?: SchemaLike; readonly [field: string]: unknown }>
>

/** The section `jobs`, from the schemas of their inputs. */
export type JobSection<Inputs, Context> = {
  [K in keyof Inputs]: JobIn<Inputs[K], Context>
} & JobSchemas

/** A job with its types erased, as the kernel runs it. */
export interface AnyJob extends Omit<JobIn<Schema, JobContext>, 'run'> {
  run(data: unknown, ctx: JobContext): unknown
}

/** `jobs` of a plugin of which nothing more is known. */
export type AnyJobs = Jobs<UnknownInputs>

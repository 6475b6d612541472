import type { QueryExecutorProvider } from 'kysely'
import { RuntimeError } from '../../errors.ts'
import { meant } from '../../manifest/did-you-mean.ts'
import type { AnyDefinition, AnyJob, AnyJobs, LaterJob, LaterOptions } from '../../plugin.ts'
import { keepJob, cancelJob, findByKey } from './asking.ts'
import type { Now } from '../base/clock.ts'
import type { Fullness } from './bounds.ts'
import { readData, readDue, readKey, readLaterOptions, readUser } from './input.ts'
import type { JobStore } from './tables.ts'
import { kindOf } from './known-jobs.ts'
import { isScheduled } from '../../manifest/jobs.ts'

/** What asking for jobs needs, the same for all plugins. */
export interface AskingParts {
  readonly store: JobStore
  readonly fullness: Fullness
  /** The time as plugins have it. */
  readonly now: Now
  /** Hears of a new job that is due in so many milliseconds. */
  wake(inMs: number): void
}

/** `jobs` of one plugin, on the database or in a transaction. */
export class PluginJobs implements AnyJobs {
  readonly #parts: AskingParts
  readonly #definition: AnyDefinition
  readonly #db: QueryExecutorProvider

  constructor(parts: AskingParts, definition: AnyDefinition, db: QueryExecutorProvider) {
    this.#parts = parts
    this.#definition = definition
    this.#db = db
  }

  later = async (name: string, data?: unknown, given: LaterOptions = {}): Promise<LaterJob> => {
    const { store, fullness, now, wake } = this.#parts
    const { name: plugin } = this.#definition
    const job = this.#demand(name)
    const kind = kindOf(plugin, name)
    if (isScheduled(job))
      throw new RuntimeError(
        'INPUT_INVALID',
        `${kind} has a schedule, so "later" does not start it.`,
        {
          hint: 'Declare a second job without a schedule that does the same work.',
        },
      )
    const options = readLaterOptions(kind, given)
    const due = readDue(kind, options, now())
    const key = readKey(kind, options.key)
    const user = readUser(kind, options.user)
    const text = await readData(kind, job, data)
    try {
      await fullness.demand(this.#db, plugin, user)
    } catch (full) {
      // A caller that repeats its key gets the job that is there, even where there is no room for another job.
      const id = key === undefined ? key : await findByKey(this.#db, { plugin, name, key })
      if (id === undefined) throw full
      return { id, isNew: false }
    }
    const asked = await keepJob(store, this.#db, { plugin, name, kind, data: text, due, key, user })
    // On PostgreSQL the notification wakes this process too, when the transaction is committed. On SQLite the look
    // waits until an open transaction has ended.
    if (asked.isNew && store.kind === 'sqlite')
      wake('at' in due ? due.at - now().getTime() : due.inMs)
    return asked
  }

  cancel = async (name: string, key: string): Promise<boolean> => {
    this.#demand(name)
    const { name: plugin } = this.#definition
    const known = readKey(kindOf(plugin, name), key)
    if (known === undefined)
      throw new RuntimeError('INPUT_INVALID', `No key of ${kindOf(plugin, name)} to cancel.`, {
        hint: 'Pass the key that "later" was given.',
      })
    return (await cancelJob(this.#db, plugin, name, known)) ?? false
  }

  within = (trx: QueryExecutorProvider): AnyJobs => {
    if (!('getExecutor' in Object(trx)))
      throw new RuntimeError('INPUT_INVALID', 'jobs.within was given no transaction.', {
        hint: 'Write db.transaction().execute((trx) => jobs.within(trx).later(…)).',
      })
    return new PluginJobs(this.#parts, this.#definition, trx)
  }

  #demand(name: string): AnyJob {
    const jobs = this.#definition.jobs ?? {}
    const job = Object.hasOwn(jobs, name) ? jobs[name] : undefined
    if (job !== undefined) return job
    throw new RuntimeError(
      'INPUT_INVALID',
      `Plugin ${this.#definition.name} has no job "${String(name).slice(0, 64)}".`,
      { hint: meant(String(name), Object.keys(jobs)) || 'Declare it in the section "jobs".' },
    )
  }
}

import { z } from 'zod'
import type { AnyJob, JobContext } from '../../plugin.ts'
import { fieldsIn } from '../base/fields.ts'
import { isActive, isOpen, type PluginRecord } from '../base/plugin-record.ts'
import type { Notices } from '../notices/notices.ts'
import type { JobPlan, JobPlans } from './plan.ts'

/** A job that a plugin of this app declares. */
export interface KnownJob {
  readonly plugin: string
  readonly name: string
  readonly job: AnyJob
  readonly record: PluginRecord
  /** Only with `every` or `cron`. */
  readonly plan: JobPlan | undefined
  /** The kind in the job's row: a process claims only kinds that it knows, and a changed plan makes another kind. */
  readonly kind: string
}

/** The jobs of all plugins of an app, by kind. */
export class KnownJobs {
  readonly #byKind = new Map<string, KnownJob>()

  constructor(records: readonly PluginRecord[], plans: JobPlans, notices?: Pick<Notices, 'find'>) {
    for (const record of records.filter(isActive)) {
      const carrying = notices && carryingJobOf(record, notices)
      if (carrying) this.#add(record, carryingJob, carrying, undefined)
      for (const [name, job] of Object.entries(record.definition.jobs ?? {}))
        this.#add(record, name, job, plans.get(`${record.name}.${name}`))
    }
  }

  #add(record: PluginRecord, name: string, job: AnyJob, plan: JobPlan | undefined): void {
    const kind = kindOf(record.name, name, plan?.text)
    this.#byKind.set(kind, { plugin: record.name, name, job, record, plan, kind })
  }

  /** Whether no plugin has jobs: then nothing is looked for. */
  get isEmpty(): boolean {
    return this.#byKind.size === 0
  }

  /** The jobs of plugins that take part in the app, also of those that are pending or failed. */
  get all(): KnownJob[] {
    return [...this.#byKind.values()].filter(({ record }) => isActive(record))
  }

  /** The jobs by which plugins carry notices. */
  get carriers(): KnownJob[] {
    return this.all.filter(({ name }) => name === carryingJob)
  }

  /** The kinds that this process runs now: a plugin that is pending or failed claims nothing. */
  get ready(): string[] {
    return this.all.filter(({ record }) => isOpen(record)).map(({ kind }) => kind)
  }

  /** The job of a row. */
  find(kind: string): KnownJob | undefined {
    return this.#byKind.get(kind)
  }
}

/** The kind of a job. Names of plugins have no dots and names of jobs no spaces, so no two jobs share a kind. */
export const kindOf = (plugin: string, name: string, plan?: string): string =>
  plan === undefined ? `${plugin}.${name}` : `${plugin}.${name} ${plan}`

/** The name of the job by which a plugin carries a notice. No plugin can give a job of its own this name. */
export const carryingJob = '@notices'

const carryingInput = z.object({ id: z.number() })

/** The job by which a plugin carries notices; undefined for a plugin that carries none. */
function carryingJobOf(
  { definition }: PluginRecord,
  notices: Pick<Notices, 'find'>,
): AnyJob | undefined {
  if (definition.notices === undefined) return undefined
  return {
    input: carryingInput,
    async run(data, ctx: JobContext) {
      const { id } = fieldsIn(data)
      // A notice that is gone, as with its session, is carried no more.
      const notice = await notices.find(ctx.job.user ?? '', Number(id))
      if (notice) await definition.notices?.(notice, ctx)
    },
  }
}

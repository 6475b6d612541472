import type { Cron } from 'croner'
import type { RuntimeError } from '../../errors.ts'
import { checkJobs, cronForm, everyMs, isScheduled, jobFault } from '../../manifest/jobs.ts'
import type { AnyJob } from '../../plugin.ts'
import { isActive, type PluginRecord } from '../base/plugin-record.ts'

/** When a scheduled job runs. Times are milliseconds since 1970. */
export interface JobPlan {
  /** The plan as the database keeps it: another text is another plan. */
  readonly text: string
  /** The first planned time after `now`; `phase` is a time of the plan, or where a new plan begins. */
  after(now: number, phase: number): number | undefined
  /**
   * The newest planned time that has come by `now`, or the one so many times before it; `planned` when no time after
   * `planned` is that old.
   */
  newest(planned: number, now: number, before?: number): number
}

/** The plans of scheduled jobs, by `<plugin>.<job>`. */
export type JobPlans = ReadonlyMap<string, JobPlan>

/**
 * Reads the schedules of all active plugins. The parser of cron texts is imported only when there is one. A text that
 * the parser refuses, or that never comes true, is a fault; a job that the manifest check refused has no plan here.
 */
export async function readPlans(
  records: readonly PluginRecord[],
): Promise<{ readonly plans: JobPlans; readonly faults: readonly RuntimeError[] }> {
  const plans = new Map<string, JobPlan>()
  const faults: RuntimeError[] = []
  for (const { name: plugin, definition } of records.filter(isActive)) {
    if (definition.jobs === undefined || checkJobs(definition).length > 0) continue
    for (const [name, job] of Object.entries(definition.jobs)) {
      if (!isScheduled(job)) continue
      try {
        const plan = job.cron === undefined ? everyPlan(job) : await cronPlan(job)
        if (plan) plans.set(`${plugin}.${name}`, plan)
      } catch (thrown) {
        const why = thrown instanceof Error ? thrown.message : String(thrown)
        const message = `has "cron" of ${JSON.stringify(job.cron)}: ${why}`
        faults.push(jobFault(plugin, name, message, cronForm))
      }
    }
  }
  return { plans, faults }
}

function everyPlan({ every }: AnyJob): JobPlan | undefined {
  const ms = everyMs(every)
  if (ms === undefined) return undefined // the manifest check has named it
  return {
    text: `every ${ms}`,
    after: (now, phase) => phase + (Math.floor((now - phase) / ms) + 1) * ms,
    newest: (planned, now, before = 0) =>
      planned + Math.max(0, Math.floor((now - planned) / ms) - before) * ms,
  }
}

async function cronPlan({ cron = '', timezone = 'UTC' }: AnyJob): Promise<JobPlan> {
  const { Cron } = await import('croner')
  const pattern: Cron = new Cron(cron.trim(), { timezone, mode: '5-or-6-parts' })
  const after = (now: number) => pattern.nextRun(new Date(now))?.getTime()
  if (after(Date.now()) === undefined) throw new Error('this time never comes.')
  return {
    text: `cron ${timezone} ${cron.trim()}`,
    after,
    newest(planned, now, before = 0) {
      // The parser finds times before a moment; half a second later the second that has just begun counts.
      const from = new Date(Math.floor(now / 1_000) * 1_000 + 500)
      const times = pattern.previousRuns(before + 1, from)
      return Math.max(planned, times[before]?.getTime() ?? planned)
    },
  }
}

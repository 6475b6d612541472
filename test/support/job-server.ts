import { appendFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { definePlugin } from '../../core/plugin.ts'
import { createApp } from '#core'

/** What a server with jobs is told on its command line. */
export interface JobServerSettings {
  readonly databaseUrl?: string
  readonly dataDir?: string
  /** Where each beginning and end of an attempt is noted, a line of JSON each: the world outside. */
  readonly notes: string
  readonly leaseMs: number
  /** How long the work of one job takes, 10 ms by default. */
  readonly workMs?: number
  /** With it the plugin has a job that ticks so often. */
  readonly every?: number
  /** How long a tick is at work, not at all by default. */
  readonly tickMs?: number
}

/** A line of the notes. */
export interface JobNote {
  readonly what: 'began' | 'ended' | 'tick'
  readonly n: number
  readonly key: string
  readonly attempt: number
  readonly pid: number
}

const settings = JSON.parse(process.argv[2] ?? '{}') as JobServerSettings
const {
  databaseUrl,
  dataDir = ':memory:',
  notes,
  leaseMs,
  workMs = 10,
  every,
  tickMs = 0,
} = settings
const note = (line: Omit<JobNote, 'pid'>) =>
  appendFileSync(notes, `${JSON.stringify({ ...line, pid: process.pid })}\n`)

const worker = definePlugin({
  name: 'worker',
  summary: 'Works.',
  jobs: {
    work: {
      input: z.object({ n: z.number() }),
      attempts: 100,
      async run({ n }, { job, signal }) {
        note({ what: 'began', n, key: job.key, attempt: job.attempt })
        await sleep(workMs, undefined, { signal })
        note({ what: 'ended', n, key: job.key, attempt: job.attempt })
      },
    },
    ...(every !== undefined && {
      tick: {
        every,
        async run(_: unknown, { job }: { job: { dueAt: Date; key: string; attempt: number } }) {
          note({ what: 'tick', n: job.dueAt.getTime(), key: job.key, attempt: job.attempt })
          await sleep(tickMs)
        },
      },
    }),
  },
  routes: {
    'POST /work': {
      auth: 'public',
      input: z.object({ from: z.number(), to: z.number() }),
      async run({ from, to }, { jobs }) {
        for (let n = from; n < to; n++) await jobs.later('work', { n }, { key: `n-${n}` })
        return { asked: to - from }
      },
    },
  },
})

const app = await createApp({
  plugins: [worker],
  env: {
    NODE_ENV: 'test',
    LOG_LEVEL: 'silent',
    RUN_LEASE_MS: String(leaseMs),
    DATA_DIR: dataDir,
    DATABASE_URL: databaseUrl,
    OPERATOR_TOKEN: 'the-operator-of-these-jobs',
  },
})
const { url } = await app.listen({ port: 0, host: '127.0.0.1' })
process.once('SIGTERM', () => void app.close().then(() => process.exit(0)))
console.log(url)

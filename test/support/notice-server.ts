import { appendFileSync, existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { createApp } from '#core'
import { definePlugin } from '../../core/plugin.ts'

/** What a server whose plugin carries notices is told on its command line. */
export interface NoticeServerSettings {
  readonly databaseUrl?: string
  readonly dataDir?: string
  /** Where each beginning and end of carrying is noted, a line of JSON each. */
  readonly notes: string
  /** As long as this file is not there, carrying a notice does not end. */
  readonly gate: string
}

/** A line of the notes. */
export interface CarriedNote {
  readonly what: 'began' | 'ended'
  readonly key: string
  readonly id: number
  readonly attempt: number
  readonly user: string
}

const settings = JSON.parse(process.argv[2] ?? '{}') as NoticeServerSettings
const { databaseUrl, dataDir = ':memory:', notes, gate } = settings

const pager = definePlugin({
  name: 'pager',
  summary: 'Carries notices to a pager.',
  jobs: {
    fail: {
      input: z.object({}),
      attempts: 1,
      run: (_, { job }) => job.giveUp('This cannot be done.'),
    },
  },
  routes: {
    'POST /fail': {
      auth: 'public',
      input: z.object({ did: z.string(), many: z.number() }),
      async run({ did, many }, { jobs }) {
        for (let n = 0; n < many; n++) await jobs.later('fail', {}, { user: did })
        return {}
      },
    },
  },
  async notices({ id, user }, { job, signal }) {
    const note = (what: CarriedNote['what']) => {
      const line: CarriedNote = { what, key: job.key, id, attempt: job.attempt, user }
      appendFileSync(notes, `${JSON.stringify(line)}\n`)
    }
    note('began')
    while (!existsSync(gate)) await sleep(20, undefined, { signal })
    note('ended')
  },
})

const app = await createApp({
  plugins: [pager],
  env: {
    NODE_ENV: 'test',
    LOG_LEVEL: 'silent',
    RUN_LEASE_MS: '600',
    DATA_DIR: dataDir,
    DATABASE_URL: databaseUrl,
  },
})
const { url } = await app.listen({ port: 0, host: '127.0.0.1' })
process.once('SIGTERM', () => void app.close().then(() => process.exit(0)))
console.log(url)

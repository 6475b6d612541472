import { appendFileSync, existsSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { z } from 'zod'
import { createApp } from '../../core/index.ts'
import { definePlugin, type Delta, type Model, type NewTurn } from '../../core/plugin.ts'

/** What a server whose plugin starts turns is told on its command line. */
export interface ClerkServerSettings {
  readonly databaseUrl?: string
  readonly dataDir?: string
  /** The folder of the world outside: `notes` has a line of JSON for all that happens, other files open gates. */
  readonly outside: string
  readonly leaseMs?: number
  /** What an upgrade changed: `pay` takes another argument now, or the plugin that pays is gone. */
  readonly upgrade?: 'schema' | 'gone'
  /** How often the end of a run fails before it is kept. */
  readonly failingEnds?: number
}

/** A line of the notes. Which members it has depends on `what`. */
export interface ClerkNote {
  readonly what: 'asked' | 'tool' | 'prompt' | 'admit' | 'begin' | 'end' | 'job' | 'notice' | 'paid'
  readonly pid: number
  readonly [fact: string]: unknown
}

const settings = JSON.parse(process.argv[2] ?? '{}') as ClerkServerSettings
const { databaseUrl, dataDir, outside, leaseMs = 700, upgrade, failingEnds = 0 } = settings
const note = (what: ClerkNote['what'], facts: Readonly<Record<string, unknown>>) =>
  appendFileSync(
    join(outside, 'notes'),
    `${JSON.stringify({ what, pid: process.pid, ...facts })}\n`,
  )

/** Waits for a file: a gate that the test opens. */
async function gate(name: string, signal?: AbortSignal): Promise<void> {
  while (!existsSync(join(outside, name))) await sleep(20, undefined, { signal })
}

let toFail = failingEnds
const clerk = definePlugin({
  name: 'clerk',
  summary: 'Starts turns, and writes down what becomes of them.',
  visibility: 'always',
  state: { told: z.number().default(0).meta({ scope: 'room' }) },
  prompt(ctx) {
    const { origin, metadata, room } = ctx
    note('prompt', { origin, metadata, room })
    return 'You are a clerk.'
  },
  jobs: {
    deliver: {
      input: z.object({ runId: z.string() }),
      run: ({ runId }, { job }) => note('job', { runId, key: job.key, attempt: job.attempt }),
    },
  },
  migrations: {
    '001_ends': async (db) => {
      await sql`create table clerk_ends (run_id text not null, facts text not null)`.execute(db)
    },
  },
  runs: {
    begin: (run) => note('begin', { runId: run.runId, requestId: run.requestId }),
    async end(run, ctx) {
      const { reply, ...facts } = run
      const kept = JSON.stringify({ ...facts, reply: await reply() })
      await sql`insert into clerk_ends (run_id, facts) values (${run.runId}, ${kept})`.execute(
        ctx.db,
      )
      await ctx.jobs.later('deliver', { runId: run.runId }, { key: run.runId })
      note('end', { runId: run.runId, status: run.status })
      if (toFail-- > 0) throw new Error('The end cannot be written yet.')
    },
  },
  notices: ({ id, kind, runId }, { job }) => note('notice', { id, kind, runId, key: job.key }),
  tools: {
    look: {
      description: 'Looks at the shelf.',
      input: z.object({}),
      effect: 'read',
      async run(_, ctx) {
        const { metadata, origin, callKey, signal } = ctx
        note('tool', { name: 'look', metadata, origin, callKey, told: ctx.state.told })
        await gate('look', signal)
        ctx.state.told += 1
        return { shelf: 'empty' }
      },
    },
    post: {
      description: 'Posts a letter, once for each key.',
      input: z.object({}),
      effect: 'write',
      approve: false,
      repeatable: true,
      async run(_, { metadata, origin, callKey, signal, state }) {
        note('tool', { name: 'post', metadata, origin, callKey, told: state.told })
        await gate('post', signal)
        return 'posted'
      },
    },
    secret: {
      description: 'A tool that no unattended turn may call.',
      input: z.object({}),
      effect: 'read',
      run: () => 'secret',
    },
    list: {
      description: 'Lists everything, which is much.',
      input: z.object({}),
      effect: 'read',
      run: () => Array.from({ length: 6_000 }, (_, n) => ({ n, name: `Item number ${n}` })),
    },
  },
  routes: {
    'POST /start': {
      auth: 'public',
      input: z.object({ turn: z.unknown() }),
      async run({ turn }, { turns }) {
        return await turns.start(turn as NewTurn).begun
      },
    },
    'POST /say': {
      auth: 'public',
      input: z.object({ did: z.string(), session: z.string(), text: z.string(), key: z.string() }),
      run: ({ did, ...words }, { sessions }) => sessions.say({ user: { did }, ...words }),
    },
  },
})

/** The plugin that an upgrade changes. */
const till = definePlugin({
  name: 'till',
  summary: 'Pays.',
  visibility: 'always',
  jobs: {
    count: {
      input: z.object({ amount: upgrade === 'schema' ? z.string() : z.number() }),
      run: ({ amount }, { job }) => note('job', { amount, key: job.key, attempt: job.attempt }),
    },
    // The first plan comes too late for any test, the one after the upgrade at once.
    close: {
      every: upgrade === 'schema' ? '1s' : '1d',
      run: (_, { job }) => note('job', { closed: job.dueAt, key: job.key, attempt: job.attempt }),
    },
  },
  routes: {
    'POST /count': {
      auth: 'public',
      input: z.object({ amount: z.unknown(), key: z.string(), inMs: z.number() }),
      run: ({ amount, ...when }, { jobs }) =>
        jobs.later('count', { amount: amount as number & string }, when),
    },
  },
  tools: {
    pay: {
      description: 'Pays an amount.',
      input:
        upgrade === 'schema'
          ? z.object({ amount: z.number(), to: z.string() })
          : z.object({ amount: z.number() }),
      effect: 'write',
      approve: true,
      async run(args, { callKey }) {
        note('paid', { args, callKey })
        return 'paid'
      },
    },
  },
})

/** A model that does what the last words say: `Hold x` waits for the gate x in the middle, `Call t {}` calls a tool. */
const model: Model = {
  id: 'test/clerk',
  async *stream({ messages, tools, signal }): AsyncGenerator<Delta> {
    const last = messages.at(-1)
    const words = messages.findLast(({ role }) => role === 'user')?.content ?? ''
    note('asked', {
      words,
      tools: tools.map(({ name }) => name),
      system: messages[0]?.content,
      result: last?.role === 'tool' ? last.content : undefined,
      earlier: messages.slice(1).map(({ role, content }) => `${role}: ${content.slice(0, 400)}`),
    })
    const asked = /(Hold|Call) (\w+) ?(\{.*\})?/.exec(words)
    if (asked?.[1] === 'Call' && last?.role !== 'tool') {
      yield { type: 'text', text: 'Let me see. ' }
      yield { type: 'tool-call', index: 0, id: 'c', name: asked[2], args: asked[3] ?? '{}' }
      return
    }
    yield { type: 'text', text: 'Well, ' }
    if (asked?.[1] === 'Hold') await gate(asked[2] ?? '', signal)
    if (words.includes('Fail')) throw new Error('The provider is away.')
    yield { type: 'text', text: 'that is it.' }
    yield { type: 'usage', inputTokens: 100, outputTokens: 5 }
  },
}

const app = await createApp({
  plugins: upgrade === 'gone' ? [clerk] : [clerk, till],
  model,
  env: {
    NODE_ENV: 'test',
    LOG_LEVEL: 'silent',
    ORACLE_MNEMONIC: 'the oracle of a clerk',
    OPERATOR_TOKEN: 'the-operator-of-a-clerk',
    RUN_LEASE_MS: String(leaseMs),
    EVENT_LOOP_LIMIT_MS: '0',
    TURNS_AT_ONCE: '1000',
    DATA_DIR: dataDir ?? ':memory:',
    DATABASE_URL: databaseUrl,
  },
})
const { url } = await app.listen({ port: 0, host: '127.0.0.1' })
process.once('SIGTERM', () => void app.close().then(() => process.exit(0)))
console.log(url)

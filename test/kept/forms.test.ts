import { sql } from 'kysely'
import { expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin, type Database } from '#core'
import { scriptedModel, testApp } from '#core/testing'
import { onEachDatabase } from '../support/each-database.ts'

await onEachDatabase('what a newer version has stored', ({ databaseUrl }) => {
  it('is left to that version: a job, and a run whose process died', async () => {
    const ran: string[] = []
    let db: Database | undefined
    const { promise: asked, resolve: ask } = Promise.withResolvers<void>()
    const worker = definePlugin({
      name: 'worker',
      summary: 'Does jobs.',
      setup(boot) {
        db = boot.db
      },
      jobs: {
        note: { input: z.object({ word: z.string() }), run: ({ word }) => void ran.push(word) },
      },
      routes: {
        'POST /words': {
          auth: 'public',
          input: z.object({ word: z.string(), v: z.number() }),
          run: ({ word, v }, ctx) =>
            ctx.db.transaction().execute(async (trx) => {
              const { id } = await ctx.jobs.within(trx).later('note', { word })
              await sql`update kernel_jobs set v = ${v} where id = ${id}`.execute(trx)
              return { id }
            }),
        },
      },
    })
    let calls = 0
    await using app = await testApp({
      plugins: [worker],
      model: {
        ...scriptedModel([]),
        async *stream(): AsyncGenerator<never> {
          if (calls++ > 0) return yield { type: 'text', text: 'Again.' } as never
          ask()
          await new Promise(() => undefined)
        },
      },
      ...(databaseUrl && { database: 'postgres' as const }),
    })
    const user = await app.user()
    await app.post('/words', { word: 'newer', v: 2 })
    await app.post('/words', { word: 'known', v: 1 })
    await expect.poll(() => ran, { timeout: 30_000 }).toEqual(['known'])
    void user.say('Hello').catch(() => undefined)
    await asked
    await sql`update kernel_runs set v = 2`.execute(db!)
    await app.crash()
    await app.again()
    await app.post('/words', { word: 'later', v: 1 })
    await expect.poll(() => ran, { timeout: 30_000 }).toEqual(['known', 'later'])
    const { rows } = await sql<{ status: string }>`select status from kernel_runs`.execute(db!)
    expect(rows).toEqual([{ status: 'running' }])
    expect(calls).toBe(1)
    // The newer version is back.
    await sql`update kernel_runs set v = 1`.execute(db!)
    await sql`update kernel_jobs set v = 1`.execute(db!)
    await app.again()
    await expect.poll(() => calls, { timeout: 30_000 }).toBe(2)
    await expect.poll(() => ran, { timeout: 30_000 }).toEqual(['known', 'later', 'newer'])
  })
})

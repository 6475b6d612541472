import { sql } from 'kysely'
import { expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { definePlugin, RuntimeError } from '#core'
import { scriptedModel, testApp } from '#core/testing'
import { onEachDatabase } from '../support/each-database.ts'

type Tables = {
  quota_accounts: { did: string; left_over: number }
  quota_begun: { run_id: string }
}

await onEachDatabase('begin', (where) => {
  /** A plugin with room for so many turns of each user. */
  const quotaOf = (room: number) =>
    definePlugin({
      name: 'quota',
      summary: 'Counts turns.',
      migrations: {
        '001-tables': async (db) => {
          await sql`create table quota_accounts (did text primary key, left_over integer not null)`.execute(
            db,
          )
          await sql`create table quota_begun (run_id text not null)`.execute(db)
        },
      },
      jobs: { note: { input: z.object({ runId: z.string() }), run: () => undefined } },
      routes: {
        'GET /quota/begun': {
          auth: 'public',
          run: async (_, { db }) => ({
            begun: await db.withTables<Tables>().selectFrom('quota_begun').selectAll().execute(),
            jobs: (await sql<{ data: string }>`select data from kernel_jobs`.execute(db)).rows,
            runs: (await sql<{ id: string }>`select id from kernel_runs`.execute(db)).rows,
          }),
        },
      },
      runs: {
        async begin({ runId, user }, { db, jobs }) {
          const tables = db.withTables<Tables>()
          await tables
            .insertInto('quota_accounts')
            .values({ did: user.did, left_over: room })
            .onConflict((conflict) => conflict.doNothing())
            .execute()
          await tables.insertInto('quota_begun').values({ run_id: runId }).execute()
          await jobs.later('note', { runId }, { key: runId })
          const { numUpdatedRows } = await tables
            .updateTable('quota_accounts')
            .set((eb) => ({ left_over: eb('left_over', '-', 1) }))
            .where('did', '=', user.did)
            .where('left_over', '>', 0)
            .executeTakeFirst()
          if (numUpdatedRows === 0n)
            throw new RuntimeError('PAYMENT_REQUIRED', 'Nothing is left.', {
              details: { claims: ['c'] },
            })
        },
      },
    })

  test('of a hundred turns at once with room for three, three begin and the others leave no trace', async () => {
    const app = await testApp({
      plugins: [quotaOf(3)],
      model: scriptedModel(Array.from({ length: 100 }, () => 'Yes.')),
      env: where.databaseUrl ? { DATABASE_URL: where.databaseUrl } : {},
    })
    onTestFinished(() => app.close())
    const user = await app.user()
    const sessions: string[] = []
    for (let i = 0; i < 100; i++) sessions.push((await user.post('/sessions', {})).body.sessionId)
    const answers = await Promise.all(
      sessions.map((id) => user.post(`/messages/${id}`, { message: 'Hello', stream: false })),
    )
    const statuses = answers.map(({ status }) => status)
    expect(statuses.filter((status) => status === 200)).toHaveLength(3)
    expect(statuses.filter((status) => status === 402)).toHaveLength(97)
    const { begun, jobs, runs } = (await app.get('/quota/begun')).body
    expect(begun).toHaveLength(3)
    expect(jobs).toHaveLength(3)
    expect(runs.map(({ id }: { id: string }) => id).sort()).toEqual(
      begun.map(({ run_id }: { run_id: string }) => run_id).sort(),
    )
    const refused = sessions[statuses.indexOf(402)]
    expect((await user.get(`/messages/${refused}`)).body.messages).toEqual([])
  })
})

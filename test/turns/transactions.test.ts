import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { scriptedModel, testApp } from '#core/testing'
import { onEachDatabase, onPostgres } from '../support/each-database.ts'

interface Reach {
  readonly sessions: {
    say(words: { user: { did: string }; text: string }): Promise<unknown>
    ensure(wanted: { user: { did: string } }): Promise<unknown>
  }
  readonly turns: { start(turn: { user: { did: string }; message: string }): unknown }
}

await onEachDatabase('the transaction of a run', ({ databaseUrl }) => {
  const env = databaseUrl ? { DATABASE_URL: databaseUrl } : {}

  test('begins no other: who speaks in it hears at once what to do, and a job speaks once', async () => {
    const heard: string[] = []
    const tryAll = async (hook: string, { sessions, turns }: Reach, did: string) => {
      const user = { did }
      const ways: Record<string, () => unknown> = {
        say: () => sessions.say({ user, text: 'Thank you.' }),
        ensure: () => sessions.ensure({ user }),
        start: () => turns.start({ user, message: 'Thank you.' }),
      }
      for (const [name, way] of Object.entries(ways))
        try {
          await way()
          heard.push(`${hook} ${name}: done`)
        } catch (error) {
          heard.push(`${hook} ${name}: ${error instanceof Error ? error.message : 'thrown'}`)
        }
    }
    const thanker = definePlugin({
      name: 'thanker',
      summary: 'Says thank you.',
      jobs: {
        thank: {
          input: z.object({ did: z.string(), session: z.string() }),
          run: ({ did, session }, { sessions, job }) =>
            sessions.say({ user: { did }, session, text: 'Thank you.', key: job.key }),
        },
      },
      runs: {
        begin: (run, ctx) => tryAll('begin', ctx, run.user.did),
        async end({ did, sessionId, runId }, ctx) {
          await tryAll('end', ctx, did)
          await ctx.jobs.later('thank', { did, session: sessionId }, { key: runId })
        },
      },
    })
    const app = await testApp({ plugins: [thanker], model: scriptedModel(['Yes.']), env })
    onTestFinished(() => app.close())
    const user = await app.user()
    const { sessionId } = (await user.post('/sessions')).body
    expect(await user.say('Hello', { sessionId })).toMatchObject({ status: 'finished' })
    const words = async () =>
      (await user.get(`/messages/${sessionId}`)).body.messages.map(
        ({ content }: { content: string }) => content,
      )
    await expect.poll(words).toEqual(['Hello', 'Yes.', 'Thank you.'])
    const refused = (what: string) =>
      `${what} cannot be called in runs.begin, runs.end or sessionDeleted.`
    const of = (hook: string) => [
      `${hook} say: ${refused('sessions.say')}`,
      `${hook} ensure: ${refused('sessions.ensure')}`,
      `${hook} start: ${refused('turns.start')}`,
    ]
    expect(heard).toEqual([...of('begin'), ...of('end')])
  })
})

await onPostgres('the deletion of a session', ({ databaseUrl = '' }) => {
  test('holds the runs before plugins hold rows of theirs, so that no renewal of leases stands between', async () => {
    const client = new pg.Client(databaseUrl)
    await client.connect()
    onTestFinished(() => client.end())
    let ended = 0
    const free: unknown[][] = []
    const keeper = definePlugin({
      name: 'keeper',
      summary: 'Keeps something of sessions.',
      runs: { end: () => void ended++ },
      async sessionDeleted({ sessionId }) {
        const { rows } = await client.query(
          'select id from kernel_runs where session_id = $1 for update skip locked',
          [sessionId],
        )
        free.push(rows)
      },
    })
    const app = await testApp({
      plugins: [keeper],
      model: scriptedModel(['Yes.']),
      env: { DATABASE_URL: databaseUrl },
    })
    onTestFinished(() => app.close())
    const user = await app.user()
    const { sessionId } = await user.say('Hello')
    // Nobody has anything to hear any more.
    await expect.poll(() => ended).toBe(1)
    const marks = async () => (await client.query('select * from kernel_unsettled')).rows
    await expect.poll(marks).toEqual([])
    expect((await user.delete(`/sessions/${sessionId}`)).status).toBe(200)
    expect(free).toEqual([[]])
  })
})

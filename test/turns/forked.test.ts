import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import pg from 'pg'
import { expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { definePlugin, type Model } from '#core'
import { call, scriptedModel, testApp } from '#core/testing'
import { callerOf } from '../support/caller.ts'
import { onEachDatabase } from '../support/each-database.ts'
import { openStream } from '../support/event-stream.ts'
import { heldModel } from '../support/held-model.ts'
import { startServer } from '../support/process.ts'
import { png } from '../support/sample-files.ts'

const sent: string[] = []
const post = definePlugin({
  name: 'post',
  summary: 'Letters.',
  visibility: 'always',
  state: { letters: z.array(z.string()).default([]) },
  tools: {
    send: {
      description: 'Sends a letter.',
      input: z.object({ to: z.string() }),
      run: ({ to }, { state }) => {
        sent.push(to)
        state.letters = [...state.letters, to]
        return `sent to ${to}`
      },
    },
  },
})

/** Has the last statement of a fork take seconds on a database, until `quick` is called. */
async function slowForks(databaseUrl: string | undefined, folder: string) {
  if (databaseUrl === undefined) {
    const database = new DatabaseSync(join(folder, 'oracle.sqlite'))
    const run = (text: string) => Promise.resolve(database.exec(text))
    await run(`create trigger slow_fork before update of turns on kernel_sessions begin
      select count(*) from (with recursive n(i) as
        (select 1 union all select i + 1 from n where i < 200000000) select i from n); end`)
    return { quick: () => run('drop trigger slow_fork').finally(() => database.close()) }
  }
  const client = new pg.Client({ connectionString: databaseUrl })
  await client.connect()
  await client.query(`create function slow_fork() returns trigger language plpgsql as
    $$ begin perform pg_sleep(4); return new; end $$`)
  await client.query(`create trigger slow_fork before update of turns on kernel_sessions
    for each row execute function slow_fork()`)
  return {
    quick: () => client.query('drop function slow_fork cascade').finally(() => client.end()),
  }
}

await onEachDatabase('a conversation that was forked', ({ databaseUrl }) => {
  const open = async (model: Model) => {
    sent.length = 0
    const app = await testApp({
      plugins: [post],
      ...(databaseUrl && { database: 'postgres' as const }),
      model,
      env: { NODE_ENV: 'development', OPERATOR_TOKEN: 'mnopqrstuvwx' },
    })
    onTestFinished(() => app.close())
    return app.user('somebody')
  }

  it('leaves the run going on that was under way, and has what the run had done by then', async () => {
    const model = heldModel(
      ['They '],
      ['are sent.'],
      [call('send', { to: 'Ada' }), call('send', { to: 'Ben' })],
    )
    const user = await open(model)
    const { sessionId } = (await user.post('/sessions', {})).body
    const saying = user.say('Write to both.', { sessionId })
    await expect.poll(() => model.requests.length).toBe(3)
    const [run] = (await user.get(`/sessions/${sessionId}/runs`)).body.runs
    expect(run.status).toBe('running')
    const { steps } = (await user.get(`/runs/${run.runId}/trace`)).body
    const { step } = steps.find(({ kind }: { kind: string }) => kind === 'tool')
    const fork = await user.post(`/sessions/${sessionId}/fork`, { run: run.runId, step })
    expect(fork.status).toBe(201)
    expect(fork.body.already).toMatchObject([{ toolName: 'send', args: { to: 'Ben' } }])
    const state = (id: string) => user.get(`/sessions/${id}/state`).then(({ body }) => body)
    expect((await state(fork.body.sessionId)).state).toEqual({ post: { letters: ['Ada'] } })
    const copied = (await user.get(`/messages/${fork.body.sessionId}`)).body.messages
    expect(copied.at(-1).toolCalls).toMatchObject([{ name: 'send', status: 'done' }])
    model.goOn()
    expect((await saying).status).toBe('finished')
    const { messages } = (await user.get(`/messages/${sessionId}`)).body
    expect(messages.at(-1)).toMatchObject({ content: 'They are sent.', isComplete: true })
    expect((await user.get(`/messages/${fork.body.sessionId}`)).body.messages).toEqual(copied)
    expect(sent).toEqual(['Ada', 'Ben'])
  })

  it('shares its files, which go with the last that has them', async () => {
    const model = scriptedModel(['A point.'], { reads: { image: ['image/*'] } })
    const user = await open(model)
    const attachments = [{ filename: 'roof.png', data: png().toString('base64') }]
    const { sessionId } = await user.say('Look', { body: { attachments } })
    const { messages } = (await user.get(`/messages/${sessionId}`)).body
    const [{ fileId }] = messages[0].attachments
    const fork = async () => {
      const made = await user.post(`/sessions/${sessionId}/fork`, {
        ...{ after: messages.at(-1).id, branch: true },
      })
      return made.body.sessionId as string
    }
    const [one, other] = [await fork(), await fork()]
    const file = () => user.get(`/files/${fileId}`).then(({ status }) => status)
    for (const [gone, stays] of [
      [one, 200],
      [sessionId, 200],
      [other, 404],
    ] as const) {
      expect((await user.delete(`/sessions/${gone}`)).status).toBe(200)
      expect([gone, await file()]).toEqual([gone, stays])
    }
  })

  it('is all there or not at all where its server was killed in the middle', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'forked-'))
    const env: Record<string, string> = { NODE_ENV: 'development', DATA_DIR: folder }
    if (databaseUrl) env.DATABASE_URL = databaseUrl
    const start = () => startServer('test/support/dying-server.ts', env)
    let server = start()
    onTestFinished(async () => {
      await server.end('SIGKILL')
      rmSync(folder, { recursive: true, force: true })
    })
    const caller = await callerOf(await server.url, 'somebody')
    const ask = async (path: string, body?: unknown) => {
      const headers = { ...(await caller.headers()), 'content-type': 'application/json' }
      const asked = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }
      const answer = await fetch((await server.url) + path, { headers, ...asked })
      return { status: answer.status, body: (await answer.json()) as any } // any: what it is, the test says
    }
    const { sessionId } = (await ask('/sessions', {})).body
    const said = { message: 'Good day' }
    await (
      await openStream(`${await server.url}/messages/${sessionId}`, await caller.headers(), said)
    ).rest()
    const whole = (await ask(`/messages/${sessionId}`)).body.messages
    expect(whole).toHaveLength(2)
    const fork = () => ask(`/sessions/${sessionId}/fork`, { after: whole[1].id, branch: true })
    const slow = await slowForks(databaseUrl, folder)
    const forking = fork().then(
      ({ status }) => status,
      () => 'nobody answered',
    )
    // Whoever gets no answer for a second is behind the statement that takes so long.
    expect(
      await Promise.race([forking, new Promise((done) => setTimeout(done, 1_000, 'slow'))]),
    ).toBe('slow')
    await server.end('SIGKILL')
    expect(await forking).toBe('nobody answered')
    await slow.quick()
    server = start()
    expect((await ask('/sessions')).body.total).toBe(1)
    expect((await ask(`/sessions/${sessionId}/branches`)).body.branches).toHaveLength(1)
    expect((await ask(`/messages/${sessionId}`)).body.messages).toEqual(whole)
    const made = await fork()
    expect(made.status).toBe(201)
    const copied = (await ask(`/messages/${made.body.sessionId}`)).body.messages
    expect(copied.map(({ id }: { id: string }) => id)).toEqual(
      whole.map(({ id }: { id: string }) => id),
    )
  }, 120_000)
})

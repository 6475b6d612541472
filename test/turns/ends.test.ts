import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { type AnyPlugin, definePlugin, RuntimeError, type Turns } from '#core'
import {
  call,
  scriptedModel,
  testApp,
  type ScriptedStep,
  type TestApp,
  type TestUser,
} from '#core/testing'
import { onEachDatabase } from '../support/each-database.ts'
import { endBook, type ToldEnd } from '../support/ends.ts'

const slow = (text: string) => ({ text, paceMs: 20 })
const long = slow('one two three four five six '.repeat(100))

/** Tools of every outcome. */
const shop = definePlugin({
  name: 'shop',
  summary: 'Sells.',
  visibility: 'always',
  tools: {
    look: { description: 'Looks.', input: z.object({}), effect: 'read', run: () => 'a shelf' },
    buy: { description: 'Buys.', input: z.object({}), run: () => 'bought' },
    break: {
      description: 'Breaks.',
      input: z.object({}),
      run() {
        throw new RuntimeError('CONFLICT', 'Sold out.')
      },
    },
    hang: {
      description: 'Hangs until it is stopped.',
      input: z.object({}),
      run: (_, { signal, emit }) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => reject(signal.reason))
          emit.component('hanging', {})
        }),
    },
    ask: { description: 'Asks first.', input: z.object({}), approve: true, run: () => 'asked' },
  },
})

await onEachDatabase('end', (where) => {
  async function appOf(
    plugins: readonly AnyPlugin[],
    steps: readonly ScriptedStep[],
  ): Promise<{ app: TestApp; user: TestUser }> {
    const app = await testApp({
      plugins,
      model: scriptedModel(steps, { id: 'test/model' }),
      env: {
        RUN_LEASE_MS: '2000',
        ...(where.databaseUrl && { DATABASE_URL: where.databaseUrl }),
      },
    })
    onTestFinished(() => app.close())
    return { app, user: await app.user() }
  }

  /** The ends of a session that the book was told; waits until there are so many, and looks once more a little later. */
  async function endsOf(app: TestApp, sessionId: string, count: number, book = 'book') {
    const look = async (): Promise<ToldEnd[]> => {
      const { ends } = (await app.get(`/${book}/ends`)).body
      return ends.filter((end: ToldEnd) => end.sessionId === sessionId)
    }
    await expect.poll(async () => (await look()).length, { timeout: 20_000 }).toBe(count)
    return look()
  }

  const session = async (user: TestUser): Promise<string> =>
    (await user.post('/sessions', {})).body.sessionId

  /** Sends a message without waiting for its end; resolves once the run says its first word or shows its first component. */
  async function begun(app: TestApp, user: TestUser, sessionId: string, message = 'Hello') {
    const response = await fetch(`${app.url}/messages/${sessionId}`, {
      method: 'POST',
      headers: {
        ...(await user.wallet.headers(app.oracleDid)),
        'content-type': 'application/json',
      },
      body: JSON.stringify({ message, requestId: randomUUID() }),
    })
    const reader = response.body!.getReader()
    let text = ''
    while (!/event: (message|render_component)/.test(text)) {
      const { value, done } = await reader.read()
      if (done) throw new Error(`The stream ended: ${text}`)
      text += new TextDecoder().decode(value)
    }
    void (async () => {
      while (!(await reader.read()).done);
    })().catch(() => undefined)
    return response.headers.get('x-run-id')!
  }

  test('tells all of a run that finished, once', async () => {
    const { plugin } = endBook()
    const { app, user } = await appOf(
      [plugin, shop],
      [
        {
          text: 'Let me look.',
          calls: [call('look'), call('buy'), call('break')],
          usage: { inputTokens: 100, outputTokens: 10 },
        },
        { text: 'It is bought.', usage: { inputTokens: 150, outputTokens: 7 } },
      ],
    )
    const before = Date.now()
    const said = await user.say('Buy it', { body: { metadata: { order: 7 } } })
    const [end] = await endsOf(app, said.sessionId, 1)
    expect(end).toMatchObject({
      runId: said.runId,
      sessionId: said.sessionId,
      did: user.did,
      status: 'finished',
      from: 'user',
      metadata: { order: 7 },
      said: true,
      usage: [{ model: 'test/model', calls: 2, inputTokens: 250, outputTokens: 17, cost: null }],
      tools: [
        { name: 'look', plugin: 'shop', outcome: 'done' },
        { name: 'buy', plugin: 'shop', outcome: 'done' },
        { name: 'break', plugin: 'shop', outcome: 'failed' },
      ],
      reply: 'Let me look.\n\nIt is bought.',
    })
    expect(end).not.toHaveProperty('cause')
    expect(Date.parse(end!.startedAt)).toBeGreaterThan(before - 5_000)
    expect(Date.parse(end!.endedAt)).toBeGreaterThanOrEqual(Date.parse(end!.startedAt))
  })

  test('tells of a run that failed, and estimates what no provider counted', async () => {
    const { plugin } = endBook()
    const { app, user } = await appOf(
      [plugin],
      [{ text: 'I was about', error: new RuntimeError('MODEL_STREAM_BROKEN', 'Broken.') }],
    )
    const said = await user.say('Hello')
    expect(said.status).toBe('failed')
    const [end] = await endsOf(app, said.sessionId, 1)
    expect(end).toMatchObject({ status: 'failed', said: true, tools: [] })
    expect(end).not.toHaveProperty('cause')
    expect(end!.usage).toMatchObject([{ model: 'test/model', outputTokens: 3, estimated: true }])
    expect(end!.usage[0]!.inputTokens).toBeGreaterThan(10)
  })

  test('tells nothing of usage where the model failed before its first word', async () => {
    const { plugin } = endBook()
    const { app, user } = await appOf(
      [plugin],
      [new RuntimeError('MODEL_REFUSED', 'No.', { status: 502 })],
    )
    const sessionId = await session(user)
    await user.post(`/messages/${sessionId}`, { message: 'Hello' })
    const [end] = await endsOf(app, sessionId, 1)
    expect(end).toMatchObject({ status: 'failed', said: false, usage: [] })
  })

  test('tells of a Stop what was said and what was under way', async () => {
    const { plugin } = endBook()
    const { app, user } = await appOf([plugin, shop], [long, call('hang')])
    const sessionId = await session(user)
    const first = await begun(app, user, sessionId)
    await user.post('/messages/abort', { sessionId })
    const [stopped] = await endsOf(app, sessionId, 1)
    expect(stopped).toMatchObject({ runId: first, status: 'aborted', cause: 'stopped', said: true })
    expect(stopped!.usage).toMatchObject([{ model: 'test/model', estimated: true }])
    expect(stopped!.usage[0]!.outputTokens).toBeGreaterThan(0)

    const second = await begun(app, user, sessionId, 'Hang')
    await user.post('/messages/abort', { sessionId })
    const ends = await endsOf(app, sessionId, 2)
    expect(ends.find(({ runId }) => runId === second)).toMatchObject({
      status: 'aborted',
      cause: 'stopped',
      said: false,
      tools: [{ name: 'hang', plugin: 'shop', outcome: 'unknown' }],
    })
  })

  test('tells of a run that a newer message superseded', async () => {
    const { plugin } = endBook()
    const { app, user } = await appOf([plugin], [long, 'Newer.'])
    const sessionId = await session(user)
    const first = await begun(app, user, sessionId)
    expect((await user.say('Now', { sessionId })).text).toBe('Newer.')
    const ends = await endsOf(app, sessionId, 2)
    expect(ends.find(({ runId }) => runId === first)).toMatchObject({
      status: 'interrupted',
      cause: 'superseded',
      said: true,
    })
  })

  test('tells once of a chain of approvals, under the id of its first run', async () => {
    const { plugin } = endBook()
    const usage = { inputTokens: 10, outputTokens: 1 }
    const { app, user } = await appOf(
      [plugin, shop],
      [
        { calls: [call('ask')], usage },
        { calls: [call('ask')], usage },
        { text: 'Done.', usage },
        'Next.',
      ],
    )
    const said = await user.say('Do', { approvals: true })
    expect(said.status).toBe('waiting')
    const again = await said.approve()
    expect(again.status).toBe('waiting')
    expect((await again.approve()).text).toBe('Done.')
    const next = await user.say('Next', { sessionId: said.sessionId })
    const ends = await endsOf(app, said.sessionId, 2)
    expect(ends.map(({ runId }) => runId)).toEqual([said.runId, next.runId])
    expect(ends[0]).toMatchObject({
      status: 'finished',
      usage: [{ inputTokens: 30, outputTokens: 3 }],
      tools: [
        { name: 'ask', plugin: 'shop', outcome: 'done' },
        { name: 'ask', plugin: 'shop', outcome: 'done' },
      ],
      reply: 'Done.',
    })
  })

  test('tells of an approval that a newer message superseded, and of one that was stopped', async () => {
    const { plugin } = endBook()
    const { app, user } = await appOf([plugin, shop], [call('ask'), call('ask'), 'Last.'])
    const first = await user.say('Do', { approvals: true })
    const { sessionId } = first
    const second = await user.say('Do again', { sessionId, approvals: true })
    expect(second.status).toBe('waiting')
    const [superseded] = await endsOf(app, sessionId, 1)
    expect(superseded).toMatchObject({
      runId: first.runId,
      status: 'interrupted',
      cause: 'superseded',
      said: false,
      tools: [{ name: 'ask', outcome: 'failed' }],
    })
    await user.post('/messages/abort', { sessionId })
    const ends = await endsOf(app, sessionId, 2)
    expect(ends[1]).toMatchObject({ runId: second.runId, status: 'aborted', cause: 'stopped' })
  })

  test('tells in the deletion of a session of the runs that had not ended', async () => {
    const { plugin } = endBook()
    const { app, user } = await appOf([plugin, shop], ['Done.', long, call('ask')])
    const running = await session(user)
    const done = await user.say('Hello', { sessionId: running })
    await endsOf(app, running, 1)
    const runId = await begun(app, user, running)
    expect((await user.delete(`/sessions/${running}`)).status).toBe(200)
    const ends = (await app.get('/book/ends')).body.ends.filter(
      (end: ToldEnd) => end.sessionId === running,
    )
    expect(ends.map((end: ToldEnd) => end.runId)).toEqual([done.runId, runId])
    expect(ends[1]).toMatchObject({ status: 'interrupted', cause: 'deleted', did: user.did })

    const waiting = await user.say('Do', { approvals: true })
    expect((await user.delete(`/sessions/${waiting.sessionId}`)).status).toBe(200)
    const [deleted] = await endsOf(app, waiting.sessionId, 1)
    expect(deleted).toMatchObject({ runId: waiting.runId, status: 'interrupted', cause: 'deleted' })
  })

  test('tells in the deletion of a session of the turns that waited there, which never begin', async () => {
    const { plugin, fail } = endBook()
    const starts: Turns['start'][] = []
    const starter = definePlugin({
      name: 'starter',
      summary: 'Starts turns.',
      setup: ({ turns }) => void starts.push((turn) => turns.start(turn)),
    })
    const { app, user } = await appOf([plugin, starter], [long, long])
    const wait = async (sessionId: string, message: string) => {
      const metadata = { answerTo: message }
      const turn = starts[0]!({ user, session: sessionId, message, metadata })
      expect((await turn.begun).state).toBe('queued')
      return turn
    }
    const sessionId = await session(user)
    const runId = await begun(app, user, sessionId)
    const [first, second] = [await wait(sessionId, 'One'), await wait(sessionId, 'Two')]
    expect((await user.delete(`/sessions/${sessionId}`)).status).toBe(200)
    for (const turn of [first, second])
      expect(await turn.ended).toEqual({ status: 'aborted', text: '' })
    const ends = await endsOf(app, sessionId, 3)
    expect(ends.find((end) => end.runId === runId)).toMatchObject({ cause: 'deleted' })
    const never = { status: 'interrupted', cause: 'deleted', said: false }
    const waited = ends.filter((end) => end.runId !== runId)
    const asked = waited.map(({ metadata }) => metadata)
    expect(asked).toEqual(expect.arrayContaining([{ answerTo: 'One' }, { answerTo: 'Two' }]))
    for (const end of waited)
      expect(end).toMatchObject({
        ...never,
        did: user.did,
        origin: 'starter',
        usage: [],
        reply: '',
      })

    const other = await session(user)
    await begun(app, user, other)
    await wait(other, 'Three')
    fail(1)
    expect((await user.delete(`/sessions/${other}`)).status).toBe(200)
    const late = await endsOf(app, other, 2)
    expect(late.map(({ metadata }) => metadata)).toContainEqual({ answerTo: 'Three' })
  })

  test('a session is deleted though a plugin fails, which then hears of the end later', async () => {
    const { plugin, fail } = endBook()
    const { plugin: other } = endBook('other')
    const { app, user } = await appOf([plugin, other, shop], [call('ask')])
    const { sessionId, runId } = await user.say('Do', { approvals: true })
    fail(2)
    expect((await user.delete(`/sessions/${sessionId}`)).status).toBe(200)
    expect((await user.get(`/messages/${sessionId}`)).status).toBe(404)
    const [late] = await endsOf(app, sessionId, 1)
    expect(late).toMatchObject({ runId, status: 'interrupted', cause: 'deleted', reply: '' })
    expect(await endsOf(app, sessionId, 1, 'other')).toMatchObject([{ runId }])
  })

  test('is called again when it throws, and keeps no other plugin from hearing', async () => {
    const { plugin } = endBook('book', 2)
    const { plugin: other } = endBook('other')
    const { app, user } = await appOf([plugin, other], ['Done.', 'Again.'])
    const { sessionId, status } = await user.say('Hello')
    expect(status).toBe('finished')
    await endsOf(app, sessionId, 1, 'other')
    await endsOf(app, sessionId, 1)
    await user.say('Once more', { sessionId })
    await endsOf(app, sessionId, 2, 'other')
    await endsOf(app, sessionId, 2)
    expect(app.log.filter((line) => line.includes('could not be told')).length).toBeGreaterThan(1)
  })

  test('counts the model calls of sub-agents, and a model of their own apart', async () => {
    const { plugin } = endBook()
    const helped = definePlugin({
      name: 'helped',
      summary: 'Has help.',
      visibility: 'always',
      tools: {
        look: { description: 'Looks.', input: z.object({}), effect: 'read', run: () => 'x' },
      },
      subAgents: { helper: { description: 'Helps.', prompt: 'Help.', tools: ['look'] } },
    })
    const usage = { inputTokens: 5, outputTokens: 1 }
    const { app, user } = await appOf(
      [plugin, helped],
      [
        { calls: [call('call_helper', { task: 'Look' })], usage },
        { calls: [call('look')], usage },
        { text: 'Seen.', usage },
        { text: 'It was seen.', usage },
      ],
    )
    const { sessionId } = await user.say('Look')
    const [end] = await endsOf(app, sessionId, 1)
    expect(end!.usage).toEqual([
      { model: 'test/model', calls: 4, inputTokens: 20, outputTokens: 4, cost: null },
    ])
    expect(end!.tools).toEqual([
      { name: 'call_helper', plugin: 'helped', outcome: 'done' },
      { name: 'look', plugin: 'helped', outcome: 'done' },
    ])
    expect(end!.reply).toBe('It was seen.')
  })

  test('has an outbox in its transaction: what it asks for is there once', async () => {
    const delivered: string[] = []
    let fails = 1
    const outbox = definePlugin({
      name: 'outbox',
      summary: 'Delivers.',
      jobs: {
        deliver: {
          input: z.object({ runId: z.string(), text: z.string() }),
          run: ({ runId, text }) => void delivered.push(`${runId} ${text}`),
        },
      },
      runs: {
        async end(run, { jobs }) {
          await jobs.later('deliver', { runId: run.runId, text: await run.reply() })
          if (fails-- > 0) throw new Error('not yet')
        },
      },
    })
    const { user } = await appOf([outbox], ['Done.'])
    const { runId } = await user.say('Hello')
    await expect.poll(() => delivered, { timeout: 20_000 }).toEqual([`${runId} Done.`])
  })
})

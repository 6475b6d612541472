import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { type AnyPlugin, definePlugin, RuntimeError, type Turns } from '#core'
import { call, scriptedModel, testApp, type ScriptedStep, type TestUser } from '#core/testing'
import type { RunAdmission } from '../../core/plugin.ts'
import { onEachDatabase, type Where } from '../support/each-database.ts'

/** An app with plugins, and a model that answers everything with the same steps. */
async function appWith(
  plugins: readonly AnyPlugin[],
  { where = {}, steps = ['Yes.'] }: { where?: Where; steps?: readonly ScriptedStep[] } = {},
) {
  const model = scriptedModel(Array.from({ length: 200 }, (_, i) => steps[i % steps.length]!))
  const env = where.databaseUrl ? { DATABASE_URL: where.databaseUrl } : {}
  const app = await testApp({ plugins, model, env })
  onTestFinished(() => app.close())
  return { app, model }
}

const session = async (user: TestUser): Promise<string> =>
  (await user.post('/sessions', {})).body.sessionId

const paymentNeeded = () =>
  new RuntimeError('PAYMENT_REQUIRED', 'Payment needed.', {
    details: { claims: ['c1'], outstandingClaims: ['c1'] },
  })

/** A plugin that refuses while it is told to, and remembers whom it was asked about. */
function doorkeeper(name = 'doorkeeper') {
  const asked: RunAdmission[] = []
  let refusal: (() => Error) | undefined
  let turns: Turns | undefined
  const plugin = definePlugin({
    name,
    summary: 'Keeps the door.',
    setup: (boot) => void (turns = boot.turns),
    runs: {
      admit(run) {
        asked.push(run)
        if (refusal) throw refusal()
      },
    },
  })
  return {
    plugin,
    asked,
    refuse: (make: (() => Error) | undefined) => void (refusal = make),
    start: (turn: Parameters<Turns['start']>[0]) => turns!.start(turn),
  }
}

await onEachDatabase('admit', (where) => {
  test.for([
    ['streamed', true],
    ['whole', false],
  ] as const)('what it throws is the answer before any stream (%s)', async ([, stream]) => {
    const { plugin, asked, refuse } = doorkeeper()
    const { app, model } = await appWith([plugin], { where })
    const user = await app.user()
    const sessionId = await session(user)
    const requestId = randomUUID()
    const send = () =>
      user.post(`/messages/${sessionId}`, {
        message: 'Hello',
        stream,
        requestId,
        metadata: { a: 1 },
      })

    refuse(paymentNeeded)
    const unpaid = await send()
    expect(unpaid.status).toBe(402)
    expect(unpaid.headers.get('content-type')).toMatch(/^application\/json/)
    expect(unpaid.body).toMatchObject({
      statusCode: 402,
      code: 'PAYMENT_REQUIRED',
      claims: ['c1'],
      outstandingClaims: ['c1'],
    })
    refuse(() => new RuntimeError('FORBIDDEN', 'Not you.'))
    expect(await send()).toMatchObject({ status: 403, body: { code: 'FORBIDDEN' } })
    refuse(
      () =>
        new RuntimeError('BUDGET_SPENT', 'Spent.', {
          status: 429,
          headers: { 'Retry-After': '60' },
        }),
    )
    const spent = await send()
    expect(spent).toMatchObject({ status: 429, body: { code: 'BUDGET_SPENT' } })
    expect(spent.headers.get('retry-after')).toBe('60')

    const history = await user.get(`/messages/${sessionId}`)
    expect(history.body.messages).toEqual([])
    const [row] = (await user.get('/sessions')).body.sessions
    expect(row.title).toBeUndefined()
    expect(model.requests).toHaveLength(0)

    refuse(undefined)
    expect((await send()).status).toBe(200)
    expect(asked).toHaveLength(4)
    expect(asked[3]).toMatchObject({
      sessionId,
      requestId,
      source: 'http',
      from: 'user',
      metadata: { a: 1 },
    })
    expect(asked[3]?.user.did).toBe(user.did)
    expect(asked[3]?.koa?.path).toBe(`/messages/${sessionId}`)
    expect(asked[3]).not.toHaveProperty('origin')
  })

  test('is asked once more when begin refuses, and what it throws then is the answer', async () => {
    let admitted = 0
    let begun = 0
    let explains = true
    const plugin = definePlugin({
      name: 'doorkeeper',
      summary: 'Keeps the door.',
      runs: {
        admit() {
          if (++admitted > 1 && explains) throw paymentNeeded()
        },
        begin() {
          begun++
          throw new RuntimeError('RATE_LIMITED', 'Another turn was first.')
        },
      },
    })
    const { app, model } = await appWith([plugin], { where })
    const user = await app.user()
    const sessionId = await session(user)
    const send = () => user.post(`/messages/${sessionId}`, { message: 'Hello', stream: false })
    const refused = await send()
    expect(refused).toMatchObject({
      status: 402,
      body: { error: 'Payment Required', claims: ['c1'] },
    })
    expect(admitted).toBe(2)
    expect(begun).toBeGreaterThan(0)

    explains = false
    expect(await send()).toMatchObject({ status: 429, body: { code: 'RATE_LIMITED' } })
    expect(admitted).toBe(5)
    expect((await user.get(`/messages/${sessionId}`)).body.messages).toEqual([])
    expect(model.requests).toHaveLength(0)
  })

  test('is not asked about a request that has its run', async () => {
    const { plugin, asked, refuse } = doorkeeper()
    const { app } = await appWith([plugin], { where })
    const user = await app.user()
    const sessionId = await session(user)
    const body = { message: 'Hello', stream: false, requestId: randomUUID() }
    const first = await user.post(`/messages/${sessionId}`, body)
    expect(first.status).toBe(200)
    refuse(paymentNeeded)
    const again = await user.post(`/messages/${sessionId}`, body)
    expect(again).toMatchObject({ status: 200, body: first.body })
    expect(asked).toHaveLength(1)
  })

  test('is not asked when a person approves', async () => {
    const { plugin, asked, refuse } = doorkeeper()
    const shop = definePlugin({
      name: 'shop',
      summary: 'Sells.',
      visibility: 'always',
      tools: {
        buy: { description: 'Buys.', input: z.object({}), approve: true, run: () => 'bought' },
      },
    })
    const { app } = await appWith([plugin, shop], { where, steps: [call('buy'), 'Bought.'] })
    const user = await app.user()
    const said = await user.say('Buy', { approvals: true })
    expect(said.status).toBe('waiting')
    refuse(paymentNeeded)
    expect((await said.approve()).text).toBe('Bought.')
    expect(asked).toHaveLength(1)
  })

  test('is not asked about a session that is not there', async () => {
    const { plugin, asked } = doorkeeper()
    const { app } = await appWith([plugin], { where })
    const user = await app.user()
    expect((await user.post(`/messages/${randomUUID()}`, { message: 'Hello' })).status).toBe(404)
    expect(asked).toHaveLength(0)
  })

  test('refuses a turn that a plugin starts, which hears the very error', async () => {
    const { plugin, asked, refuse, start } = doorkeeper()
    const { app } = await appWith([plugin], { where })
    const user = await app.user()
    const own = await session(user)
    const turn = {
      user: { did: user.did },
      session: own,
      message: 'Hello',
      requestId: randomUUID(),
    }
    const read = async () => {
      const names: string[] = []
      for await (const { event } of start(turn)) names.push(event)
      return names
    }
    refuse(paymentNeeded)
    await expect(read()).rejects.toMatchObject({ code: 'PAYMENT_REQUIRED', status: 402 })
    refuse(() => new RuntimeError('FORBIDDEN', 'Not you.'))
    await expect(read()).rejects.toMatchObject({ code: 'FORBIDDEN', status: 403 })
    refuse(() => new RuntimeError('BUDGET_SPENT', 'Spent.', { status: 429 }))
    await expect(read()).rejects.toMatchObject({ code: 'BUDGET_SPENT', status: 429 })
    const history = await user.get(`/messages/${own}?origin=all`)
    expect(history.body.messages).toEqual([])
    expect((await user.get(`/sessions/${own}/run`)).body).toMatchObject({ waitingTurns: 0 })
    refuse(undefined)
    expect(await read()).toContain('done')
    expect(asked.at(-1)).toMatchObject({ source: 'plugin', sessionId: own })
    expect(asked.at(-1)).not.toHaveProperty('koa')
  })

  test('asks the plugins in load order, up to the first refusal', async () => {
    const order: string[] = []
    const first = definePlugin({
      name: 'first',
      summary: 'First.',
      runs: { admit: () => void order.push('first') },
    })
    const second = definePlugin({
      name: 'second',
      summary: 'Second.',
      requires: [first],
      runs: {
        admit() {
          order.push('second')
          throw new RuntimeError('FORBIDDEN', 'No.')
        },
      },
    })
    const third = definePlugin({
      name: 'third',
      summary: 'Third.',
      requires: [second],
      runs: { admit: () => void order.push('third') },
    })
    const { app } = await appWith([third, second, first], { where })
    const user = await app.user()
    const { status } = await user.post(`/messages/${await session(user)}`, { message: 'Hello' })
    expect(status).toBe(403)
    expect(order).toEqual(['first', 'second'])
  })
})

test('an Idempotency-Key remembers no refusal that may pass', async () => {
  const { plugin, refuse } = doorkeeper()
  const { app } = await appWith([plugin])
  const user = await app.user()
  const sessionId = await session(user)
  const send = () =>
    user.post(
      `/messages/${sessionId}`,
      { message: 'Hello', stream: false },
      { 'Idempotency-Key': 'k' },
    )
  for (const [refusal, status] of [
    [paymentNeeded, 402],
    [() => new RuntimeError('RATE_LIMITED', 'Slowly.'), 429],
    [() => new RuntimeError('UNAVAILABLE', 'Not now.'), 503],
    [() => new Error('broken'), 500],
  ] as const) {
    refuse(refusal)
    expect((await send()).status).toBe(status)
  }
  refuse(undefined)
  expect((await send()).status).toBe(200)
})

test('a plugin that is pending or has failed refuses turns when it admits or begins, and not when it only hears of ends', async () => {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const gate = (name: string, runs: object, work: Promise<unknown>) =>
    definePlugin({
      name,
      summary: 'Gates.',
      setup: ({ pending }) => pending(work, 'it waits for its ledger'),
      runs,
    })
  const other = Promise.withResolvers<void>()
  const never = new Promise<void>(() => undefined)
  const { app } = await appWith([
    gate('admits', { admit: () => undefined }, promise),
    gate('begins', { begin: () => undefined }, other.promise),
    gate('ends', { end: () => undefined }, never),
  ])
  const user = await app.user()
  const sessionId = await session(user)
  const send = () => user.post(`/messages/${sessionId}`, { message: 'Hello', stream: false })
  const pending = await send()
  expect(pending).toMatchObject({ status: 503, body: { code: 'PLUGIN_PENDING' } })
  expect(pending.body.error + pending.body.message).toContain('admits')
  expect(pending.headers.get('retry-after')).toBe('2')
  reject(new Error('no ledger'))
  await expect.poll(async () => (await send()).body.code).toBe('PLUGIN_FAILED')
  const failed = await send()
  expect(failed).toMatchObject({ status: 503 })
  expect(failed.headers.get('retry-after')).toBeNull()
  resolve()
  other.resolve()
})

test('a plugin that only hears of ends keeps no turn from beginning', async () => {
  const never = new Promise<void>(() => undefined)
  const ends = definePlugin({
    name: 'ends',
    summary: 'Hears of ends.',
    setup: ({ pending }) => pending(never, 'it waits'),
    runs: { end: () => undefined },
  })
  const { app } = await appWith([ends])
  const user = await app.user()
  expect((await user.say('Hello')).status).toBe('finished')
})

test('a function of boot may make the section, or none', async () => {
  const asked: string[] = []
  const made = (name: string, price: number) =>
    definePlugin({
      name,
      summary: 'Priced.',
      setup: () => ({ price }),
      runs: ({ self }) =>
        self.price === 0
          ? undefined
          : { admit: (_run, ctx) => void asked.push(`${ctx.self.price}`) },
    })
  const { app } = await appWith([made('free', 0), made('priced', 5)])
  const user = await app.user()
  expect((await user.say('Hello')).status).toBe('finished')
  expect(asked).toEqual(['5'])
})

test('a section with other keys stops the boot', async () => {
  const wrong = definePlugin({
    name: 'wrong',
    summary: 'Wrong.',
    runs: { admitt: () => {} } as object,
  })
  await expect(testApp({ plugins: [wrong] })).rejects.toThrow(/admitt.*Did you mean "admit"/s)
})

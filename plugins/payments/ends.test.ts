import { randomBytes } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { definePlugin, RuntimeError } from '#core'
import { call, scriptedModel, TestClock, type TestApp, type TestUser } from '#core/testing'
import { z } from 'zod'
import { onEachDatabase } from '../../test/support/each-database.ts'
import { type FakeAnswer, fakeOpenAi } from '../../test/support/fake-openai.ts'
import { quickDemo } from '../../test/support/models.ts'
import { endedCharge, paidApp, session, settledAccount } from '../../test/support/paid-app.ts'
import payments from './index.ts'

const env = {
  PAYMENTS_TURN_PRICE: '5001',
  PAYMENTS_OUTPUT_PRICE: '1000',
  PAYMENTS_MAX_PER_TURN: '7000',
  PAYMENTS_FIRST_CREDIT: '70000',
  TRUST_PROXY_ENABLED: 'true',
}

/** Sends a message, and leaves when the named event has come. */
async function until(app: TestApp, user: TestUser, sessionId: string, event: string) {
  const leaving = new AbortController()
  const invocation = await user.wallet.invoke({ audience: app.oracleDid })
  const answer = await fetch(`${app.url}/messages/${sessionId}`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${invocation.text}`,
      'x-auth-type': 'ucan',
      'content-type': 'application/json',
      // DIDs of one address get the first credit three times a day.
      'x-forwarded-for': `10.${[...randomBytes(3)].join('.')}`,
    },
    body: JSON.stringify({ message: 'Go', stream: true }),
    signal: leaving.signal,
  })
  let text = ''
  for await (const piece of answer.body ?? []) {
    text += Buffer.from(piece).toString()
    if (text.includes(`event: ${event}\n`)) break
  }
  leaving.abort()
  return answer.status
}

const linesOf = ({ lines }: { lines: { what: string }[] }) => lines.map(({ what }) => what)

/** A provider that speaks over a socket: what it does, what becomes of the turn, and what the turn costs. */
const provided: Readonly<
  Record<
    string,
    {
      answers: readonly FakeAnswer[]
      /** For how long the provider may be silent. */
      patienceMs?: number
      stops?: string
      amount: string
      status: string
      lines: string[]
    }
  >
> = {
  'answers and tells its tokens': {
    answers: [{ text: 'Yes.', usage: { prompt_tokens: 50, completion_tokens: 7 } }],
    amount: '5008',
    status: 'due',
    lines: ['turn', 'tokens'],
  },
  'refuses before the first token': {
    answers: Array.from({ length: 9 }, () => ({
      status: 400,
      body: { error: { message: 'No.' } },
    })),
    amount: '0',
    status: 'void',
    lines: [],
  },
  'answers 500 before the first token': {
    answers: Array.from({ length: 9 }, () => ({
      status: 500,
      body: { error: { message: 'No.' } },
    })),
    amount: '0',
    status: 'void',
    lines: [],
  },
  'fails after the first token': {
    answers: [{ text: ['One ', 'two '], then: { error: { message: 'Out of order.' } } }],
    amount: '0',
    status: 'void',
    lines: [],
  },
  'is cut off after the first token': {
    answers: Array.from({ length: 9 }, () => ({ text: ['One ', 'two '], then: 'cut' as const })),
    amount: '0',
    status: 'void',
    lines: [],
  },
  'never begins to answer': {
    answers: Array.from({ length: 9 }, () => ({ text: 'Late.', delayMs: 3_600_000 })),
    patienceMs: 300,
    amount: '0',
    status: 'void',
    lines: [],
  },
  'falls silent after the first token': {
    answers: Array.from({ length: 9 }, () => ({ text: ['One '], then: 'silence' as const })),
    patienceMs: 300,
    amount: '0',
    status: 'void',
    lines: [],
  },
  'is stopped before the first token': {
    answers: [{ text: 'Late.', delayMs: 3_600_000 }],
    stops: 'run',
    amount: '0',
    status: 'void',
    lines: [],
  },
  'is stopped in mid-answer, when it has told no tokens': {
    answers: [{ text: ['One two three four '], then: 'silence' }],
    stops: 'message',
    // Half of the turn price, rounded up, and the tokens as they are estimated.
    amount: '2506',
    status: 'due',
    lines: ['turn', 'tokens'],
  },
}

test.each(Object.entries(provided))(
  'a provider that %s',
  async (_, { answers, patienceMs, stops, amount, status, lines }) => {
    const provider = await fakeOpenAi(answers)
    onTestFinished(() => provider.close())
    const app = await paidApp({
      plugins: [payments],
      model: undefined,
      ...(patienceMs && {
        modelSettings: { '*': { firstTokenMs: patienceMs, idleMs: patienceMs } },
      }),
      fetch,
      env: { ...env, MODEL: 'openai/small', OPENAI_BASE_URL: provider.url, OPENAI_API_KEY: 'sk-1' },
    })
    const user = await app.user()
    const sessionId = await session(user)
    await until(app, user, sessionId, stops ?? 'done')
    if (stops) await user.post('/messages/abort', { sessionId })
    const charge = await endedCharge(user, sessionId)
    expect(charge).toMatchObject({ status, amount })
    expect(linesOf(charge)).toEqual(lines)
    expect(await settledAccount(user)).toMatchObject({ held: '0', owed: amount })
  },
)

test('the demonstration model is billed by the tokens that it tells', async () => {
  const app = await paidApp({ plugins: [payments], model: quickDemo(), env })
  const user = await app.user()
  const sessionId = await session(user)
  expect(await until(app, user, sessionId, 'done')).toBe(200)
  const charge = await endedCharge(user, sessionId)
  expect(charge).toMatchObject({ status: 'due' })
  expect(linesOf(charge)).toEqual(['turn', 'tokens'])
  expect(Number(charge.amount)).toBeGreaterThan(5001)
  expect(await settledAccount(user)).toMatchObject({ held: '0', owed: charge.amount })
})

const till = definePlugin({
  name: 'till',
  summary: 'Rings.',
  visibility: 'always',
  tools: {
    ask: {
      description: 'Asks.',
      input: z.object({}),
      effect: 'write',
      approve: () => true,
      run: () => 'Asked.',
    },
    look: {
      description: 'Looks.',
      input: z.object({}),
      effect: 'read',
      foreign: false,
      run: () => 'Seen.',
    },
  },
  subAgents: {
    clerk: { description: 'Looks for things.', prompt: 'You look.', tools: ['look'] },
  },
})

await onEachDatabase('what a turn is billed in the end', (where) => {
  test('an approval that is granted an hour later ends the turn once, and nothing stays set aside', async () => {
    const clock = new TestClock()
    const app = await paidApp({
      where,
      plugins: [payments, till],
      steps: [call('ask', {}), 'Asked.'],
      clock,
      env,
    })
    const user = await app.user()
    const said = await user.say('Go', { approvals: true })
    expect(said.status).toBe('waiting')
    expect((await user.get('/payments/account')).body).toMatchObject({ held: '7000', owed: '0' })
    await clock.advance('1h')
    expect((await user.get('/payments/account')).body).toMatchObject({ held: '7000' })
    const ended = await said.approve()
    expect(ended.status).toBe('finished')
    const { amount } = await endedCharge(user, said.sessionId)
    expect(Number(amount)).toBeGreaterThanOrEqual(5001)
    expect(await settledAccount(user)).toMatchObject({ owed: amount })
    expect((await user.get('/payments/charges')).body.charges).toHaveLength(1)
  })

  test('an approval that nobody answers runs out: what the model used is billed, and nothing stays set aside', async () => {
    const clock = new TestClock()
    const usage = { inputTokens: 1, outputTokens: 30 }
    const app = await paidApp({
      where,
      plugins: [payments, till],
      steps: [{ text: 'May I?', calls: [call('ask', {})], usage }],
      clock,
      env,
    })
    const user = await app.user()
    const { sessionId, status } = await user.say('Go', { approvals: true })
    expect(status).toBe('waiting')
    expect((await user.get('/payments/account')).body).toMatchObject({ held: '7000' })
    await clock.advance('40d')
    const charge = await endedCharge(user, sessionId)
    // Words were said: half of the turn price, rounded up, and the tokens.
    expect(charge).toMatchObject({ amount: '2531', status: 'due' })
    expect(linesOf(charge)).toEqual(['turn', 'tokens'])
    expect(await settledAccount(user)).toMatchObject({ held: '0', owed: '2531' })
  })

  test('tokens of a sub-agent are on the bill of the turn that asked it', async () => {
    const usage = { inputTokens: 1, outputTokens: 10 }
    const app = await paidApp({
      where,
      plugins: [payments, till],
      steps: [
        { calls: [call('call_clerk', { task: 'Look.' })], usage },
        { calls: [call('look', {})], usage },
        { text: 'Seen.', usage },
        { text: 'It is there.', usage },
      ],
      env,
    })
    const user = await app.user()
    const { sessionId, status } = await user.say('Go')
    expect(status).toBe('finished')
    expect(await endedCharge(user, sessionId)).toMatchObject({ amount: '5041', status: 'due' })
    expect((await user.get('/payments/charges')).body.charges).toHaveLength(1)
  })

  test('a model that times out costs nothing', async () => {
    const late = new RuntimeError('MODEL_TIMEOUT', 'The provider sent nothing for 60 s.')
    const app = await paidApp({ where, steps: [{ text: ['One '], error: late }], env })
    const user = await app.user()
    const sessionId = await session(user)
    await until(app, user, sessionId, 'done')
    expect(await endedCharge(user, sessionId)).toMatchObject({ amount: '0', status: 'void' })
    expect(await settledAccount(user)).toMatchObject({ held: '0', owed: '0' })
  })

  test('a turn that the server gives up after its processes died costs nothing, and its retry is billed as any other', async () => {
    const env2 = { ...env, RUN_LEASE_MS: '2000', OPERATOR_TOKEN: 'the-operator-of-this-test' }
    const standing = () => scriptedModel([{ text: ['One ', 'never'], paceMs: 3_600_000 }])
    const app = await paidApp({ where, model: standing(), env: env2 })
    const user = await app.user()
    const sessionId = await session(user)
    await until(app, user, sessionId, 'message')
    const status = async () => {
      const [charge] = (await user.get(`/payments/charges?session=${sessionId}`)).body.charges
      return charge.status
    }
    for (let deaths = 0; deaths < 8 && (await status()) === 'held'; deaths++) {
      const model = standing()
      await app.crash()
      await app.again({ model })
      // The next process has the run, or has given it up.
      await expect
        .poll(async () => model.requests.length > 0 || (await status()) !== 'held', {
          timeout: 30_000,
        })
        .toBe(true)
    }
    await expect.poll(status, { timeout: 30_000 }).toBe('void')
    expect(await settledAccount(user)).toMatchObject({ held: '0', owed: '0' })
    const operator = { authorization: `Bearer ${env2.OPERATOR_TOKEN}` }
    const { runs } = (await app.get('/runs?status=quarantined', { headers: operator })).body
    const mine = runs.filter((run: { sessionId: string }) => run.sessionId === sessionId)
    // On SQLite a process that died is counted for certain. On PostgreSQL a run may be taken over before its process counts as dead:
    // the server then gives the run up after some more deaths, and puts nothing aside.
    if (where.databaseUrl === undefined) expect(mine).toHaveLength(1)
    await app.crash()
    await app.again({ model: scriptedModel(['Here it is.']) })
    if (mine.length > 0)
      expect((await app.post(`/runs/${mine[0].runId}/retry`, {}, operator)).status).toBe(201)
    else expect(await until(app, user, sessionId, 'done')).toBe(200)
    await expect
      .poll(async () => (await user.get('/payments/account')).body.owed, { timeout: 30_000 })
      .not.toBe('0')
    const { charges } = (await user.get(`/payments/charges?session=${sessionId}`)).body
    expect(charges.map((one: { status: string }) => one.status).sort()).toEqual(['due', 'void'])
  }, 240_000)
})

import { expect, onTestFinished, test } from 'vitest'
import { definePlugin, type Model, RuntimeError } from '#core'
import { TestClock, type TestApp, type TestUser } from '#core/testing'
import { z } from 'zod'
import { type FakeAnswer, fakeOpenAi } from '../../test/support/fake-openai.ts'
import { quickDemo } from '../../test/support/models.ts'
import { paidApp, session, settledAccount } from '../../test/support/paid-app.ts'
import payments from './index.ts'

// The table of what a turn is billed, by a provider that speaks over a socket and by the demonstration model.

const till = definePlugin({
  name: 'till',
  summary: 'Rings.',
  visibility: 'always',
  tools: {
    stamp: {
      description: 'Stamps.',
      input: z.object({}),
      effect: 'write',
      approve: () => true,
      run: () => 'Stamped.',
    },
    jam: {
      description: 'Jams.',
      input: z.object({}),
      effect: 'write',
      run: () => Promise.reject(new Error('It jams.')),
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

interface Turn {
  readonly app: TestApp
  readonly user: TestUser
  readonly sessionId: string
  readonly clock: TestClock | undefined
  readonly message: string
  /** Sends the message, and leaves when the named event has come. */
  until(event: string): Promise<void>
  /** How often the model was asked so far. */
  asked(): number
}

const stop = ({ user, sessionId }: Turn) => user.post('/messages/abort', { sessionId })

/** Has the process die again and again while the model speaks, until nobody carries the turn any more. */
async function dieUntilGivenUp({ app, user, sessionId, asked }: Turn): Promise<void> {
  const isOver = async () => {
    const { charges } = (await user.get(`/payments/charges?session=${sessionId}`)).body
    return charges[0].status !== 'held'
  }
  for (let deaths = 0; deaths < 8 && !(await isOver()); deaths++) {
    const before = asked()
    await app.crash()
    await app.again()
    // The next process has the turn, or has given it up.
    const isMet = async () => asked() > before || isOver()
    await expect.poll(isMet, { timeout: 60_000 }).toBe(true)
  }
}

interface Case {
  readonly provider: readonly FakeAnswer[]
  /** For how long the provider may be silent. */
  readonly patienceMs?: number
  /** What the demonstration model does. */
  readonly demo: Demo
  /** What the demonstration model is told, where that matters: it calls the tool that is named. */
  readonly message?: string
  /** Whether the test has the time in its hands. */
  readonly hasClock?: boolean
  readonly env?: Readonly<Record<string, string>>
  go(turn: Turn): Promise<unknown>
  readonly bill: 'nothing' | 'half' | 'all'
}

/** Before which word of each answer the demonstration model falls silent, fails, or takes too long. */
interface Demo {
  readonly silent?: number
  readonly fails?: number
  readonly timesOut?: number
}

const operatorToken = 'the-operator-of-this-test'
const usage = { prompt_tokens: 50, completion_tokens: 7 }
const calls = (name: string, args: object = {}): FakeAnswer => ({
  toolCalls: [{ name, args }],
  usage,
})
const says = (text: string): FakeAnswer => ({ text, usage })
const never = { text: 'Late.', delayMs: 3_600_000 }
const standing: FakeAnswer = { text: ['One two three four '], then: 'silence' }
const again = (answer: FakeAnswer) => Array.from({ length: 9 }, () => answer)

const cases: Readonly<Record<string, Case>> = {
  'an answer': {
    provider: [says('Yes.')],
    demo: {},
    go: ({ until }) => until('done'),
    bill: 'all',
  },
  'a failure before the first word': {
    provider: again({ status: 500, body: { error: { message: 'No.' } } }),
    demo: { fails: 0 },
    go: ({ until }) => until('done'),
    bill: 'nothing',
  },
  'a failure after the first word': {
    provider: [{ text: ['One ', 'two '], then: { error: { message: 'Out of order.' } } }],
    demo: { fails: 1 },
    go: ({ until }) => until('done'),
    bill: 'nothing',
  },
  'a time-out before the first word': {
    provider: again(never),
    patienceMs: 300,
    demo: { timesOut: 0 },
    go: ({ until }) => until('done'),
    bill: 'nothing',
  },
  'a time-out after the first word': {
    provider: again(standing),
    patienceMs: 300,
    demo: { timesOut: 1 },
    go: ({ until }) => until('done'),
    bill: 'nothing',
  },
  'a Stop before the first word': {
    provider: [never],
    demo: { silent: 0 },
    go: async (turn) => {
      await turn.until('run')
      await stop(turn)
    },
    bill: 'nothing',
  },
  'a Stop in mid-answer': {
    provider: [standing],
    demo: { silent: 1 },
    go: async (turn) => {
      await turn.until('message')
      await stop(turn)
    },
    bill: 'half',
  },
  'a newer message': {
    provider: [standing, never],
    demo: { silent: 1 },
    go: async (turn) => {
      await turn.until('message')
      await turn.until('run')
      await stop(turn)
    },
    bill: 'half',
  },
  'a session that is deleted': {
    provider: [standing],
    demo: { silent: 1 },
    go: async ({ until, user, sessionId }) => {
      await until('message')
      await user.delete(`/sessions/${sessionId}`)
    },
    bill: 'half',
  },
  'a tool that fails': {
    provider: [calls('jam'), says('It jams.')],
    demo: {},
    message: 'Call jam',
    go: ({ until }) => until('done'),
    bill: 'all',
  },
  'a sub-agent': {
    provider: [calls('call_clerk', { task: 'Look.' }), calls('look'), says('Seen.'), says('Yes.')],
    demo: {},
    message: 'Call call_clerk with task "look"',
    go: ({ until }) => until('done'),
    bill: 'all',
  },
  'an approval that is granted an hour later': {
    provider: [calls('stamp'), says('Stamped.')],
    demo: {},
    message: 'Call stamp',
    hasClock: true,
    go: async ({ user, sessionId, clock, message }) => {
      const said = await user.say(message, { sessionId, approvals: true })
      expect(said.status).toBe('waiting')
      await clock?.advance('1h')
      await said.approve()
    },
    bill: 'all',
  },
  'an approval that is superseded': {
    provider: [calls('stamp'), never],
    demo: {},
    message: 'Call stamp',
    go: async (turn) => {
      await turn.until('done')
      await turn.until('run')
      await stop(turn)
    },
    bill: 'nothing',
  },
  'takeovers until the turn is given up': {
    provider: again(standing),
    demo: { silent: 1 },
    env: { RUN_LEASE_MS: '2000', OPERATOR_TOKEN: operatorToken },
    go: async (turn) => {
      await turn.until('message')
      await dieUntilGivenUp(turn)
      const headers = { authorization: `Bearer ${operatorToken}` }
      const { runs } = (await turn.app.get('/runs?status=quarantined', { headers })).body
      expect(runs).toMatchObject([{ sessionId: turn.sessionId }])
    },
    bill: 'nothing',
  },
}

/** The demonstration model, which falls silent, fails or takes too long before a word; `onAsked` is told of each request. */
function demo({ silent, fails, timesOut }: Demo, onAsked: () => void): Model {
  const model = quickDemo()
  return {
    ...model,
    async *stream(request) {
      onAsked()
      let words = 0
      for await (const event of model.stream(request)) {
        const word = event.type === 'text' ? words++ : undefined
        if (word !== undefined && word === fails) throw new Error('500')
        if (word !== undefined && word === timesOut)
          throw new RuntimeError('MODEL_TIMEOUT', 'The model sent nothing for 60 s.')
        if (word !== undefined && word === silent) {
          const { signal } = request
          await new Promise((_, reject) => {
            signal.addEventListener('abort', () => reject(signal.reason), { once: true })
          })
        }
        yield event
      }
    },
  }
}

const told = Object.entries(cases).flatMap(([name, one]) => [
  [name, 'a provider', one] as const,
  [name, 'the demonstration model', one] as const,
])

/** Sends what is given, without the sentence that the other messages of these tests have. */
const { fetch: asGiven } = globalThis

test.each(told)('%s, by %s', { timeout: 240_000 }, async (_, by, one) => {
  const { provider, patienceMs, demo: how, message = 'Hello', hasClock, env, go, bill } = one
  const clock = hasClock ? new TestClock() : undefined
  const endpoint = by === 'a provider' ? await fakeOpenAi(provider) : undefined
  onTestFinished(async () => endpoint?.close())
  let demoAsked = 0
  const asked = () => endpoint?.requests.length ?? demoAsked
  const app = await paidApp({
    plugins: [payments, till],
    model: endpoint ? undefined : demo(how, () => demoAsked++),
    ...(patienceMs !== undefined && {
      modelSettings: { '*': { firstTokenMs: patienceMs, idleMs: patienceMs } },
    }),
    ...(clock && { clock }),
    fetch,
    env: {
      PAYMENTS_TURN_PRICE: '5001',
      PAYMENTS_OUTPUT_PRICE: '1000',
      PAYMENTS_MAX_PER_TURN: '7000',
      PAYMENTS_FIRST_CREDIT: '70000',
      ...env,
      ...(endpoint && {
        MODEL: 'openai/small',
        OPENAI_BASE_URL: endpoint.url,
        OPENAI_API_KEY: 'sk-1',
      }),
    },
  })
  const user = await app.user()
  const sessionId = await session(user)
  const invocation = await user.wallet.invoke({ audience: app.oracleDid })
  const until = async (event: string) => {
    const leaving = new AbortController()
    // The demonstration model calls no tool for a greeting, and a greeting has no further words.
    const send = endpoint ? fetch : asGiven
    const answer = await send(`${app.url}/messages/${sessionId}`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${invocation.text}`,
        'x-auth-type': 'ucan',
        'content-type': 'application/json',
      },
      body: JSON.stringify({ message, stream: true, approvals: true }),
      signal: leaving.signal,
    })
    let text = ''
    for await (const piece of answer.body ?? []) {
      text += Buffer.from(piece).toString()
      if (text.includes(`event: ${event}\n`)) break
    }
    leaving.abort()
  }
  await go({ app, user, sessionId, clock, message, until, asked })

  expect(await settledAccount(user)).toMatchObject({ held: '0' })
  const { charges } = (await user.get(`/payments/charges?session=${sessionId}`)).body
  const charge = charges.at(-1)
  const expected = {
    nothing: { status: 'void', lines: [] },
    half: { status: 'due', lines: [{ what: 'turn', amount: '2501', half: true }, tokens] },
    all: { status: 'due', lines: [{ what: 'turn', amount: '5001' }, tokens] },
  }
  expect(charge).toMatchObject(expected[bill])
  expect(charge.amount).toBe(sumOf(charge.lines))
  expect((await user.get('/payments/account')).body).toMatchObject({ owed: sumOf(charges) })
})

const sumOf = (all: readonly { readonly amount: string }[]) =>
  String(all.reduce((sum, { amount }) => sum + Number(amount), 0))

const tokens = { what: 'tokens', amount: expect.stringMatching(/^[1-9]\d*$/) }

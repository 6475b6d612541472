import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { definePlugin } from '#core'
import { call, type ScriptedStep, type TestApp, type TestUser } from '#core/testing'
import { z } from 'zod'
import { onEachDatabase } from '../../test/support/each-database.ts'
import payments from './index.ts'
import { paidApp, session, settledAccount } from '../../test/support/paid-app.ts'

/** When the tool that outlasts its turn is at work, and when it has added to the bill. */
let lingering = Promise.withResolvers<void>()
let left = Promise.withResolvers<void>()

const till = definePlugin({
  name: 'till',
  summary: 'Rings.',
  visibility: 'always',
  requires: [payments],
  tools: {
    ring: { description: 'Rings.', input: z.object({}), effect: 'write', run: () => 'Rung.' },
    print_elsewhere: {
      description: 'Adds to the bill as another process does, which had the turn for a while.',
      input: z.object({}),
      effect: 'write',
      async run(_, { db, user }) {
        await sql`insert into payments_extras (run_id, key, did, amount, reason)
          select run_id, 'elsewhere', did, 70, 'Paper' from payments_charges
          where did = ${user.did} and status = 'held'`.execute(db)
        return 'Printed.'
      },
    },
    print: {
      description: 'Prints.',
      input: z.object({}),
      effect: 'write',
      async run(_, ctx) {
        for (const amount of [40, 50])
          await ctx.plugins.payments.charge(ctx, { key: 'paper', amount, reason: 'Paper' })
        return 'Printed.'
      },
    },
    jam: {
      description: 'Jams.',
      input: z.object({}),
      effect: 'write',
      run: () => Promise.reject(new Error('It jams.')),
    },
    linger: {
      description: 'Goes on after its turn.',
      input: z.object({}),
      effect: 'write',
      async run(_, ctx) {
        lingering.resolve()
        await new Promise((resolve) => ctx.signal.addEventListener('abort', resolve))
        await ctx.plugins.payments.charge(ctx, { key: 'late', amount: 60, reason: 'Late' })
        left.resolve()
        return 'Gone.'
      },
    },
    ask: {
      description: 'Asks.',
      input: z.object({}),
      effect: 'write',
      approve: () => true,
      run: () => 'Asked.',
    },
  },
})

/** A model that says this and then nothing more, until it is stopped. */
const standing = (...words: string[]): ScriptedStep =>
  words.length === 0
    ? { text: 'Late.', delayMs: 3_600_000 }
    : { text: [...words, 'never'], paceMs: 3_600_000 }

/** A turn that is under way, once the model was asked and its words are told. */
interface Turn {
  readonly app: TestApp
  readonly user: TestUser
  readonly sessionId: string
  /** Sends a message, and goes on when the named event comes. */
  until(event: string): Promise<void>
}

const stop = ({ user, sessionId }: Turn) => user.post('/messages/abort', { sessionId })

/** What becomes of a turn, what it is billed, and by which lines. */
const cases: Readonly<
  Record<
    string,
    {
      readonly steps: readonly ScriptedStep[]
      go(turn: Turn): Promise<unknown>
      readonly amount: string
      readonly status: string
      readonly lines: readonly string[]
    }
  >
> = {
  'a model that fails before its first word': {
    steps: [new Error('500')],
    go: ({ until }) => until('done'),
    amount: '0',
    status: 'void',
    lines: [],
  },
  'a model that fails after its first word': {
    steps: [{ text: ['One '], error: new Error('500') }],
    go: ({ until }) => until('done'),
    amount: '0',
    status: 'void',
    lines: [],
  },
  'a Stop before the first word': {
    steps: [standing()],
    go: async (turn) => {
      await turn.until('run')
      await stop(turn)
    },
    amount: '0',
    status: 'void',
    lines: [],
  },
  'a Stop in mid-answer': {
    steps: [standing('One ')],
    go: async (turn) => {
      await turn.until('message')
      await stop(turn)
    },
    amount: '2501',
    status: 'due',
    lines: ['turn'],
  },
  'a newer message': {
    steps: [standing('One '), standing()],
    go: async (turn) => {
      await turn.until('message')
      await turn.until('run')
      await stop(turn)
    },
    amount: '2501',
    status: 'due',
    lines: ['turn'],
  },
  'a session that is deleted before the first word': {
    steps: [standing()],
    go: async ({ until, user, sessionId }) => {
      await until('run')
      await user.delete(`/sessions/${sessionId}`)
    },
    amount: '0',
    status: 'void',
    lines: [],
  },
  'a session that is deleted after a word': {
    steps: [standing('One ')],
    go: async ({ until, user, sessionId }) => {
      await until('message')
      await user.delete(`/sessions/${sessionId}`)
    },
    amount: '2501',
    status: 'due',
    lines: ['turn'],
  },
  'a tool that fails': {
    steps: [call('jam', {}), 'It jams.'],
    go: ({ until }) => until('done'),
    amount: '5001',
    status: 'due',
    lines: ['turn'],
  },
  'a tool with a price': {
    steps: [call('ring', {}), 'Rung.'],
    go: ({ until }) => until('done'),
    amount: '5701',
    status: 'due',
    lines: ['turn', 'tool'],
  },
  'what another plugin adds, once a key': {
    steps: [call('print', {}), 'Printed.'],
    go: ({ until }) => until('done'),
    amount: '5041',
    status: 'due',
    lines: ['turn', 'extra'],
  },
  'what was added while another process had the turn': {
    steps: [call('print_elsewhere', {}), 'Printed.'],
    go: ({ until }) => until('done'),
    amount: '5071',
    status: 'due',
    lines: ['turn', 'extra'],
  },
  'what another plugin adds to a turn that fails': {
    steps: [call('print', {}), new Error('500')],
    go: ({ until }) => until('done'),
    amount: '0',
    status: 'void',
    lines: [],
  },
  'a turn that costs more than its most': {
    steps: [[call('ring', {}), call('ring', {}), call('ring', {}), call('ring', {})], 'Rung.'],
    go: ({ until }) => until('done'),
    amount: '7000',
    status: 'due',
    lines: ['turn', 'tool', 'limit'],
  },
  'tokens, rounded up once': {
    steps: [{ text: 'Yes.', usage: { inputTokens: 1001, outputTokens: 1 } }],
    go: ({ until }) => until('done'),
    amount: '5003',
    status: 'due',
    lines: ['turn', 'tokens'],
  },
  'an approval that is superseded': {
    steps: [call('ask', {}), standing()],
    go: async (turn) => {
      await turn.until('done')
      await turn.until('run')
      await stop(turn)
    },
    amount: '0',
    status: 'void',
    lines: [],
  },
}

await onEachDatabase('what a turn is billed', (where) => {
  let folder = ''
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'prices-'))
    const tools = { ring: '700', jam: '700' }
    const tokens = [{ model: 'scripted*', input: '1', output: '1' }]
    writeFileSync(join(folder, 'tools.json'), JSON.stringify({ tools }))
    writeFileSync(join(folder, 'tokens.json'), JSON.stringify({ tokens, tools }))
  })
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  test.each(Object.entries(cases))('%s', async (_, { steps, go, amount, status, lines }) => {
    const app = await paidApp({
      where,
      steps,
      plugins: [payments, till],
      env: {
        PAYMENTS_TURN_PRICE: '5001',
        PAYMENTS_PRICES: join(folder, lines.includes('tokens') ? 'tokens.json' : 'tools.json'),
        PAYMENTS_MAX_PER_TURN: '7000',
        PAYMENTS_FIRST_CREDIT: '70000',
        TRUST_PROXY_ENABLED: 'true',
      },
    })
    const user = await app.user()
    const sessionId = await session(user)
    const address = [10, ...randomBytes(3)].join('.')
    const until = async (event: string) => {
      const leaving = new AbortController()
      const { headers } = await credentialsOf(app, user)
      const answer = await fetch(`${app.url}/messages/${sessionId}`, {
        method: 'POST',
        headers: { ...headers, 'content-type': 'application/json', 'x-forwarded-for': address },
        body: JSON.stringify({ message: 'Go', stream: true, approvals: true }),
        signal: leaving.signal,
      })
      // A model that fails at once is told as a status.
      if (answer.status >= 500) return
      expect(answer.status).toBe(200)
      let text = ''
      const decoder = new TextDecoder()
      for await (const piece of answer.body!) {
        text += decoder.decode(piece, { stream: true })
        if (text.includes(`event: ${event}\n`)) break
      }
      leaving.abort()
    }
    await go({ app, user, sessionId, until })
    let billed
    for (;;) {
      const { charges } = (await user.get(`/payments/charges?session=${sessionId}`)).body
      const first = charges.at(-1)
      if (
        first &&
        first.status !== 'held' &&
        charges.every((one: { status: string }) => one.status !== 'held')
      ) {
        billed = first
        break
      }
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
    const account = (await user.get('/payments/account')).body
    expect(account).toMatchObject({ held: '0', owed: billed.amount })
    expect(billed).toMatchObject({ amount, status })
    expect(billed.lines.map((line: { what: string }) => line.what)).toEqual(lines)
  })
})

await onEachDatabase('what a tool adds to a bill', (where) => {
  test('is never on the bill of a newer turn of its session', async () => {
    lingering = Promise.withResolvers()
    left = Promise.withResolvers()
    const steps: ScriptedStep[] = [call('linger', {}), async () => (await left.promise, 'Yes.')]
    const app = await paidApp({ where, plugins: [payments, till], steps })
    const user = await app.user()
    const sessionId = await session(user)
    const say = () => user.post(`/messages/${sessionId}`, { message: 'Go', stream: false })
    const first = say()
    await lingering.promise
    expect((await say()).status).toBe(200)
    await first
    await settledAccount(user)
    const { charges } = (await user.get(`/payments/charges?session=${sessionId}`)).body
    expect(charges).toMatchObject([{ amount: '5000', lines: [{ what: 'turn' }] }, {}])
    expect(charges[0].lines).toHaveLength(1)
  })
})

async function credentialsOf(app: TestApp, user: TestUser) {
  const invocation = await user.wallet.invoke({ audience: app.oracleDid })
  return {
    headers: { authorization: `Bearer ${invocation.text}`, 'x-auth-type': 'ucan' },
  }
}

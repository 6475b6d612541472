import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { AnyPlugin, TurnContext, Turns } from '#core'
import { testApp, type TestApp } from '#core/testing'
import { freshDatabase } from '../../test/support/database.ts'
import { describeWith } from '../../test/support/services.ts'
import ussd from './index.ts'
import { Phone } from './phone.ts'

type Turn = Parameters<Turns['start']>[0]

/** A fake of the runtime's turns: speaks word by word when it is told to. */
function fakeTurns() {
  const asked: Turn[] = []
  const gates: PromiseWithResolvers<string>[] = []
  const turns: Turns = {
    async *start(turn) {
      asked.push(turn)
      const gate = Promise.withResolvers<string>()
      gates.push(gate)
      const answer = await gate.promise
      for (const [seq, content] of answer.split(/(?<= )/).entries())
        yield { seq, event: 'message', data: { content } }
      yield { seq: 9999, event: 'done', data: { status: 'finished' } }
    },
  }
  const plugin: AnyPlugin = {
    ...ussd,
    definition: { ...ussd.definition, setup: (boot) => ussd.definition.setup!({ ...boot, turns }) },
  }
  return {
    plugin,
    asked,
    say: (answer: string) => gates.shift()!.resolve(answer),
    fail: () => gates.shift()!.reject(new Error('the model is away')),
  }
}

const phoneOf = (app: TestApp, number = '+254711000111') =>
  new Phone(number, async (request) => (await app.post('/api/ussd', request)).body)

const suite = (database: () => Promise<Record<string, string>>) => {
  async function starting() {
    const fake = fakeTurns()
    const env = {
      ...(await database()),
      USSD_RATE_LIMIT_PER_MINUTE: '1000000',
      USSD_REPLY_BUDGET_MS: '200',
    }
    const app = await testApp({ plugins: [fake.plugin], env })
    onTestFinished(() => app.close())
    return { app, phone: phoneOf(app), ...fake }
  }
  const said = (phone: Phone, input: string, what: RegExp) =>
    expect.poll(() => phone.type(input), { timeout: 10_000 }).toMatch(what)
  const long = Array.from({ length: 60 }, (_, n) => `word${n}`).join(' ')

  it('answers a question, in pages, as the same DID each time', async () => {
    const { phone, asked, say } = await starting()
    await phone.dial()
    expect(await phone.type('3')).toBe('CON Your question:\n0. Back')
    const waiting = phone.type('Will it rain?')
    await expect.poll(() => asked.length).toBe(1)
    say(long)
    const first = await waiting
    expect(first).toMatch(/^CON word0 word1 .*\n98\. More\n0\. Back$/)
    expect(await phone.type('98')).toMatch(/^CON word\d+/)
    expect(await phone.type('1')).toMatch(/^CON Your question/)
    const again = phone.type('And tomorrow?')
    await expect.poll(() => asked.length).toBe(2)
    say('No.')
    expect(await again).toBe('CON No.\n1. Ask again\n0. Back')
    expect(asked.map(({ message }) => message)).toEqual(['Will it rain?', 'And tomorrow?'])
    expect(asked[0]!.user.did).toMatch(/^did:key:z6Mk/)
    expect(asked[1]!.user.did).toBe(asked[0]!.user.did)
    expect(asked[1]!.session).toBe(asked[0]!.session)
  })

  it('says that it still works, and has the answer on a later input', async () => {
    const { phone, asked, say } = await starting()
    await phone.dial()
    await phone.type('3')
    expect(await phone.type('Will it rain?')).toBe('CON Still working.\n1. Continue')
    expect(await phone.type('1')).toBe('CON Still working.\n1. Continue')
    say('Yes.')
    await said(phone, '1', /^CON Yes\.\n1\. Ask again/)
    expect(asked).toHaveLength(1)
  })

  it('goes on when the call ends, and answers behind the same entry after a redial', async () => {
    const { app, phone, asked, say } = await starting()
    await phone.dial()
    await phone.type('3', 'Will it rain?')
    await phone.dial()
    expect(await phone.type('3')).toMatch(/^CON The oracle is still thinking/)
    say('Yes.')
    await said(phone, '1', /^CON Yes\./)
    expect(await phone.dial()).toMatch(/^CON Welcome/)
    expect(await phone.type('3')).toMatch(/^CON Yes\./)
    const other = phoneOf(app, '+254722000222')
    await other.dial()
    expect(await other.type('3')).toMatch(/^CON Your question/)
    expect(asked).toHaveLength(1)
  })

  it('says plainly when there is no answer', async () => {
    const { app, phone, asked, fail } = await starting()
    await phone.dial()
    await phone.type('3')
    const waiting = phone.type('Will it rain?')
    await expect.poll(() => asked.length).toBe(1)
    fail()
    expect(await waiting).toMatch(/^CON (There is no answer|Still working)/)
    await phone.dial()
    expect(await phone.type('3')).toMatch(/^CON There is no answer/)
    expect(app.log.join('\n')).toContain('a question was not answered')
  })

  it('asks as the account once one is logged in, and in a conversation of its own', async () => {
    const { phone, asked, say } = await starting()
    await phone.dial()
    await phone.type('3', 'As a guest')
    say('Hello.')
    await phone.dial()
    await phone.type('2', '1', 'Amina', '1', '48213')
    let created = await phone.type('48213')
    // Under load the seal may take longer than the short budget of this test.
    for (let tries = 0; created.includes('Still') && tries < 20; tries++)
      created = await phone.type('1')
    expect(created).toMatch(/account is ready/)
    expect(await phone.type('0', '3')).toMatch(/^CON Your question/)
    const waiting = phone.type('As Amina')
    await expect.poll(() => asked.length).toBe(2)
    say('Hello Amina.')
    expect(await waiting).toMatch(/^CON (Hello Amina|Still working)/)
    expect(asked[1]!.user.did).not.toBe(asked[0]!.user.did)
    expect(asked[0]!.session).toMatch(/^ussd-guest-/)
    expect(asked[1]!.session).toBe(`ussd-${asked[1]!.user.did}`)
  })
}

describe('the oracle over USSD, on SQLite', () => suite(async () => ({})))
await describeWith('postgres', 'the oracle over USSD, on PostgreSQL', (url) =>
  suite(async () => {
    const database = await freshDatabase(url)
    onTestFinished(database.drop)
    return { DATABASE_URL: database.url }
  }),
)

it('a tool that changes something is refused to who has not logged in', async () => {
  const tool = ussd.definition.middleware!.tool!
  const attempt = async (session: string, effect: 'read' | 'write') => {
    const call = { id: 'c', name: 'write_note', plugin: 'notes', effect, args: {} }
    // What the middleware reads of a turn is its session.
    const ctx = { session: { id: session } } as unknown as TurnContext
    return tool(call, ctx, async () => 'ran')
  }
  await expect(attempt('ussd-guest-did:key:z', 'write')).rejects.toThrow(/logged in/)
  expect(await attempt('ussd-guest-did:key:z', 'read')).toBe('ran')
  expect(await attempt('ussd-did:key:z', 'write')).toBe('ran')
  expect(await attempt('another session', 'write')).toBe('ran')
})

it('a runtime that serves no turns leaves the rest of the menu alone', async () => {
  await using app = await testApp({ plugins: [ussd] })
  const phone = phoneOf(app)
  await phone.dial()
  await phone.type('3')
  await phone.type('Anybody there?')
  await sleep(0)
  await phone.dial()
  expect(await phone.type('1')).toMatch(/^CON What would you like/)
})

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { type Database, definePlugin, type Model, type ModelRequest, type TurnEvent } from '#core'
import { scriptedModel, type ScriptedStep, testApp, type TestApp } from '#core/testing'
import { freshDatabase } from '../../../test/support/database.ts'
import { describeWith } from '../../../test/support/services.ts'
import { fits } from '../screens/gsm7.ts'
import ussd from '../index.ts'
import { Phone } from '../phone.ts'
import { plain } from './plain.ts'
import { Transcript } from './transcript.ts'
import { unquote } from '../../../test/support/models.ts'

const fixed = {
  USSD_RATE_LIMIT_PER_MINUTE: '1000000',
  PIN_ENCRYPTION_KEY: 'ab'.repeat(32),
  ORACLE_MNEMONIC: 'one oracle on several servers',
  RUN_LEASE_MS: '1000',
}

const call = (name: string, args: object = {}) => ({ call: name, args })
const resultOf = ({ messages }: ModelRequest, tool: string) =>
  unquote(messages.findLast((one) => one.role === 'tool' && one.name === tool)?.content ?? '')

const phoneOf = (app: TestApp, number = '+254711000111') =>
  new Phone(number, async (request) => (await app.post('/api/ussd', request)).body)

/** A plugin with a tool that reads, a tool that writes, and a tool that needs an approval. */
function notes() {
  const seen = { users: [] as string[], sessions: [] as string[], written: [] as string[] }
  const plugin = definePlugin({
    name: 'notes',
    summary: 'Notes of anybody.',
    visibility: 'on-demand',
    setup: ({ db }) => ({ db }),
    tools: {
      read_note: {
        description: 'Reads the note.',
        effect: 'read',
        input: z.object({}),
        run: () => 'the note says hello',
      },
      write_note: {
        description: 'Writes a note.',
        input: z.object({ note: z.string() }),
        run: ({ note }) => (seen.written.push(note), 'written'),
      },
      burn_notes: {
        description: 'Burns every note.',
        approve: true,
        input: z.object({}),
        run: () => (seen.written.push('burnt'), 'burnt'),
      },
    },
    subAgents: {
      clerk: { description: 'Does it for you.', prompt: 'You write.', tools: ['write_note'] },
    },
    middleware: {
      async turn(ctx, next) {
        seen.users.push(ctx.user.did)
        seen.sessions.push(ctx.session.id)
        await next()
      },
    },
    routes: {
      'GET /runs-of-all': {
        auth: 'public',
        run: async (_, { self }) => ({ statuses: await statusesOf(self.db) }),
      },
    },
  })
  return { plugin, seen }
}

async function statusesOf(db: Database): Promise<string[]> {
  const rows = await db
    .withTables<{ kernel_runs: { status: string; created_at: number } }>()
    .selectFrom('kernel_runs')
    .select('status')
    .orderBy('created_at')
    .execute()
  return rows.map(({ status }) => status)
}

/** A model that sends half of its answer, and waits before it sends the other half. */
function halting(words: readonly [string, string]) {
  const gate = Promise.withResolvers<void>()
  const half = Promise.withResolvers<void>()
  const model: Model = {
    id: 'halting',
    async *stream({ signal }: ModelRequest) {
      yield { type: 'text', text: words[0] }
      half.resolve()
      const stopped = Promise.withResolvers<never>()
      signal.addEventListener('abort', () => stopped.reject(signal.reason), { once: true })
      await Promise.race([gate.promise, stopped.promise])
      yield { type: 'text', text: words[1] }
    },
  }
  return { model, go: () => gate.resolve(), half: half.promise }
}

const stillWorking = /^CON Still working\.[^]*\n1\. Continue/
const isWaiting = (answer: string) => stillWorking.test(answer)
const long = Array.from({ length: 60 }, (_, n) => `word${n}`).join(' ')

/** Types an input, and then 1 as long as the screen says to wait, because the machine may be busy. */
const answered = async (phone: Phone, ...inputs: string[]) => {
  let answer = ''
  for (const input of inputs) {
    answer = await phone.type(input)
    for (const until = Date.now() + 15_000; isWaiting(answer) && Date.now() < until;)
      answer = await phone.type('1')
  }
  return answer
}
const suite = (place: () => Promise<Record<string, string>>) => {
  async function starting(model: Model, env: Record<string, string>) {
    const { plugin, seen } = notes()
    const app = await testApp({ plugins: [ussd, plugin], model, env: { ...fixed, ...env } })
    onTestFinished(() => app.close())
    return { app, phone: phoneOf(app), seen }
  }
  const asking = async (steps: readonly ScriptedStep[], env: Record<string, string> = {}) => {
    const model = scriptedModel(steps)
    return { ...(await starting(model, { ...(await place()), ...env })), model }
  }
  const brief = { USSD_REPLY_BUDGET_MS: '200' }
  const create = async (phone: Phone) => {
    await phone.dial()
    expect(await answered(phone, '2', '1', 'Amina', '1', '48213', '48213')).toMatch(/is ready/)
    return phone.type('0')
  }

  it('answers a question, in pages, and goes on in one conversation', async () => {
    const { phone, seen, model } = await asking([long, 'No.'])
    await phone.dial()
    expect(await phone.type('3')).toBe('CON Your question:\n0. Back')
    let page = await answered(phone, 'Will it rain?')
    expect(page).toMatch(
      /^CON word0 word1 .*\n1\. Ask again\n|^CON word0 word1 .*\n98\. More\n0\. Back$/,
    )
    let read = ''
    for (;;) {
      expect(fits(page.slice(4)), page).toBe(true)
      read += ` ${page.slice(4).replace(/\n(98\. More|0\. Back|1\. Ask again)/g, '')}`
      if (!page.includes('98. More')) break
      page = await phone.type('98')
    }
    expect(read.trim()).toBe(long)
    expect(await phone.type('1')).toMatch(/^CON Your question/)
    expect(await answered(phone, 'And tomorrow?')).toBe('CON No.\n1. Ask again\n0. Back')
    expect(seen.users[0]).toMatch(/^did:key:z6Mk/)
    expect(seen.sessions[0]).toBe(`ussd-guest-${seen.users[0]}`)
    expect([seen.users[1], seen.sessions[1]]).toEqual([seen.users[0], seen.sessions[0]])
    const [system, ...conversation] = model.requests[1]!.messages
    expect(system?.content).toContain('feature phone')
    expect(conversation.map(({ content }) => content)).toEqual([
      'Will it rain?',
      long,
      'And tomorrow?',
    ])
  })

  it('says that it still works, and has the answer on a later input of the call', async () => {
    const { model, go } = halting(['It ', 'will.'])
    const { phone } = await starting(model, { ...(await place()), ...brief })
    await phone.dial()
    await phone.type('3')
    expect(await phone.type('Will it rain?')).toMatch(stillWorking)
    expect(await phone.again()).toMatch(stillWorking)
    expect(await phone.type('1')).toMatch(stillWorking)
    go()
    expect(await answered(phone, '1')).toMatch(/^CON It will\.\n1\. Ask again/)
  })

  it('goes on when the call ends, and answers behind the same entry after a redial', async () => {
    const { model, go } = halting(['It ', 'will.'])
    const { app, phone, seen } = await starting(model, { ...(await place()), ...brief })
    await phone.dial()
    await phone.type('3', 'Will it rain?')
    expect(await phone.dial()).toMatch(/^CON Welcome/)
    expect(await phone.type('3')).toMatch(/^CON Still working\./)
    go()
    expect(await answered(phone, '1')).toMatch(/^CON It will\./)
    expect(await phone.dial()).toMatch(/^CON Welcome/)
    expect(await phone.type('3')).toMatch(/^CON It will\./)
    const other = phoneOf(app, '+254722000222')
    await other.dial()
    expect(await other.type('3')).toMatch(/^CON Your question/)
    expect(seen.users).toHaveLength(1)
  })

  it('has the answer after the server was restarted in the middle of the turn', async () => {
    const env = { ...(await place()), ...brief }
    const first = halting(['Half. ', 'never said'])
    const before = await starting(first.model, env)
    await before.phone.dial()
    await before.phone.type('3', 'Will it rain?')
    await first.half
    await before.app.close()

    const second = halting(['It ', 'will.'])
    const after = await starting(second.model, env)
    const { phone } = after
    phone.sessionId = before.phone.sessionId
    phone.text = before.phone.text
    // The first call continues where it was.
    expect(await phone.type('1')).toMatch(stillWorking)
    await second.half
    second.go()
    expect(await answered(phone, '1')).toMatch(/^CON It will\.\n1\. Ask again/)
    await phone.dial()
    expect(await phone.type('3')).toMatch(/^CON It will\./)
    expect((await after.app.get('/runs-of-all')).body.statuses).toEqual(['finished'])
  })

  it('says plainly when there is no answer, and never shows half of one', async () => {
    const { phone } = await asking([{ text: 'Half an', error: new Error('gone') }, 'Yes.'])
    await phone.dial()
    expect(await answered(phone, '3', 'Will it rain?')).toBe(
      'CON There is no answer this time. Please ask again.\n1. Ask again\n0. Back',
    )
    await phone.dial()
    expect(await phone.type('3')).toMatch(/^CON There is no answer/)
    expect(await answered(phone, '1', 'And now?')).toMatch(/^CON Yes\./)
  })

  it('joins what was said before and after a tool, and shows no letter that a phone lacks', async () => {
    const { phone } = await asking([
      { text: 'Let me **look**.', calls: [call('load_capability', { names: ['notes'] })] },
      'It’s “fine” \u0000— ça va 😀\u001b!',
    ])
    await phone.dial()
    expect(await answered(phone, '3', 'How is it?')).toBe(
      `CON Let me look. It's "fine" - ca va !\n1. Ask again\n0. Back`,
    )
  })

  it('lets who has not logged in load and read, and refuses to change anything, also through an assistant', async () => {
    const refusal = /only callers who have logged in may do this/
    const { phone, seen, model } = await asking([
      call('load_capability', { names: ['notes'] }),
      [call('read_note'), call('write_note', { note: 'a' }), call('burn_notes')],
      call('call_clerk', { task: 'Write b' }),
      call('write_note', { note: 'b' }),
      'It was refused.',
      'You must log in.',
    ])
    await phone.dial()
    expect(await answered(phone, '3', 'Write something')).toMatch(/^CON You must log in\./)
    const results = model.requests[2]!
    expect(resultOf(results, 'read_note')).toBe('the note says hello')
    expect(resultOf(results, 'write_note')).toMatch(refusal)
    expect(resultOf(results, 'burn_notes')).toMatch(refusal)
    expect(resultOf(model.requests[4]!, 'write_note')).toMatch(refusal)
    expect(seen.written).toEqual([])
  })

  it('asks as the account once one is logged in, which may change things, in a conversation of its own', async () => {
    const { phone, seen } = await asking([
      'Hello guest.',
      call('load_capability', { names: ['notes'] }),
      call('write_note', { note: 'mine' }),
      'Written.',
    ])
    await phone.dial()
    expect(await answered(phone, '3', 'As a guest')).toMatch(/^CON Hello guest/)
    await create(phone)
    expect(await phone.type('3')).toMatch(/^CON Your question/)
    expect(await answered(phone, 'Write it down')).toMatch(/^CON Written\./)
    expect(seen.written).toEqual(['mine'])
    expect(seen.users[1]).not.toBe(seen.users[0])
    expect(seen.sessions[1]).toBe(`ussd-${seen.users[1]}`)
  })

  it('refuses what needs a consent in clear words, and leaves no turn waiting', async () => {
    const { app, phone, seen } = await asking([
      call('load_capability', { names: ['notes'] }),
      { text: 'I shall burn them.', calls: [call('burn_notes')] },
      'What else?',
    ])
    await create(phone)
    expect(await answered(phone, '3', 'Burn my notes')).toBe(
      'CON That needs a consent that cannot be given by phone. It was not done.\n1. Ask again\n0. Back',
    )
    await expect
      .poll(async () => (await app.get('/runs-of-all')).body.statuses, { timeout: 10_000 })
      .toEqual(['aborted'])
    expect(await answered(phone, '1', 'Then not')).toMatch(/^CON What else\?/)
    expect(seen.written).toEqual([])
    await phone.dial()
  })
}

describe('the oracle over USSD, on SQLite', () =>
  suite(async () => {
    const DATA_DIR = mkdtempSync(join(tmpdir(), 'oracle-ussd-'))
    onTestFinished(() => rmSync(DATA_DIR, { recursive: true, force: true }))
    return { DATA_DIR }
  }))

await describeWith('postgres', 'the oracle over USSD, on PostgreSQL', (url) => {
  async function fresh() {
    const database = await freshDatabase(url)
    onTestFinished(database.drop)
    return { DATABASE_URL: database.url }
  }
  suite(fresh)

  it('answers at the server that is asked next, while the first still carries the turn', async () => {
    // The answer of the agent never comes within the budget, and every other screen does, however busy the machine is.
    const env = { ...fixed, ...(await fresh()), USSD_REPLY_BUDGET_MS: '4000' }
    const { model, go } = halting(['It ', 'will.'])
    await using one = await testApp({ plugins: [ussd], model, env })
    await using two = await testApp({ plugins: [ussd], model: scriptedModel([]), env })
    const here = phoneOf(one)
    await here.dial()
    expect(await here.type('3', 'Will it rain?')).toMatch(/^CON Still working\./)
    const there = phoneOf(two)
    await there.dial()
    expect(await there.type('3')).toMatch(/^CON Still working\./)
    go()
    await expect
      .poll(() => there.type('1'), { timeout: 60_000 })
      .toMatch(/^CON It will\.\n1\. Ask again/)
  }, 120_000)
})

describe('what the agent said', () => {
  /** An event of which only what a transcript reads is there. */
  const event = (event: TurnEvent['event'], data: object) => ({ seq: 1, event, data }) as TurnEvent

  it('is cut where another server takes the turn over', () => {
    const said = new Transcript()
    said.hear(event('run', { runId: 'r' }))
    said.hear(event('message', { content: 'Look. ' }))
    said.hear(event('tool_call', {}))
    said.hear(event('message', { content: 'It wi' }))
    said.hear(event('run', { runId: 'r', resumed: true, partialLength: 6 }))
    said.hear(event('message', { content: 'It will.' }))
    expect(said.end).toBeUndefined()
    said.hear(event('done', { status: 'finished' }))
    expect([said.text, said.end]).toEqual(['Look. \nIt will.', 'finished'])
  })

  it('loses its markup and keeps its words', () => {
    const cases: [string, string][] = [
      ['# Title\n\n* one\n* two', 'Title - one - two'],
      ['see [the page](https://x.org/a_b) now', 'see the page https://x.org/a_b now'],
      ['_yes_ snake_case __no__ `code`', 'yes snake_case no code'],
      ['2 * 3 = 6', '2 3 = 6'],
      ['reçu, fenêtre, œuf, «oui»', 'recu, fenetre, oeuf, "oui"'],
      ['Übergröße Ñandú', 'Übergröße Ñandu'],
      ['水 is water', '水 is water'],
      ['x'.repeat(20_000), 'x'.repeat(10_000)],
    ]
    for (const [text, expected] of cases) expect(plain(text)).toBe(expected)
  })
})

it('a runtime that serves no model leaves the rest of the menu alone', async () => {
  const model: Model = {
    id: 'away',
    // eslint-disable-next-line require-yield
    async *stream() {
      throw new Error('the model is away')
    },
  }
  await using app = await testApp({ plugins: [ussd], model, env: fixed })
  const phone = phoneOf(app)
  await phone.dial()
  expect(await answered(phone, '3', 'Anybody there?')).toMatch(/^CON There is no answer this time/)
  await phone.dial()
  expect(await phone.type('1')).toMatch(/^CON What would you like/)
})

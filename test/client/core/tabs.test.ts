import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { call, scriptedModel, testApp } from '#core/testing'
import { heldModel } from '../../support/held-model.ts'
import { tabStorage, testOracle, type TestOracle } from '../oracle.ts'
import { until } from '../page.ts'
import { chatOf, ended, library, plain } from './chats.ts'

const patient = { timeout: 20_000 }

describe('a reload', () => {
  it('in mid-stream loses nothing, and Stop still stops', async () => {
    const model = scriptedModel([
      { text: Array.from({ length: 400 }, (_, i) => `${i} `), paceMs: 10 },
    ])
    await using oracle = await testOracle({ plugins: [], model })
    const sessionId = await oracle.session()
    const storage = tabStorage()
    const before = await chatOf(oracle, sessionId, oracle.tab({ storage }))
    void before.sendMessage('Count')
    await until(() => String(plain(before)[1]?.content).length > 10)
    oracle.proxy.cutAll() // What a reload does to its connections.
    const { length } = oracle.proxy.requests
    const after = await chatOf(oracle, sessionId, oracle.tab({ storage }))
    await until(() => String(plain(after)[1]?.content).startsWith('0 1 2 3 4 5 '))
    expect(plain(after)).toHaveLength(2)
    expect(after.getSnapshot().status).toBe('streaming')
    expect(oracle.proxy.requests.length - length).toBeLessThanOrEqual(3) // the other page joins again, too
    await after.abortStream()
    expect(after.getSnapshot()).toMatchObject({ status: 'ready', run: { ended: 'aborted' } })
    expect(plain(after)[1]).toMatchObject({ isComplete: false })
    expect(model.requests[0]!.signal.aborted).toBe(true)
  })

  it('whose history comes after the end of a turn that it does not have reads once more', async () => {
    const model = scriptedModel(['Here I am.'])
    await using oracle = await testOracle({ plugins: [], model })
    const sessionId = await oracle.session()
    const chat = await chatOf(oracle, sessionId, oracle.tab({ storage: tabStorage() }))
    const asked = Promise.withResolvers<void>()
    const late = Promise.withResolvers<void>()
    oracle.proxy.interfere = async ({ method, path }) => {
      if (method !== 'GET' || !path.startsWith('/messages/')) return
      oracle.proxy.interfere = undefined
      asked.resolve()
      await late.promise
      return { status: 200, body: { messages: [], cursor: '0' } } // as it was before the turn
    }
    const reading = chat.refetchMessages()
    await asked.promise
    await chat.sendMessage('Are you there?')
    late.resolve()
    await reading
    expect(plain(chat).map(({ content }) => content)).toEqual(['Are you there?', 'Here I am.'])
  })

  it('whose history cannot be read knows where the oracle answers all the same', async () => {
    await using oracle = await testOracle({ plugins: [] })
    oracle.proxy.interfere = async ({ path }) =>
      path.startsWith('/messages/') ? { status: 500, body: { code: 'INTERNAL' } } : undefined
    const chat = await chatOf(oracle)
    expect(chat.getSnapshot()).toMatchObject({
      isConfigReady: true,
      isRealTimeConnected: false,
      error: { code: 'server' },
    })
  })

  it('that reads what another tab said just before its turn ended reads the answer as well', async () => {
    const model = heldModel([], ['Here I am.'])
    await using oracle = await testOracle({ plugins: [], model })
    const sessionId = await oracle.session()
    const first = await chatOf(oracle, sessionId)
    const saying = first.sendMessage('Are you there?')
    await until(() => model.requests.length === 1)
    // The history as it is before the end, and the answer to what is asked next as it is behind it.
    const body = await oracle
      .tab()
      .request<{ messages: unknown[] }>(oracle.oracleDid, `${oracle.app.url}/messages/${sessionId}`)
    expect(body.messages).toHaveLength(1)
    model.goOn()
    await saying
    const { oracleDid, overrides } = oracle
    const second = oracle.tab().chat({ oracleDid, overrides, sessionId })
    oracle.proxy.interfere = async ({ path }) => {
      if (path.startsWith('/messages/')) return { status: 200, body }
      if (!path.endsWith('/run')) return
      oracle.proxy.interfere = undefined
      await until(() => second.getSnapshot().isRealTimeConnected)
      // What the channel has to say of the time before it is there says it at once.
      await new Promise((resolve) => setTimeout(resolve, 200))
    }
    second.subscribe(() => {})
    await expect
      .poll(() => plain(second).map(({ content }) => content))
      .toEqual(['Are you there?', 'Here I am.'])
  })

  it('in another browser finds the run by its session', async () => {
    const model = heldModel(['One '], ['two ', 'three.'])
    await using oracle = await testOracle({ plugins: [], model })
    const sessionId = await oracle.session()
    const here = await chatOf(oracle, sessionId, oracle.tab({ storage: tabStorage() }))
    const sending = here.sendMessage('Count')
    await until(() => plain(here).length === 2)
    const there = await chatOf(oracle, sessionId, oracle.tab({ storage: tabStorage() }))
    await until(() => there.getSnapshot().status === 'streaming')
    model.goOn()
    await sending
    await until(() => ended(there))
    expect(plain(there)).toEqual(plain(here))
  })
})

describe("a chat that opens in the middle of a plugin's turn", () => {
  it('shows each step of the turn once, before its end and after', async () => {
    const model = heldModel(
      ['It is on '],
      ['shelf 7.'],
      ['Welcome.', { text: 'Let me look. ', calls: [call('find_book', { title: 'Emma' })] }],
    )
    const librarian = definePlugin({
      name: 'librarian',
      summary: 'Looks for books by itself.',
      routes: {
        'POST /look': {
          auth: 'public',
          input: z.object({ did: z.string(), session: z.string() }),
          async run({ did, session }, { turns }) {
            const turn = turns.start({ user: { did }, session, message: 'Find it', from: 'plugin' })
            return { ...(await turn.begun) }
          },
        },
      },
    })
    await using oracle = await testOracle({ plugins: [library, librarian], model })
    const sessionId = await oracle.session()
    const first = await chatOf(oracle, sessionId, oracle.tab({ storage: tabStorage() }))
    await first.sendMessage('Hello')
    const { did } = oracle.wallet.initialWallet
    expect((await oracle.app.post('/look', { did, session: sessionId })).status).toBe(200)
    await until(() => model.requests.length === 3)
    // The first step is kept within two seconds; a chat that opens sooner joins with the next event.
    await vi.waitFor(async () => {
      await first.refetchMessages()
      expect(plain(first).length).toBeGreaterThan(2)
    }, patient)
    const chat = await chatOf(oracle, sessionId, oracle.tab({ storage: tabStorage() }))
    const said = () => plain(chat).map(({ type, content }) => `${type}: ${String(content).trim()}`)
    const steps = ['human: Hello', 'ai: Welcome.', 'ai: Let me look.']
    const shows = (last: string) =>
      vi.waitFor(() => expect(said()).toEqual([...steps, last]), patient)
    await shows('ai: It is on')
    await chat.refetchMessages()
    expect(said()).toEqual([...steps, 'ai: It is on'])
    model.goOn()
    await until(() => ended(chat))
    await shows('ai: It is on shelf 7.')
    await chat.refetchMessages()
    expect(said()).toEqual([...steps, 'ai: It is on shelf 7.'])
  })
})

describe('two tabs on one session', () => {
  it('the newer message ends the older run, and both tabs show both', async () => {
    const model = scriptedModel([
      { text: Array.from({ length: 400 }, (_, i) => `${i} `), paceMs: 10 },
      'The newer answer.',
    ])
    await using oracle = await testOracle({ plugins: [], model })
    const sessionId = await oracle.session()
    const older = await chatOf(oracle, sessionId, oracle.tab({ storage: tabStorage() }))
    const newer = await chatOf(oracle, sessionId, oracle.tab({ storage: tabStorage() }))
    const first = older.sendMessage('Count')
    await until(() => plain(older).length === 2)
    await newer.sendMessage('Stop that')
    await first
    await until(() => plain(older).at(-1)?.content === 'The newer answer.' && ended(older))
    await newer.refetchMessages()
    expect(plain(newer)).toEqual(plain(older))
    expect(plain(older).map(({ type, isComplete }) => [type, isComplete])).toEqual([
      ['human', true],
      ['ai', false],
      ['human', true],
      ['ai', true],
    ])
  })
})

it('a restart of the server in mid-run is a pause, and the text is told once', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'oracle-runtime-client-'))
  const env = { DATA_DIR: folder, RUN_LEASE_MS: '500', ORACLE_MNEMONIC: 'one two three', PORT: '0' }
  let oracle: TestOracle | undefined
  try {
    oracle = await testOracle({
      plugins: [library],
      model: heldModel(['One '], ['never said']),
      env,
    })
    const chat = await chatOf(oracle)
    const sending = chat.sendMessage('Count')
    await until(() => plain(chat)[1]?.content === 'One ')
    await oracle.app.close()
    const model = scriptedModel([{ text: ['One ', 'two ', 'three.'], paceMs: 5 }])
    await using again = await testApp({ plugins: [library], model, env })
    oracle.proxy.target = again.url
    await sending
    expect(plain(chat)).toMatchObject([
      { content: 'Count' },
      { content: 'One two three.', isComplete: true },
    ])
    expect(chat.getSnapshot().run).toMatchObject({ ended: 'finished', resumed: 1 })
  } finally {
    await oracle?.proxy[Symbol.asyncDispose]()
    rmSync(folder, { recursive: true, force: true })
  }
})

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import { z } from 'zod'
import { definePlugin, RuntimeError } from '#core'
import { scriptedModel, testApp } from '#core/testing'
import type { Chat } from '../../client/core/chat/chat.ts'
import type { AnyEvent } from '../../client/core/events.ts'
import { heldModel } from '../support/held-model.ts'
import { shortTiming, tabStorage, testOracle, type TestOracle } from './oracle.ts'
import { goOnline, setVisibility, until } from './page.ts'

const library = definePlugin({
  name: 'library',
  summary: 'Knows books.',
  visibility: 'always',
  tools: {
    find_book: {
      description: 'Finds a book.',
      effect: 'read',
      input: z.object({ title: z.string() }),
      run: ({ title }, ctx) => {
        ctx.emit.component('BookCard', { title })
        return { title, shelf: 7 }
      },
    },
  },
})

/** A turn with reasoning, text, two calls at once, components and more text. */
const richTurn = () => [
  {
    text: ['Let ', 'me ', 'look.'],
    reasoning: 'They want two books.',
    calls: [
      { call: 'find_book', args: { title: 'A' } },
      { call: 'find_book', args: { title: 'B' } },
    ],
    paceMs: 5,
  },
  { text: ['Both ', 'are ', 'on ', 'shelf ', '7.'], paceMs: 5 },
]

const plain = (chat: Chat) =>
  chat.getSnapshot().messages.map(({ type, content, toolCalls, isComplete }) => ({
    type,
    content,
    isComplete,
    calls: toolCalls?.map(({ name, args, status, output }) => ({ name, args, status, output })),
  }))

/** A chat that somebody looks at, from its first history on. */
async function looked(chat: Chat): Promise<Chat> {
  chat.subscribe(() => {})
  await until(() => !chat.getSnapshot().isLoading)
  return chat
}

async function chatOf(
  oracle: TestOracle,
  sessionId?: string,
  client = oracle.tab(),
): Promise<Chat> {
  const { oracleDid, overrides } = oracle
  return looked(
    client.chat({ oracleDid, overrides, sessionId: sessionId ?? (await oracle.session()) }),
  )
}

const ended = (chat: Chat) => chat.getSnapshot().status === 'ready' && chat.getSnapshot().run.ended

describe('a chat whose connection is bad', () => {
  it('has the identical text and each event once, when it is cut off after every single event', async () => {
    await using whole = await testOracle({ plugins: [library], model: scriptedModel(richTurn()) })
    const undisturbed = await chatOf(whole)
    await undisturbed.sendMessage('Where?')

    await using oracle = await testOracle({ plugins: [library], model: scriptedModel(richTurn()) })
    const chat = await chatOf(oracle)
    const heard: AnyEvent[] = []
    chat.on((event) => heard.push(event))
    oracle.proxy.eventsPerStream = 1
    await chat.sendMessage('Where?')
    expect(plain(chat)).toEqual(plain(undisturbed))
    expect(chat.getSnapshot().status).toBe('ready')
    expect(oracle.proxy.to(/^\/runs\//).length).toBeGreaterThan(10)
    const words = heard.flatMap((event) =>
      event.eventName === 'message' ? event.payload.content : [],
    )
    expect(words.join('')).toBe('Let me look.Both are on shelf 7.')
    expect(heard.filter(({ eventName }) => eventName === 'done')).toHaveLength(1)
    // And what the server tells afterwards is the same once more.
    await chat.refetchMessages()
    expect(plain(chat)).toEqual(plain(undisturbed))
  })

  it.each([1, 2, 3, 5, 8, 13])(
    'has it too when it is cut off once, after event %i',
    async (count) => {
      await using oracle = await testOracle({
        plugins: [library],
        model: scriptedModel(richTurn()),
      })
      const chat = await chatOf(oracle)
      oracle.proxy.eventsPerStream = count
      const sending = chat.sendMessage('Where?')
      await until(() => oracle.proxy.to(/^\/messages\//, 'POST').length === 1)
      await until(() => oracle.proxy.to(/^\/runs\//).length === 1 || ended(chat))
      oracle.proxy.eventsPerStream = Infinity
      await sending
      expect(plain(chat).map(({ content }) => content)).toEqual([
        'Where?',
        'Let me look.',
        'Both are on shelf 7.',
      ])
    },
  )

  it('comes through ten seconds offline, in the scale of its waits', async () => {
    const model = heldModel(['One '], ['two ', 'three.'])
    await using oracle = await testOracle({ plugins: [], model })
    const chat = await chatOf(oracle)
    const sending = chat.sendMessage('Count')
    await until(() => chat.getSnapshot().messages.length === 2)
    oracle.proxy.isOffline = true
    oracle.proxy.cutAll()
    await until(() => chat.getSnapshot().run.reconnecting)
    expect(chat.getSnapshot().status).toBe('streaming')
    // The usual waits sum up to 70 s at most and 35 s at least; these are 40 times shorter.
    await new Promise((resolve) => setTimeout(resolve, 10_000 / 40))
    oracle.proxy.isOffline = false
    model.goOn()
    await sending
    expect(plain(chat)[1]!.content).toBe('One two three.')
    expect(chat.getSnapshot().run).toMatchObject({ reconnecting: false, ended: 'finished' })
  })

  it('goes on at once when the page is back online, whatever it was waiting for', async () => {
    const model = heldModel(['One '], ['two.'])
    await using oracle = await testOracle({ plugins: [], model })
    const client = oracle.tab({ timing: { ...shortTiming, retryMs: 60_000, maxRetryMs: 60_000 } })
    const chat = await chatOf(oracle, undefined, client)
    const sending = chat.sendMessage('Count')
    await until(() => chat.getSnapshot().messages.length === 2)
    oracle.proxy.isOffline = true
    oracle.proxy.cutAll()
    await until(() => chat.getSnapshot().run.reconnecting)
    oracle.proxy.isOffline = false
    goOnline()
    model.goOn()
    await sending
    expect(plain(chat)[1]!.content).toBe('One two.')
  })

  it('goes on when a hidden tab is looked at again', async () => {
    const model = heldModel(['One '], ['two.'])
    await using oracle = await testOracle({ plugins: [], model })
    const client = oracle.tab({ timing: { ...shortTiming, retryMs: 60_000, maxRetryMs: 60_000 } })
    const chat = await chatOf(oracle, undefined, client)
    const sending = chat.sendMessage('Count')
    await until(() => chat.getSnapshot().messages.length === 2)
    setVisibility('hidden')
    oracle.proxy.cutAll()
    await until(() => chat.getSnapshot().run.reconnecting)
    setVisibility('visible')
    model.goOn()
    await sending
    expect(plain(chat)[1]!.content).toBe('One two.')
  })

  it('streams in a hidden tab: it waits for no animation frame', async () => {
    const model = scriptedModel([{ text: ['One ', 'two.'], paceMs: 5 }])
    await using oracle = await testOracle({ plugins: [], model })
    setVisibility('hidden')
    const chat = await chatOf(oracle)
    await chat.sendMessage('Count')
    expect(plain(chat)[1]!.content).toBe('One two.')
  })

  it('joins again when the stream falls silent', async () => {
    const model = scriptedModel([{ text: ['One ', 'two.'], paceMs: 20 }])
    await using oracle = await testOracle({ plugins: [], model })
    const chat = await chatOf(oracle)
    oracle.proxy.silentAfter = 2
    const sending = chat.sendMessage('Count')
    await until(() => chat.getSnapshot().run.runId)
    await until(() => chat.getSnapshot().run.reconnecting)
    oracle.proxy.silentAfter = Infinity
    await sending
    expect(plain(chat)[1]!.content).toBe('One two.')
  })

  it('gives up on a server that never says done, keeps what it heard, and says so', async () => {
    const model = scriptedModel([{ text: ['One ', 'two.'], paceMs: 5 }])
    await using oracle = await testOracle({ plugins: [], model })
    const timing = { retryMs: 2, maxRetryMs: 5, retries: 4 }
    const chat = await chatOf(oracle, undefined, oracle.tab({ timing }))
    oracle.proxy.eventsPerStream = 2
    oracle.proxy.interfere = ({ path }) => {
      if (path.startsWith('/runs/')) return 'cut'
    }
    await chat.sendMessage('Count')
    expect(chat.getSnapshot()).toMatchObject({
      status: 'error',
      sendMessageError: { code: 'stream_interrupted' },
      run: { ended: 'disconnected' },
    })
    // The answer was made all the same.
    await until(() => plain(chat)[1]?.content === 'One two.')
  })

  it('sends a message once, though the answer to it was lost', async () => {
    const model = scriptedModel(['Once.'])
    await using oracle = await testOracle({ plugins: [], model })
    const sessionId = await oracle.session()
    const chat = await chatOf(oracle, sessionId)
    oracle.proxy.eventsPerStream = 0
    const sending = chat.sendMessage('Say it')
    await until(() => oracle.proxy.to(/^\/(messages|runs)/).length > 4)
    oracle.proxy.eventsPerStream = Infinity
    await sending
    expect(plain(chat).map(({ content }) => content)).toEqual(['Say it', 'Once.'])
    expect(model.requests).toHaveLength(1)
    const { body } = await (await oracle.app.user('a user')).get(`/messages/${sessionId}`)
    expect(body.messages).toHaveLength(2)
  })
})

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

describe('a refused token', () => {
  const refuse = { status: 401, body: { code: 'UNAUTHORIZED', message: 'No valid credential.' } }

  it('once is replaced, and nobody notices', async () => {
    await using oracle = await testOracle({ plugins: [], model: scriptedModel(['Hello.']) })
    const chat = await chatOf(oracle)
    const { minted } = oracle.wallet
    const before = { ...minted }
    let refusals = 0
    oracle.proxy.interfere = ({ method }) =>
      method === 'POST' && refusals++ === 0 ? refuse : undefined
    await chat.sendMessage('Hi')
    expect(plain(chat)[1]!.content).toBe('Hello.')
    expect(chat.getSnapshot().sendMessageError).toBeNull()
    expect(minted).toEqual({
      delegations: before.delegations + 1,
      invocations: before.invocations + 1,
    })
    expect(oracle.proxy.to(/^\/messages/, 'POST')).toHaveLength(2)
  })

  it('twice is an error of its own', async () => {
    await using oracle = await testOracle({ plugins: [], model: scriptedModel([]) })
    const chat = await chatOf(oracle)
    oracle.proxy.interfere = ({ method }) => (method === 'POST' ? refuse : undefined)
    await chat.sendMessage('Hi')
    expect(chat.getSnapshot()).toMatchObject({
      status: 'error',
      sendMessageError: { code: 'unauthorized', status: 401 },
    })
    expect(oracle.proxy.to(/^\/messages/, 'POST')).toHaveLength(2)
    // What was said is still there, and is not there twice when it is said again.
    oracle.proxy.interfere = undefined
    expect(plain(chat).map(({ content }) => content)).toEqual(['Hi'])
  })

  it('is replaced when a stream is joined again, too', async () => {
    const model = heldModel(['One '], ['two.'])
    await using oracle = await testOracle({ plugins: [], model })
    const chat = await chatOf(oracle)
    let refusals = 0
    oracle.proxy.interfere = ({ path }) =>
      /runs/.test(path) && refusals++ === 0 ? refuse : undefined
    const sending = chat.sendMessage('Count')
    await until(() => plain(chat).length === 2)
    oracle.proxy.cutAll()
    await until(() => refusals > 1)
    model.goOn()
    await sending
    expect(refusals).toBeGreaterThan(1)
    expect(plain(chat)[1]!.content).toBe('One two.')
  })

  it('is asked for once by many at the same time', async () => {
    await using oracle = await testOracle({ plugins: [], model: scriptedModel([]) })
    const client = oracle.tab()
    await oracle.session()
    const before = oracle.wallet.minted.invocations
    await Promise.all(
      [1, 2, 3, 4].map(() => client.request(oracle.oracleDid, `${oracle.app.url}/sessions`)),
    )
    expect(oracle.wallet.minted.invocations).toBe(before + 1)
  })

  it('that is about to end is replaced before it is sent', async () => {
    await using oracle = await testOracle({ plugins: [], model: scriptedModel([]) })
    const { wallet } = oracle
    vi.useFakeTimers({ toFake: ['Date'] })
    try {
      const begun = Date.now()
      let count = 0
      const client = oracle.tab({
        async createInvocation(did) {
          count++
          return { ...(await wallet.createInvocation(did)), expiresAt: Date.now() + 60_000 }
        },
      })
      const ask = () => client.request(oracle.oracleDid, `${oracle.app.url}/sessions`)
      await ask()
      vi.setSystemTime(begun + 50_000)
      await ask()
      expect(count).toBe(1)
      vi.setSystemTime(begun + 56_000)
      await ask()
      expect(count).toBe(2)
    } finally {
      vi.useRealTimers()
    }
  })
})

describe('a turn that must be paid for', () => {
  const paywall = (paid: () => boolean, delayMs = 0) =>
    definePlugin({
      name: 'paywall',
      summary: 'Wants to be paid.',
      visibility: 'always',
      middleware: {
        async turn(_, next) {
          await new Promise((resolve) => setTimeout(resolve, delayMs))
          if (!paid())
            throw new RuntimeError('PAYMENT_REQUIRED', 'Pay first.', {
              details: { claims: ['claim-1', 'claim-2'] },
            })
          return next()
        },
      },
    })

  it.each([
    ['at the door', 0],
    ['in the stream', 400],
  ])(
    '%s asks the app to pay, keeps the message and is ready for it to be said again',
    async (_, delayMs) => {
      let paid = false
      const model = scriptedModel(['Thank you.'])
      await using oracle = await testOracle({ plugins: [paywall(() => paid, delayMs)], model })
      const chat = await chatOf(oracle)
      const asked: string[][] = []
      const use = { onPaymentRequiredError: (claims: string[]) => void asked.push(claims) }
      await chat.sendMessage('Hi', use)
      expect(asked).toEqual([['claim-1', 'claim-2']])
      expect(chat.getSnapshot()).toMatchObject({
        status: 'ready',
        error: null,
        sendMessageError: { code: 'payment_required', claimIds: ['claim-1', 'claim-2'] },
      })
      expect(plain(chat).map(({ content }) => content)).toEqual(['Hi'])
      paid = true
      await chat.sendMessage('Hi', use)
      expect(plain(chat).map(({ content }) => content)).toEqual(['Hi', 'Thank you.'])
      expect(asked).toHaveLength(1)
    },
  )
})

describe('Stop', () => {
  it('works before the server has even heard of the message', async () => {
    const model = scriptedModel([
      { text: Array.from({ length: 400 }, (_, i) => `${i} `), paceMs: 10 },
    ])
    await using oracle = await testOracle({ plugins: [], model })
    const chat = await chatOf(oracle)
    const arrives = Promise.withResolvers<void>()
    oracle.proxy.interfere = ({ path, method }) => {
      if (method === 'POST' && /^\/messages\/(?!abort)/.test(path)) return arrives.promise
    }
    const sending = chat.sendMessage('Count')
    await until(() => oracle.proxy.requests.length > 1)
    const stopping = chat.abortStream()
    await until(() => oracle.proxy.to(/abort/).length === 1)
    arrives.resolve()
    await Promise.all([sending, stopping])
    expect(chat.getSnapshot()).toMatchObject({
      status: 'ready',
      error: null,
      sendMessageError: null,
      run: { ended: 'aborted' },
    })
    await until(() => model.requests.every(({ signal }) => signal.aborted))
    expect(plain(chat)[0]).toMatchObject({ content: 'Count' })
  })

  it('works when the network is gone: the page stops, and says that the server was not told', async () => {
    const model = scriptedModel([
      { text: Array.from({ length: 400 }, (_, i) => `${i} `), paceMs: 10 },
    ])
    await using oracle = await testOracle({ plugins: [], model })
    const chat = await chatOf(oracle)
    const sending = chat.sendMessage('Count')
    await until(() => plain(chat).length === 2)
    oracle.proxy.isOffline = true
    oracle.proxy.cutAll()
    await chat.abortStream()
    await sending
    expect(chat.getSnapshot()).toMatchObject({
      status: 'ready',
      error: { code: 'network' },
      run: { ended: 'aborted' },
    })
  })

  it('does nothing, and throws nothing, when nothing runs', async () => {
    await using oracle = await testOracle({ plugins: [], model: scriptedModel([]) })
    const chat = await chatOf(oracle)
    const { length } = oracle.proxy.requests
    await chat.abortStream()
    expect(oracle.proxy.requests).toHaveLength(length)
    await oracle.tab().chat({ oracleDid: oracle.oracleDid, sessionId: '' }).abortStream()
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

import { describe, expect, it } from 'vitest'
import { scriptedModel } from '#core/testing'
import type { AnyEvent } from '../../../client/core/events.ts'
import { heldModel } from '../../support/held-model.ts'
import { shortTiming, testOracle } from '../oracle.ts'
import { goOnline, setVisibility, until } from '../page.ts'
import { chatOf, ended, library, plain } from './chats.ts'

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

import { expect, it } from 'vitest'
import type { Model } from '#core'
import { call, scriptedModel } from '#core/testing'
import { heldModel } from '../../support/held-model.ts'
import { type TestOracle, testOracle } from '../oracle.ts'
import { until } from '../page.ts'
import { chatOf, ended, library, plain } from './chats.ts'

const numbers = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, nth) => [
    `Question ${from + nth}`,
    `Answer ${from + nth}`,
  ]).flat()
const texts = (chat: Parameters<typeof plain>[0]) => plain(chat).map(({ content }) => content)
const readings = (oracle: TestOracle) =>
  oracle.proxy.to(/messages\?/, 'GET').map(({ path }) => path)

/** A conversation of twelve questions and answers, and what a tab that reads pages of four sees. */
async function conversation(more: string[] = []) {
  const answers = Array.from({ length: 12 }, (_, nth) => `Answer ${nth}`)
  const oracle = await testOracle({ plugins: [], model: scriptedModel([...answers, ...more]) })
  const sessionId = await oracle.session()
  const first = await chatOf(oracle, sessionId)
  for (const nth of answers.keys()) await first.sendMessage(`Question ${nth}`)
  return { oracle, sessionId, first, tab: oracle.tab({ history: 4 }) }
}

it('reads its newest messages and older ones by pages, down to the first', async () => {
  const { oracle, sessionId, first, tab } = await conversation()
  await using _ = oracle
  const chat = await chatOf(oracle, sessionId, tab)
  expect(texts(chat)).toEqual(numbers(10, 12))
  for (let from = 8; from >= 0; from -= 2) {
    expect(chat.getSnapshot().hasOlder).toBe(true)
    const before = chat.getSnapshot().messages
    await chat.fetchOlder()
    expect(texts(chat)).toEqual(numbers(from, 12))
    expect(chat.getSnapshot().messages.slice(-before.length)).toEqual(before)
  }
  expect(chat.getSnapshot().hasOlder).toBe(false)
  await chat.fetchOlder()
  expect(readings(oracle)).toHaveLength(6)
  expect(plain(chat)).toEqual(plain(first))
})

it('keeps what it has read when it reads again, and takes what is new', async () => {
  const { oracle, sessionId, first, tab } = await conversation(['Answer 12', 'Answer 13'])
  await using _ = oracle
  const chat = await chatOf(oracle, sessionId, tab)
  await chat.fetchOlder()
  const [oldest] = chat.getSnapshot().messages
  await chat.sendMessage('Question 12')
  await until(() => ended(chat) === 'finished')
  await first.refetchMessages()
  await first.sendMessage('Question 13')
  await until(() => texts(chat).at(-1) === 'Answer 13')
  await chat.refetchMessages()
  expect(texts(chat)).toEqual(numbers(8, 14))
  expect(chat.getSnapshot().messages[0]).toBe(oldest)
  await chat.fetchOlder()
  expect(texts(chat)).toEqual(numbers(6, 14))
})

it('reads again only what the channel tells: a page knows how far it goes', async () => {
  const { oracle, sessionId, tab } = await conversation()
  await using _ = oracle
  const chat = await chatOf(oracle, sessionId, tab)
  await until(() => chat.getSnapshot().isRealTimeConnected)
  oracle.proxy.cutAll()
  await until(() => !chat.getSnapshot().isRealTimeConnected)
  await until(() => chat.getSnapshot().isRealTimeConnected)
  await chat.refetchMessages()
  expect(readings(oracle)).toHaveLength(2)
})

it('shows a run under way once, though its messages are more than a page', async () => {
  const rounds = Array.from({ length: 6 }, (_, nth) => ({
    text: `Round ${nth}`,
    calls: [call('find_book', { title: `Book ${nth}` })],
  }))
  const last = heldModel(['Held '], ['on.'])
  const script = scriptedModel(rounds)
  let asked = 0
  const model: Model = {
    id: 'two',
    stream: (request) => (asked++ < rounds.length ? script : last).stream(request),
  }
  await using oracle = await testOracle({ plugins: [library], model })
  const sessionId = await oracle.session()
  const first = await chatOf(oracle, sessionId)
  const saying = first.sendMessage('Find six')
  await until(() => texts(first).at(-1) === 'Held ')
  const chat = await chatOf(oracle, sessionId, oracle.tab({ history: 3 }))
  await until(() => texts(chat).at(-1) === 'Held ')
  const said = ['Find six', ...rounds.map(({ text }) => text)]
  expect(texts(chat)).toEqual([...said, 'Held '])
  last.goOn()
  await saying
  await until(() => ended(chat) === 'finished')
  expect(texts(chat)).toEqual([...said, 'Held on.'])
})

it('an error while older ones are read is the caller’s, and the next try reads them', async () => {
  const { oracle, sessionId, tab } = await conversation()
  await using _ = oracle
  const chat = await chatOf(oracle, sessionId, tab)
  oracle.proxy.interfere = () => ({ status: 503, body: {} })
  await expect(chat.fetchOlder()).rejects.toMatchObject({ code: 'server' })
  oracle.proxy.interfere = undefined
  expect(texts(chat)).toEqual(numbers(10, 12))
  await chat.fetchOlder()
  expect(texts(chat)).toEqual(numbers(8, 12))
})

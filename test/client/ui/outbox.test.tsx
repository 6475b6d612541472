import './window.ts'
import { randomUUID } from 'node:crypto'
import { expect, it } from 'vitest'
import { scriptedModel } from '#core/testing'
import { shortTiming, testOracle, type TestOracle } from '../oracle.ts'
import { heldModel } from '../../support/held-model.ts'
import { goOnline, until as soon } from '../page.ts'
import { person } from './person.tsx'

const answers = ['One.', 'Two.', 'Three.', 'Four.', 'Five.']
const open = () => testOracle({ plugins: [], model: scriptedModel(answers) })

/** What the server has of all that was said, by session. */
async function saidOn(oracle: TestOracle): Promise<string[][]> {
  const tab = oracle.tab()
  const ask = <T,>(path: string) => tab.request<T>(oracle.oracleDid, oracle.app.url + path)
  const { sessions } = await ask<{ sessions: { sessionId: string }[] }>('/sessions')
  const all = sessions.map(async ({ sessionId }) => {
    const { messages } = await ask<{ messages: { type: string; content: string }[] }>(
      `/messages/${sessionId}`,
    )
    return messages.filter(({ type }) => type === 'human').map(({ content }) => content)
  })
  return Promise.all(all)
}

/** These tests wait for servers and for each other's turns, on machines that may be busy. */
const until = <T,>(check: () => T | false | undefined | null) => soon(check, 60_000)

const kept = () => Object.keys(localStorage).filter((key) => key.startsWith('oracle-outbox'))

it('keeps what is said without a network, lets it be changed and taken back, and sends the rest once and in order', async () => {
  await using oracle = await open()
  const sessionId = await oracle.session()
  const { texts, all, button, say, write } = person(oracle, { sessionId })
  await until(() => all('.oc-messages')[0]?.getAttribute('aria-busy') === 'false')
  oracle.proxy.isOffline = true
  for (const [nth, text] of ['First', 'Secnd', 'Never mind', 'Last'].entries()) {
    await say(text)
    await until(() => texts('.oc-waiting .oc-said').length === nth + 1)
  }
  expect(texts('.oc-said')).toEqual(['First', 'Secnd', 'Never mind', 'Last'])
  expect(texts('.oc-waiting .oc-state')).toEqual(Array(4).fill('Waits for the network'))
  expect(all('.oc-error')).toEqual([])
  const [, second, third] = all('.oc-waiting article')
  ;[...(third?.querySelectorAll('button') ?? [])].at(-1)?.click()
  await until(() => texts('.oc-said').length === 3)
  ;[...(second?.querySelectorAll('button') ?? [])][0]?.click()
  await until(() => all('.oc-edit').length === 1)
  oracle.proxy.isOffline = false
  goOnline()
  // What somebody changes just now is not sent, and nothing overtakes it.
  await until(() => texts('.oc-markdown').includes('One.'))
  expect(await saidOn(oracle)).toEqual([['First']])
  write('.oc-edit textarea', 'Second')
  ;(await button('Send', '.oc-edit')).click()
  await until(() => texts('.oc-markdown').includes('Three.'))
  await until(() => kept().length === 0)
  expect(await saidOn(oracle)).toEqual([['First', 'Second', 'Last']])
  expect(texts('.oc-said')).toEqual(['First', 'Second', 'Last'])
  expect(oracle.proxy.to(/^\/messages\//, 'POST').length).toBe(3)
})

it('holds each of the words that are changed until that edit is over, and none when the page goes', async () => {
  await using oracle = await open()
  const sessionId = await oracle.session()
  const { texts, all, button, say, write } = person(oracle, { sessionId })
  await until(() => all('.oc-messages')[0]?.getAttribute('aria-busy') === 'false')
  oracle.proxy.isOffline = true
  for (const [nth, text] of ['First', 'Secnd', 'Last'].entries()) {
    await say(text)
    await until(() => texts('.oc-waiting .oc-said').length === nth + 1)
  }
  const held = () =>
    kept().flatMap((key) =>
      JSON.parse(localStorage.getItem(key) ?? '[]').flatMap(
        (entry: { text: string; heldUntil?: number }) => (entry.heldUntil ? entry.text : []),
      ),
    )
  const edits = all('.oc-waiting .oc-actions button:not(:last-child)')
  for (const edit of edits.slice(0, 2)) edit.click()
  await until(() => all('.oc-edit').length === 2)
  expect(held()).toEqual(['First', 'Secnd'])
  all('.oc-edit button')[0]?.click()
  await until(() => all('.oc-edit').length === 1)
  expect(held()).toEqual(['Secnd'])
  oracle.proxy.isOffline = false
  goOnline()
  await until(() => texts('.oc-markdown').includes('One.'))
  expect(held()).toEqual(['Secnd'])
  // The next page knows of no edit, and finds words that it may send; one that comes back goes on with the edit.
  window.dispatchEvent(new window.Event('pagehide'))
  expect(held()).toEqual([])
  window.dispatchEvent(new window.Event('pageshow'))
  expect(held()).toEqual(['Secnd'])
  write('.oc-edit textarea', 'Second')
  ;(await button('Send', '.oc-edit')).click()
  await until(() => kept().length === 0)
  expect(await saidOn(oracle)).toEqual([['First', 'Second', 'Last']])
})

it('sends what a page held that is gone when the time of that is over', async () => {
  await using oracle = await open()
  const sessionId = await oracle.session()
  const key = `oracle-outbox ${oracle.wallet.initialWallet.did} ${oracle.oracleDid}`
  const entry = { id: randomUUID(), sessionId, text: 'Held', heldUntil: Date.now() + 1_500 }
  localStorage.setItem(key, JSON.stringify([entry]))
  const { texts } = person(oracle, { sessionId })
  await until(() => texts('.oc-waiting .oc-said').join() === 'Held')
  await until(() => texts('.oc-markdown').includes('One.'))
  expect(Date.now()).toBeGreaterThanOrEqual(entry.heldUntil)
  expect(await saidOn(oracle)).toEqual([['Held']])
})

it('shows at once what the server takes its time to answer, and says a message once whose answer was lost', async () => {
  await using oracle = await open()
  const sessionId = await oracle.session()
  const { texts, all, say } = person(oracle, { sessionId })
  await until(() => all('.oc-messages')[0]?.getAttribute('aria-busy') === 'false')
  const lost = Promise.withResolvers<void>()
  oracle.proxy.interfere = async ({ method, path, headers, body }) => {
    if (method !== 'POST' || !path.startsWith('/messages/')) return
    oracle.proxy.interfere = undefined
    // The server hears the message, and the page never hears that.
    const { host: _, 'content-length': __, ...rest } = headers
    const sent = new Headers(Object.entries(rest).map(([name, value]) => [name, String(value)]))
    const answer = await fetch(oracle.app.url + path, { method, headers: sent, body })
    await answer.text()
    await lost.promise
    return 'cut'
  }
  await say('Only once')
  expect(texts('.oc-said')).toEqual(['Only once'])
  const shown = new Set<string>()
  const seeing = new window.MutationObserver(() => shown.add(texts('.oc-said').join()))
  seeing.observe(document.body, { childList: true, subtree: true })
  lost.resolve()
  await until(() => texts('.oc-waiting .oc-state').length === 1)
  goOnline()
  await until(() => texts('.oc-markdown').includes('One.'))
  await until(() => kept().length === 0)
  seeing.disconnect()
  expect([...shown]).toEqual(['Only once'])
  expect(texts('.oc-said')).toEqual(['Only once'])
  expect(await saidOn(oracle)).toEqual([['Only once']])
})

it('makes one session for what a new conversation said offline, also after a reload', async () => {
  await using oracle = await open()
  oracle.proxy.isOffline = true
  const before = person(oracle)
  await before.say('Hello')
  await until(() => before.texts('.oc-waiting .oc-said').length === 1)
  await before.say('Are you there?')
  await until(() => before.texts('.oc-waiting .oc-said').length === 2)
  before.unmount()
  const after = person(oracle)
  await until(() => after.texts('.oc-said').join() === 'Hello,Are you there?')
  oracle.proxy.isOffline = false
  goOnline()
  await until(() => kept().length === 0)
  await expect.poll(() => saidOn(oracle)).toEqual([['Hello', 'Are you there?']])
})

it('says of words behind an answer that they wait for that, in every tab', async () => {
  const model = heldModel(['It begins'], [' and ends.'])
  await using oracle = await testOracle({ plugins: [], model })
  const sessionId = await oracle.session()
  const here = person(oracle, { sessionId })
  const tabs = [here, person(oracle, { sessionId }, oracle.within(oracle.tab()))]
  const { say, texts } = here
  oracle.proxy.isOffline = true
  for (const [nth, text] of ['A long story', 'A shorter one'].entries()) {
    await say(text)
    await until(() => texts('.oc-waiting .oc-said').length === nth + 1)
  }
  oracle.proxy.isOffline = false
  goOnline()
  for (const tab of tabs) {
    await until(() => tab.texts('.oc-markdown').join() === 'It begins')
    // Tabs of a browser hear of each other's storage, those of one window do not.
    window.dispatchEvent(new window.StorageEvent('storage', { key: null }))
    await until(() => tab.texts('.oc-waiting .oc-state').join() === 'Waits for the answer')
    expect(tab.texts('.oc-said')).toEqual(['A long story', 'A shorter one'])
  }
  model.goOn()
  for (const tab of tabs) await until(() => tab.texts('.oc-markdown').length === 2)
  expect(await saidOn(oracle)).toEqual([['A long story', 'A shorter one']])
})

it('sends what is said in one conversation while another one is answered, in this tab and beside it', async () => {
  const model = heldModel(['It begins'], [' and ends.'])
  await using oracle = await testOracle({ plugins: [], model })
  const { texts, button, say } = person(oracle)
  const begun = () => until(() => texts('.oc-markdown').join() === 'It begins')
  await say('A long story')
  await begun()
  ;(await button('New chat')).click()
  await until(() => texts('.oc-said').length === 0)
  await say('A short question')
  await begun()
  expect(texts('.oc-said')).toEqual(['A short question'])
  const other = person(oracle, {}, oracle.within(oracle.tab()))
  await other.say('Another tab')
  await until(() => other.texts('.oc-markdown').join() === 'It begins')
  expect(other.texts('.oc-said')).toEqual(['Another tab'])
  model.goOn()
  await until(() => texts('.oc-markdown').join() === 'It begins and ends.')
  await expect
    .poll(async () => (await saidOn(oracle)).flat().toSorted())
    .toEqual(['A long story', 'A short question', 'Another tab'])
})

it('is the same in two tabs, of which one sends', async () => {
  await using oracle = await open()
  const sessionId = await oracle.session()
  // A server that is busy is not one that is gone.
  const timing = { ...shortTiming, stallMs: 40_000 }
  const [one, other] = [oracle.tab({ timing }), oracle.tab({ timing })].map((tab) =>
    person(oracle, { sessionId, threads: false }, oracle.within(tab)),
  )
  if (!one || !other) throw new Error('Two tabs are two.')
  oracle.proxy.isOffline = true
  for (const [nth, text] of ['A', 'B', 'C'].entries()) {
    await one.say(text)
    await until(() => one.texts('.oc-waiting .oc-said').length === nth + 1)
  }
  const tell = () => window.dispatchEvent(new window.StorageEvent('storage', { key: null }))
  tell()
  await until(() => other.texts('.oc-waiting .oc-said').join() === 'A,B,C')
  oracle.proxy.isOffline = false
  goOnline()
  await until(() => kept().length === 0)
  await until(() => one.texts('.oc-said').join() === 'A,B,C')
  expect(await saidOn(oracle)).toEqual([['A', 'B', 'C']])
  tell()
  await until(() => other.texts('.oc-waiting .oc-said').length === 0)
})

it('opens the session that another tab has made for its words, though it hears of that by the storage alone', async () => {
  await using oracle = await open()
  const sessionId = await oracle.session()
  oracle.proxy.isOffline = true
  const { texts, say } = person(oracle)
  await say('Hello')
  await until(() => texts('.oc-waiting .oc-said').length === 1)
  // Another tab writes, and the event of that has not come yet.
  const key = kept().join()
  const [entry] = JSON.parse(localStorage.getItem(key) ?? '')
  localStorage.setItem(key, JSON.stringify([{ ...entry, sessionId }]))
  oracle.proxy.isOffline = false
  goOnline()
  await until(() => texts('.oc-markdown').join() === 'One.')
  expect(texts('.oc-said')).toEqual(['Hello'])
  expect(await saidOn(oracle)).toEqual([['Hello']])
})

it('leaves alone what another user has said, and what is no outbox', async () => {
  await using oracle = await open()
  const entry = { id: 'x', sessionId: 'y', text: 'The words of somebody else' }
  const theirs = `oracle-outbox did:key:other ${oracle.oracleDid}`
  const own = `oracle-outbox ${oracle.wallet.initialWallet.did} ${oracle.oracleDid}`
  localStorage.setItem(theirs, JSON.stringify([entry]))
  localStorage.setItem(own, '{"not": ["a list"')
  const { texts, say } = person(oracle)
  await say('Hello')
  await until(() => texts('.oc-markdown').includes('One.'))
  expect(await saidOn(oracle)).toEqual([['Hello']])
  expect(JSON.parse(localStorage.getItem(theirs) ?? '')).toEqual([entry])
})

it('chats where the page may store nothing', async () => {
  await using oracle = await open()
  const own = Object.getOwnPropertyDescriptor(globalThis, 'localStorage')
  Object.defineProperty(globalThis, 'localStorage', {
    configurable: true,
    get: () => {
      throw new Error('SecurityError')
    },
  })
  try {
    const { texts, say } = person(oracle)
    await say('Hello')
    await until(() => texts('.oc-markdown').includes('One.'))
    expect(texts('.oc-said')).toEqual(['Hello'])
    expect(texts('.oc-not-kept')[0]).toContain('a reload forgets drafts')
  } finally {
    if (own) Object.defineProperty(globalThis, 'localStorage', own)
  }
})

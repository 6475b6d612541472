import './window.ts'
import { expect, it } from 'vitest'
import { definePlugin } from '#core'
import { scriptedModel } from '#core/testing'
import { createOracleClient } from '../../../client/core/client.ts'
import { en } from '../../../client/ui/languages/en.ts'
import { useThreads } from '../../../client/ui/use-threads.ts'
import { testOracle, type TestOracle, testWallet } from '../oracle.ts'
import { mount, until as soon } from '../page.ts'
import { person } from './person.tsx'

const until = <T,>(check: () => T | false | undefined | null) => soon(check, 30_000)

const helper = definePlugin({
  name: 'helper',
  summary: 'Helps.',
  visibility: 'always',
  examples: ['Can you help me?'],
})

/** A server that takes no change of a session. */
const refuse = ({ proxy }: TestOracle, method: string) => {
  const body = { statusCode: 503, code: 'BUSY', message: 'The database is busy.', requestId: 'x' }
  proxy.interfere = (request) =>
    request.method === method && request.path.startsWith('/sessions/')
      ? { status: 503, body }
      : undefined
}

it('has the conversations and suggestions of a server that was gone when the page was opened', async () => {
  await using oracle = await testOracle({ plugins: [helper], model: scriptedModel(['Hello.']) })
  await oracle.session()
  oracle.proxy.isOffline = true
  const { texts, all, say } = person(oracle)
  await until(() => texts('.oc-threads .oc-error p').join() === 'The server cannot be reached.')
  expect(all('.oc-thread-name')).toEqual([])
  oracle.proxy.isOffline = false
  await until(() => texts('.oc-thread-name').length === 1)
  await until(() => texts('.oc-suggestions li').join() === 'Can you help me?')
  expect(all('.oc-error')).toEqual([])
  await say('Hello')
  await until(() => texts('.oc-thread-name').length === 2)
})

it('says that a title was not taken, and keeps what was written', async () => {
  await using oracle = await testOracle({ plugins: [], model: scriptedModel([]) })
  await oracle.session()
  const { texts, all, button, write } = person(oracle)
  const rename = async () => {
    write('.oc-threads li input', 'The well')
    all('.oc-threads li form')[0]?.dispatchEvent(
      new window.Event('submit', { bubbles: true, cancelable: true }),
    )
  }
  ;(await button('Rename: Untitled')).click()
  await until(() => all('.oc-threads li input').length === 1)
  refuse(oracle, 'PATCH')
  await rename()
  await until(() => texts('.oc-threads .oc-error p').join() === 'The database is busy.')
  expect((all('.oc-threads li input')[0] as HTMLInputElement).value).toBe('The well')
  oracle.proxy.interfere = undefined
  await rename()
  await until(() => texts('.oc-thread-name').join() === 'The well')
  expect(all('.oc-error')).toEqual([])
})

it('brings back a conversation that could not be deleted, and says why it is there', async () => {
  await using oracle = await testOracle({ plugins: [], model: scriptedModel([]) })
  await oracle.session()
  const { texts, all, button } = person(oracle)
  refuse(oracle, 'DELETE')
  ;(await button('Delete: Untitled')).click()
  await until(() => all('.oc-thread-name').length === 0)
  await until(() => texts('.oc-threads .oc-error p').join() === 'The database is busy.')
  expect(texts('.oc-thread-name')).toEqual(['Untitled'])
  expect(texts('.oc-undo')).toEqual([''])
})

it('says of the open conversation that it was deleted elsewhere, and leads to a new one', async () => {
  await using oracle = await testOracle({ plugins: [], model: scriptedModel(['Hello.']) })
  const { texts, say, button } = person(oracle)
  await say('Anybody here?')
  await until(() => texts('.oc-markdown').join() === 'Hello.')
  await until(() => texts('.oc-thread-name').length === 1)
  const other = oracle.tab()
  const ask = <T,>(path: string, method?: string) =>
    other.request<T>(oracle.oracleDid, oracle.app.url + path, { method })
  const { sessions } = await ask<{ sessions: { sessionId: string }[] }>('/sessions')
  await ask(`/sessions/${sessions[0]?.sessionId}`, 'DELETE')
  await until(() => texts('.oc-thread .oc-error p').join() === en.chatGone)
  ;(await button('New chat', '.oc-thread')).click()
  await until(() => texts('.oc-said, .oc-error').length === 0)
  await until(() => texts('.oc-welcome').length === 1)
})

it('of a page of its own shows nothing of one user to the next, however long that one’s list takes', async () => {
  await using oracle = await testOracle({ plugins: [] })
  const { oracleDid, overrides } = oracle
  await oracle.session()
  const { initialWallet: wallet, ...mint } = await testWallet('another user')
  const other = createOracleClient({ ...mint, wallet })
  await other.request(oracleDid, `${oracle.app.url}/sessions`, { method: 'POST' })
  await other.request(oracleDid, `${oracle.app.url}/sessions`, { method: 'POST' })
  function Titles() {
    const { threads, hasMore } = useThreads(oracleDid, overrides)
    return <p>{`${threads.length} ${hasMore}`}</p>
  }
  const { container, render } = mount(oracle.within(oracle.tab())(<Titles />))
  await until(() => container.textContent === '1 false')
  const read = Promise.withResolvers<undefined>()
  oracle.proxy.interfere = ({ path }) =>
    path.startsWith('/sessions') ? read.promise : Promise.resolve(undefined)
  const { length } = oracle.proxy.requests
  render(oracle.within(other)(<Titles />))
  await until(() => oracle.proxy.requests.slice(length).some(({ path }) => /^.sessions/.test(path)))
  expect(container.textContent).toBe('0 false')
  read.resolve(undefined)
  await until(() => container.textContent === '2 false')
})

it('of a page of its own deletes what was hidden as the page goes, and lets no other user undo it', async () => {
  await using oracle = await testOracle({ plugins: [] })
  const { oracleDid, overrides } = oracle
  await oracle.session()
  await oracle.session()
  const { initialWallet: wallet, ...mint } = await testWallet('another user')
  const other = createOracleClient({ ...mint, wallet })
  function Undo() {
    const { threads, remove, undo, removed } = useThreads(oracleDid, overrides)
    const [first] = threads
    return (
      <>
        <p>{`${threads.length} ${removed ? 'undo' : ''}`}</p>
        <button onClick={() => (removed ? undo() : first && remove(first.sessionId))}>One</button>
      </>
    )
  }
  const tab = oracle.tab()
  const { container, render, unmount } = mount(oracle.within(tab)(<Undo />))
  /** Sooner than what was hidden is deleted by itself. */
  const shows = (text: string) =>
    soon(() => container.querySelector('p')?.textContent === text, 4_000)
  const press = () => container.querySelector('button')?.click()
  await shows('2 ')
  press()
  await shows('1 undo')
  // What was taken back is not deleted.
  press()
  await shows('2 ')
  press()
  await shows('1 undo')
  render(oracle.within(other)(<Undo />))
  await shows('0 ')
  unmount()
  window.dispatchEvent(new window.Event('pagehide'))
  const left = async () =>
    (await tab.request<{ total: number }>(oracleDid, `${oracle.app.url}/sessions`)).total
  await expect.poll(left, { timeout: 2_000 }).toBe(1)
}, 20_000)

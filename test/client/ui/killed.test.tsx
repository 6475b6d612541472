import './window.ts'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createElement } from 'react'
import { expect, it, onTestFinished } from 'vitest'
import { OraclesProvider } from '../../../client/index.ts'
import { type ServerProcess, startServer } from '../../support/process.ts'
import { testWallet, type TestOracle } from '../oracle.ts'
import { proxyTo } from '../proxy.ts'
import { goOnline, until as soon } from '../page.ts'
import { person } from './person.tsx'

const nobody = 'http://127.0.0.1:1'
/** Processes begin anew several times. */
const until = <T,>(check: () => T | false | undefined | null) => soon(check, 120_000)

/** A server that is started again whenever it dies, behind one address, and how often it has died. */
async function supervised() {
  const folder = await mkdtemp(join(tmpdir(), 'killed-'))
  const env = { DATA_DIR: folder, NODE_ENV: 'test', ORACLE_MNEMONIC: 'words of this oracle' }
  const proxy = await proxyTo(nobody)
  const ends: (number | string)[] = []
  let [isOver, now]: [boolean, ServerProcess | undefined] = [false, undefined]
  let [there, isAway] = [nobody, false]
  const keepUp = async (): Promise<void> => {
    const server = startServer('test/support/dying-server.ts', env)
    now = server
    void server.exited.then((end) => {
      ends.push(end)
      if (!isOver) void keepUp()
    })
    there = await server.url.catch(() => there)
    lookAway(isAway)
  }
  /** Whether nobody answers at the address, whatever begins behind it meanwhile. */
  const lookAway = (away: boolean) => {
    isAway = away
    proxy.target = away ? nobody : there
  }
  onTestFinished(async () => {
    isOver = true
    await now?.end('SIGKILL')
    await proxy[Symbol.asyncDispose]()
    await rm(folder, { recursive: true, force: true })
  })
  await keepUp()
  const card = await (await fetch(`${proxy.url}/.well-known/oracle.json`)).json()
  return { proxy, ends, lookAway, oracleDid: (card as { did: string }).did }
}

it('an answer that a model error or kill -9 ended says so, without a cursor, at once and after a reload', async () => {
  const { proxy, ends, lookAway, oracleDid } = await supervised()
  const wallet = await testWallet()
  const oracle = {
    ...{ oracleDid, wallet, overrides: { baseUrl: proxy.url } },
    provided: (child) => createElement(OraclesProvider, { ...wallet, children: child }),
  } as Pick<TestOracle, 'oracleDid' | 'wallet' | 'overrides' | 'provided'> as TestOracle
  let open: string | undefined
  const opened = { onSession: (id: string) => (open = id) }
  const page = person(oracle, opened)
  /** What a reader is told of an answer that came to no end. */
  const told = ({ texts }: typeof page) => [...texts('.oc-ending'), ...texts('.oc-error')].join()

  await page.say('Please fail')
  await until(() => page.texts('.oc-markdown').includes('I begin'))
  await until(() => told(page) !== '')
  await until(() => page.all('.oc-cursor').length === 0)
  expect(page.texts('.oc-markdown')).toEqual(['I begin'])
  const afterFault = person(oracle, { sessionId: open })
  await until(() => told(afterFault) !== '')
  expect(afterFault.all('.oc-cursor')).toEqual([])
  expect(afterFault.texts('.oc-markdown')).toEqual(['I begin'])
  afterFault.unmount()

  await page.say('Please die')
  await until(() => ends.length >= 1)
  goOnline()
  // It is taken over and dies again, until nobody takes it over any more.
  await until(() => ends.length >= 2)
  await until(() => {
    goOnline()
    return page.all('.oc-composer')[0]?.dataset.state === 'ready' && told(page) !== ''
  })
  await until(() => page.all('.oc-cursor').length === 0)
  expect(new Set(ends)).toEqual(new Set(['SIGKILL']))
  page.unmount()
  // The next page opens while nobody answers, and reads the conversation by itself once somebody does.
  lookAway(true)
  const again = person(oracle, { sessionId: open })
  await until(() => again.texts('.oc-error').length === 1)
  expect(again.texts('.oc-said')).toEqual([])
  lookAway(false)
  await until(() => again.texts('.oc-said').length === 2)
  await until(() => again.texts('.oc-error').length === 0)
  await until(() => again.texts('.oc-ending').length === 2)
  expect(again.texts('.oc-ending').every((word) => ['failed', 'Cut off'].includes(word))).toBe(true)
  expect(again.all('.oc-cursor')).toEqual([])
  // The chat goes on.
  await again.say('Once more')
  await until(() => again.texts('.oc-markdown').includes('I begin and end.'))
}, 400_000)

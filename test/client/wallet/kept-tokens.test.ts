import { IDBFactory, IDBKeyRange } from 'fake-indexeddb'
import { beforeEach, describe, expect, it } from 'vitest'
import { scriptedModel } from '#core/testing'
import type { OracleClient } from '../../../client/core/client.ts'
import { createGuestWallet, forgetTokens } from '../../../client/passkey.ts'
import { type TestOracle, testOracle, testWallet } from '../oracle.ts'

/** How many tokens this browser keeps. */
async function rows(): Promise<number> {
  const opened = indexedDB.open('oracle-tokens', 1)
  await new Promise((resolve) => (opened.onsuccess = resolve))
  const { result } = opened
  if (!result.objectStoreNames.contains('kept')) return 0
  const asked = result.transaction('kept').objectStore('kept').count()
  await new Promise((resolve) => (asked.onsuccess = resolve))
  result.close()
  return asked.result
}

/** Asks the oracle something as a page that has just been loaded. */
async function load(oracle: TestOracle, more: object = { keepTokens: true }) {
  const client = oracle.tab(more)
  await ask(client, oracle)
  return client
}
const ask = (client: OracleClient, { oracleDid, proxy }: TestOracle) =>
  client.request(oracleDid, `${proxy.url}/sessions`)
const open = () => testOracle({ plugins: [], model: scriptedModel([]) })

beforeEach(() => void Object.assign(globalThis, { indexedDB: new IDBFactory(), IDBKeyRange }))

describe('tokens that are kept', () => {
  it('are asked of the wallet once in three loads of a page', async () => {
    await using oracle = await open()
    await load(oracle)
    await expect.poll(rows).toBe(2)
    await load(oracle)
    await load(oracle)
    expect(oracle.wallet.minted).toEqual({ delegations: 1, invocations: 1 })
  })

  it('are forgotten when an oracle refuses them, and the new ones are kept', async () => {
    await using oracle = await open()
    await load(oracle)
    await expect.poll(rows).toBe(2)
    let refusals = 0
    oracle.proxy.interfere = () => (refusals++ === 0 ? { status: 401, body: {} } : undefined)
    await load(oracle)
    expect(refusals).toBe(2)
    expect(oracle.wallet.minted).toEqual({ delegations: 2, invocations: 2 })
    await expect.poll(rows).toBe(2)
    const { headers } = oracle.proxy.requests.at(-1)!
    await load(oracle)
    expect(oracle.wallet.minted).toEqual({ delegations: 2, invocations: 2 })
    expect(oracle.proxy.requests.at(-1)!.headers.authorization).toBe(headers.authorization)
  })

  it('of one user are gone once another has come', async () => {
    await using oracle = await open()
    await load(oracle)
    await expect.poll(rows).toBe(2)
    const { initialWallet, ...other } = await testWallet('another user')
    await load(oracle, { wallet: initialWallet, ...other, keepTokens: true })
    await expect.poll(rows).toBe(2)
    await load(oracle)
    expect(oracle.wallet.minted).toEqual({ delegations: 2, invocations: 2 })
    expect(other.minted).toEqual({ delegations: 1, invocations: 1 })
  })

  it('are gone when their user signs out, by a wallet of the library or of the page', async () => {
    await using oracle = await open()
    const { initialWallet: wallet, signOut, ...minting } = await createGuestWallet()
    await load(oracle, { wallet, ...minting, keepTokens: true })
    await expect.poll(rows).toBe(2)
    await signOut()
    expect(await rows()).toBe(0)
    await load(oracle)
    await expect.poll(rows).toBe(2)
    await forgetTokens()
    expect(await rows()).toBe(0)
  })

  it('are none where the page wants none, where the browser has no database, and shortly before their end', async () => {
    await using oracle = await open()
    await load(oracle, { keepTokens: false })
    const soon = async (did: string) => ({
      ...(await oracle.wallet.createInvocation(did)),
      expiresAt: Date.now() + 50_000,
    })
    await load(oracle, { createInvocation: soon, keepTokens: true })
    await expect.poll(rows).toBe(1)
    Reflect.deleteProperty(globalThis, 'indexedDB')
    const before = oracle.wallet.minted.delegations
    await load(oracle)
    await load(oracle)
    expect(oracle.wallet.minted.delegations).toBe(before + 2)
  })
})

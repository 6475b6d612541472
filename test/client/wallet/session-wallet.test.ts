import { IDBFactory } from 'fake-indexeddb'
import { beforeEach, describe, expect, it } from 'vitest'
import { testApp } from '#core/testing'
import {
  createGuestWallet,
  createSessionWallet,
  type SessionWalletOptions,
  type Wallet,
} from '../../../client/passkey.ts'
import { type Grant, keyOf, mint } from '../../../client/wallet/ucan.ts'

/** A wallet that asks its user at each signature, as an extension does. */
async function extension(fill = 7) {
  const key = await keyOf(new Uint8Array(32).fill(fill))
  const asked: string[] = []
  const options: SessionWalletOptions = {
    did: key.did,
    delegate(audience: string, capabilities: readonly Grant[], expiration: number) {
      asked.push(capabilities.map(({ can }) => can).join())
      return mint(key, audience, capabilities, expiration)
    },
  }
  return { asked, options }
}

const headersOf = async (wallet: Wallet, oracleDid: string): Promise<Record<string, string>> => {
  const delegation = (await wallet.createDelegation(oracleDid)).serialized
  return {
    authorization: `Bearer ${(await wallet.createInvocation(oracleDid)).serialized}`,
    'x-auth-type': 'ucan',
    ...(delegation && { 'x-ucan-delegation': delegation }),
  }
}

beforeEach(() => void (globalThis.indexedDB = new IDBFactory()))

describe('a wallet that asks its user at each signature', () => {
  it('is asked once in three loads of the page, and calls as its user', async () => {
    await using app = await testApp({ plugins: [] })
    const { asked, options } = await extension()
    for (const _ of [1, 2, 3]) {
      const wallet = await createSessionWallet(options)
      expect(wallet.isKept).toBe(true)
      for (const __ of [1, 2]) {
        const headers = await headersOf(wallet, app.oracleDid)
        expect((await fetch(`${app.url}/sessions`, { headers })).status).toBe(200)
      }
    }
    expect(asked).toEqual(['oracle/call'])
  })

  it('is asked once more for what an oracle may do, and the oracle may do it', async () => {
    await using app = await testApp({ plugins: [] })
    const { asked, options } = await extension()
    const grants = [{ can: '*', with: options.did }]
    for (const _ of [1, 2, 3]) {
      const wallet = await createSessionWallet({ ...options, grants })
      const headers = await headersOf(wallet, app.oracleDid)
      const raw = headers['x-ucan-delegation']
      const response = await fetch(`${app.url}/delegation`, {
        ...{ method: 'POST', body: JSON.stringify({ raw }) },
        headers: { ...headers, 'content-type': 'application/json' },
      })
      expect(response.status).toBe(200)
    }
    expect(asked).toEqual(['oracle/call', '*'])
  })

  it('is asked again after a sign-out, after thirty days, and for another user', async () => {
    const { asked, options } = await extension()
    const wallet = await createSessionWallet(options)
    await wallet.signOut()
    const call = () => wallet.createInvocation('did:web:oracle.example')
    await expect(call()).rejects.toMatchObject({ code: 'unauthorized' })
    await createSessionWallet(options)
    expect(asked).toHaveLength(2)
    const later = Date.now() + 31 * 86_400_000
    const { now } = Date
    try {
      Date.now = () => later
      await createSessionWallet(options)
    } finally {
      Date.now = now
    }
    expect(asked).toHaveLength(3)
    const other = await extension(9)
    await createSessionWallet(other.options)
    expect(other.asked).toHaveLength(1)
  })

  it('says no: then there is no wallet', async () => {
    const { options } = await extension()
    const delegate = () => Promise.reject(new Error('The user said no.'))
    await expect(createSessionWallet({ ...options, delegate })).rejects.toThrow('said no')
  })
})

describe('a browser that keeps nothing', () => {
  const refusing = {
    open() {
      throw new DOMException('Not in a private window.', 'SecurityError')
    },
  }
  it.each([
    ['refuses', refusing],
    ['has none', undefined],
  ])('%s: the wallets work, and say that they are not kept', async (_, indexedDB) => {
    Object.assign(globalThis, { indexedDB })
    await using app = await testApp({ plugins: [] })
    const { asked, options } = await extension()
    const guest = await createGuestWallet()
    const session = await createSessionWallet(options)
    for (const wallet of [guest, session]) {
      expect(wallet.isKept).toBe(false)
      const headers = await headersOf(wallet, app.oracleDid)
      expect((await fetch(`${app.url}/sessions`, { headers })).status).toBe(200)
    }
    expect(asked).toHaveLength(1)
    await guest.signOut()
    await session.signOut()
  })
})

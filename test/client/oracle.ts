import { createElement, type ReactNode } from 'react'
import { testApp, type TestApp } from '#core/testing'
import { createWallet } from '../../core/testing/wallet.ts'
import {
  createOracleClient,
  type OracleClient,
  type OracleClientOptions,
} from '../../client/core/client.ts'
import { OracleClientProvider, OraclesProvider } from '../../client/react/provider.ts'
import type { MintFn } from '../../client/core/records.ts'
import type { TabStorage } from '../../client/core/chat/tab-memory.ts'
import { type Proxy, proxyTo } from './proxy.ts'

export type { Proxy } from './proxy.ts'

/** Waits that a test can afford. The order of things is the same as with the usual ones. */
export const shortTiming = { retryMs: 20, maxRetryMs: 200, stallMs: 400, retries: 14 }

export interface TestWallet {
  readonly initialWallet: {
    address: string
    did: string
    matrix: { accessToken: string; homeServer: string }
  }
  readonly transactSignX: () => Promise<unknown>
  readonly createDelegation: MintFn
  readonly createInvocation: MintFn
  /** How often each kind was made. */
  readonly minted: { delegations: number; invocations: number }
}

/** A user's wallet as an app hands it to the provider. */
export async function testWallet(words = 'a user'): Promise<TestWallet> {
  const wallet = await createWallet(words)
  const minted = { delegations: 0, invocations: 0 }
  const soon = () => Date.now() + 300_000
  return {
    initialWallet: {
      address: 'ixo1test',
      did: wallet.did,
      matrix: { accessToken: '', homeServer: '' },
    },
    transactSignX: () => Promise.reject(new Error('No chain in tests.')),
    minted,
    async createDelegation(audience) {
      const nonce = `d${++minted.delegations}`
      return { serialized: (await wallet.delegate({ audience, nonce })).text, expiresAt: soon() }
    },
    async createInvocation(audience) {
      const nonce = `i${++minted.invocations}`
      return { serialized: (await wallet.invoke({ audience, nonce })).text, expiresAt: soon() }
    },
  }
}

export interface TestOracle extends AsyncDisposable {
  readonly app: TestApp
  readonly proxy: Proxy
  readonly wallet: TestWallet
  readonly oracleDid: string
  readonly overrides: { baseUrl: string }
  /** A session of the wallet's user. */
  session(): Promise<string>
  /** A client as another tab of the same user has one. */
  tab(options?: Partial<OracleClientOptions>): OracleClient
  /** Puts a client's provider around something. */
  within(client: OracleClient): (child: ReactNode) => ReactNode
  /** The provider of the documentation around something. */
  provided(child: ReactNode): ReactNode
}

/** A real server, a bad network in front of it, and a user. */
export async function testOracle(options: Parameters<typeof testApp>[0]): Promise<TestOracle> {
  const app = await testApp(options)
  const proxy = await proxyTo(app.url)
  const wallet = await testWallet()
  const { oracleDid } = app
  const overrides = { baseUrl: proxy.url }
  const tab = (more: Partial<OracleClientOptions> = {}) =>
    createOracleClient({
      wallet: wallet.initialWallet,
      createDelegation: wallet.createDelegation,
      createInvocation: wallet.createInvocation,
      timing: shortTiming,
      ...more,
    })
  const own = tab()
  return {
    app,
    proxy,
    wallet,
    oracleDid,
    overrides,
    tab,
    async session() {
      const path = `${app.url}/sessions`
      return (await own.request<{ sessionId: string }>(oracleDid, path, { method: 'POST' }))
        .sessionId
    },
    within: (client) => (child) => createElement(OracleClientProvider, { client, children: child }),
    provided: (child) => createElement(OraclesProvider, { ...wallet, children: child }),
    async [Symbol.asyncDispose]() {
      await proxy[Symbol.asyncDispose]()
      await app.close()
    },
  }
}

/** The memory of one tab. */
export function tabStorage(): TabStorage {
  const items = new Map<string, string>()
  return {
    getItem: (key) => items.get(key) ?? null,
    setItem: (key, value) => void items.set(key, value),
    removeItem: (key) => void items.delete(key),
  }
}

import { expect, it } from 'vitest'
import { scriptedModel, testApp } from '#core/testing'
import * as core from '../../../client/index.ts'
import type { ChatResult, IChatOptions, IOraclesProviderProps } from '../../../client/index.ts'
import * as liveAgent from '../../../client/live-agent.ts'
import * as wallet from '../../../client/wallet.ts'
import { testOracle, testWallet } from '../oracle.ts'
import { hook, mount, until } from '../page.ts'

/** True when two unions are the same. */
type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : false) : false
type Required<T> = { [K in keyof T]-?: undefined extends T[K] ? never : K }[keyof T]
const types = <_T extends true>() => {}

it('the options are those of the tables, and no others', () => {
  types<
    Same<
      keyof IOraclesProviderProps,
      | 'initialWallet'
      | 'transactSignX'
      | 'createDelegation'
      | 'createInvocation'
      | 'resolverUrl'
      | 'keepTokens'
      | 'history'
      | 'children'
    >
  >()
  types<
    Same<Required<IOraclesProviderProps>, 'initialWallet' | 'transactSignX' | 'createDelegation'>
  >()
  types<
    Same<
      keyof IChatOptions,
      | 'oracleDid'
      | 'sessionId'
      | 'onPaymentRequiredError'
      | 'browserTools'
      | 'uiComponents'
      | 'overrides'
      | 'streamingMode'
    >
  >()
  types<Same<Required<IChatOptions>, 'oracleDid' | 'sessionId' | 'onPaymentRequiredError'>>()
  types<Same<IChatOptions['streamingMode'], 'batched' | 'immediate' | undefined>>()
  types<Same<ChatResult['status'], 'submitted' | 'streaming' | 'ready' | 'error'>>()
})

it('useChat returns exactly what the table lists', async () => {
  await using oracle = await testOracle({ plugins: [], model: scriptedModel([]) })
  const { oracleDid, overrides } = oracle
  const sessionId = await oracle.session()
  const { now } = hook(
    () => core.useChat({ oracleDid, sessionId, overrides, onPaymentRequiredError: () => {} }),
    oracle.provided,
  )
  expect(Object.keys(now).sort()).toEqual([
    'abortStream',
    'error',
    'isConfigReady',
    'isLoading',
    'isRealTimeConnected',
    'isSending',
    'messages',
    'refetchMessages',
    'sendMessage',
    'sendMessageError',
    'status',
  ])
})

it('the entries export what is promised', () => {
  expect(Object.keys(core).sort()).toEqual([
    'OracleClientProvider',
    'OracleError',
    'OraclesProvider',
    'createOracleClient',
    'getOpenIdToken',
    'renderMessageContent',
    'useAgAction',
    'useApproval',
    'useCapabilities',
    'useChat',
    'useChatAnnouncer',
    'useChatEvents',
    'useContractOracle',
    'useGetOpenIdToken',
    'useMemoryEngine',
    'useModels',
    'useOracleSessions',
    'useOraclesConfig',
    'useOraclesContext',
    'useRun',
  ])
  expect(Object.keys(liveAgent)).toContain('useLiveAgent')
  expect(Object.keys(wallet)).toContain('createDevelopmentWallet')
})

it('a hook without a provider above it says so in the words of the specification', () => {
  const failures: string[] = []
  for (const use of [core.useOraclesContext, () => core.useOracleSessions('did:key:z')]) {
    function Probe() {
      try {
        use()
      } catch (error) {
        failures.push((error as Error).message)
      }
      return null
    }
    mount(<Probe />)
  }
  expect([...new Set(failures)]).toEqual([
    'useOraclesContext must be used within a OraclesProvider',
  ])
})

it('an oracle is found by its DID where it says it is, and nowhere else', async () => {
  await using app = await testApp({ plugins: [], env: { ORACLE_PRICE: '3 IXO' } })
  const { initialWallet, createDelegation } = await testWallet()
  const asked: string[] = []
  const documents: Record<string, unknown> = {}
  const realFetch = globalThis.fetch
  globalThis.fetch = async (input, init) => {
    const url = String(input)
    asked.push(url)
    const document = documents[url]
    return document ? Response.json(document) : realFetch(input, init)
  }
  try {
    const service = [{ id: `${app.oracleDid}#api`, serviceEndpoint: app.url }]
    documents[`https://resolver.example/1.0/identifiers/${app.oracleDid}`] = {
      didDocument: { service },
    }
    documents['https://oracle.example/.well-known/did.json'] = { service }
    const client = core.createOracleClient({
      wallet: initialWallet,
      createDelegation,
      resolverUrl: 'https://resolver.example',
    })
    const resolved = await client.config(app.oracleDid).read()
    expect(resolved).toMatchObject({
      apiUrl: app.url,
      model: 'demo',
      price: '3 IXO',
      did: app.oracleDid,
    })
    await client.config(app.oracleDid).read()
    expect(asked).toHaveLength(2)
    // Its own document names an oracle, and that oracle is another.
    await expect(client.config('did:web:oracle.example').read()).rejects.toMatchObject({
      code: 'config_unresolved',
      message: expect.stringContaining(app.oracleDid),
    })
    await expect(client.config('did:ixo:nobody').read()).rejects.toMatchObject({
      code: 'config_unresolved',
    })
    const { length } = asked
    const given = await client
      .config('did:ixo:nobody', { baseUrl: `${app.url}/`, wsUrl: 'ws://x' })
      .read()
    expect(given).toEqual({ apiUrl: app.url, wsUrl: 'ws://x' })
    expect(asked).toHaveLength(length)
    const seen = hook(
      () => core.useOraclesConfig(app.oracleDid),
      (child) => <core.OracleClientProvider client={client}>{child}</core.OracleClientProvider>,
    )
    await until(() => seen.now.isReady)
    expect(seen.now).toMatchObject({
      config: { apiUrl: app.url, model: 'demo', price: '3 IXO' },
      isLoading: false,
      error: null,
    })
  } finally {
    globalThis.fetch = realFetch
  }
})

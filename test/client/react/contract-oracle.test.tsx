import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { useContractOracle as published } from '@ixo/oracles-client-sdk'
import { expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { definePlugin, RuntimeError } from '#core'
import { scriptedModel } from '#core/testing'
import { createOracleClient, useContractOracle } from '../../../client/index.ts'
import type { ContractOptions, ContractOracle, LedgerMessage } from '../../../client/index.ts'
import { createDevelopmentWallet } from '../../../client/wallet.ts'
import payments from '../../../plugins/payments/index.ts'
import { toBech32 } from '../../../plugins/payments/ledger/bech32.ts'
import { testOracle } from '../oracle.ts'
import { lookedThrough, sentence } from '../../support/nothing-kept.ts'
import { hook, until } from '../page.ts'

const types = <_T extends true>() => {}
type Published = ReturnType<typeof published>
type PublishedParams = Parameters<typeof published>[0]

/** A card as the published chain client resolves it, whose types no package here has. */
interface ResolvedCard {
  readonly oracleDid: string
  readonly cardProof: string
  readonly card: {
    readonly credentialSubject: {
      readonly id: string
      readonly name: string
      readonly services: readonly {
        readonly id: string
        readonly name: string
        readonly price: { readonly amount: number; readonly currency?: string }
        readonly deliverables: string
      }[]
    }
  }
}

it('every field of the published hook is there, and its parameters fit', () => {
  types<ContractOracle['agentCard'] extends ResolvedCard | null | undefined ? true : false>()
  types<[Exclude<keyof Published, keyof ContractOracle>] extends [never] ? true : false>()
  types<PublishedParams extends ContractOptions ? true : false>()
  types<
    ContractOracle['contractOracle'] extends (options: { useAuthz?: boolean }) => Promise<void>
      ? true
      : false
  >()
  types<ContractOracle['payClaim'] extends Published['payClaim'] ? true : false>()
  types<ContractOracle['inviteOracle'] extends Published['inviteOracle'] ? true : false>()
  types<
    Pick<ContractOracle, 'isOracleInRoom'> extends { isOracleInRoom?: Published['isOracleInRoom'] }
      ? true
      : false
  >()
})

it('payClaim pays a claim, or all that are open, with the development wallet', async () => {
  const env = { PAYMENTS_TURN_PRICE: '5000', PAYMENTS_FIRST_CREDIT: '10000' }
  const model = scriptedModel(['One.', 'Two.', 'Three.'])
  await using oracle = await testOracle({
    plugins: [payments, lookedThrough(() => oracle.app.log)],
    model,
    env,
  })
  const { oracleDid, overrides } = oracle
  const wallet = await createDevelopmentWallet({
    seed: new Uint8Array(32).fill(3),
    ledger: overrides.baseUrl,
  })
  const client = createOracleClient({ ...wallet, wallet: wallet.initialWallet })
  const { sessionId } = await client.sessions(oracleDid, overrides).createSession()
  const chat = client.chat({ oracleDid, sessionId, overrides })
  onTestFinished(chat.subscribe(() => undefined))
  const claims: string[] = []
  const use = { onPaymentRequiredError: (ids: string[]) => void claims.push(...ids) }
  for (const text of ['1', '2', '3']) await chat.sendMessage(`${text}: ${sentence}`, use)
  await until(() => claims.length === 1)

  const page = hook(
    () => useContractOracle({ params: { oracleDid, claimId: claims[0] }, overrides }),
    oracle.within(client),
  )
  await until(() => !page.now.isLoadingAgentCard)
  expect(page.now).toMatchObject({
    agentCard: {
      oracleDid,
      cardProof: expect.stringMatching(/^[\w-]{22}$/),
      card: { credentialSubject: { id: oracleDid } },
    },
    pricingList: [{ amount: '5000', denom: 'udev', title: expect.any(String) }],
    isOracleInRoom: undefined,
    isLoadingOracleInRoom: false,
    isLoadingPricingList: false,
    isLoadingAuthzConfig: false,
    error: null,
  })
  const paying = page.now.payClaim()
  await until(() => page.now.isPayingClaim)
  await paying
  await until(() => !page.now.isPayingClaim)
  const account = await client.request(oracleDid, '/payments/development/account', {}, overrides)
  expect(account).toMatchObject({ balance: String(1_000_000_000 - 10_000) })
  await chat.sendMessage(`3: ${sentence}`, use)
  expect(chat.getSnapshot().messages.at(-1)?.content).toBe('Three.')

  // Paid once; a second time the oracle says that the claim is closed.
  await expect(page.now.payClaim()).rejects.toMatchObject({ code: 'invalid_request' })
  await until(() => page.now.error !== null)
  await expect(page.now.inviteOracle()).rejects.toMatchObject({ code: 'invalid_request' })
  // By the DID alone.
  const open = hook(
    () => useContractOracle({ params: { oracleDid }, overrides }),
    oracle.within(client),
  )
  await open.now.payClaim()
})

it('contractOracle grants on the development ledger, and the contract is active', async () => {
  const env = { PAYMENTS_TURN_PRICE: '5000' }
  await using oracle = await testOracle({
    plugins: [payments, lookedThrough(() => oracle.app.log)],
    model: scriptedModel(['Yes.']),
    env,
  })
  const { oracleDid, overrides } = oracle
  const wallet = await createDevelopmentWallet({
    seed: new Uint8Array(32).fill(4),
    ledger: overrides.baseUrl,
  })
  const client = createOracleClient({ ...wallet, wallet: wallet.initialWallet })
  const params = { oracleDid, agentQuota: 3, maxAmount: { amount: 50_000, denom: 'udev' } }
  const page = hook(() => useContractOracle({ params, overrides }), oracle.within(client))
  await until(() => page.now.authzConfig)
  expect(page.now.authzConfig).toMatchObject({
    granteeAddress: expect.stringMatching(/^dev1/),
    expirationDays: 30,
  })
  await page.now.contractOracle()
  const { contracts } = await client.request<{ contracts: object[] }>(
    oracleDid,
    '/payments/contracts',
    {},
    overrides,
  )
  expect(contracts).toMatchObject([{ status: 'active' }])
  // What the contract leaves counts as credit, so the first turn needs no payment.
  const { sessionId } = await client.sessions(oracleDid, overrides).createSession()
  const chat = client.chat({ oracleDid, sessionId, overrides })
  onTestFinished(chat.subscribe(() => undefined))
  await chat.sendMessage(sentence)
  expect(chat.getSnapshot().messages.at(-1)?.content).toBe('Yes.')
})

/** What contracts look like to a client: a fake of the routes, which asks twice before a grant stands on the ledger. */
function fakeContracts(ends: 'active' | 'failed' = 'active') {
  const asked: unknown[] = []
  let confirmed = 0
  const plugin = definePlugin({
    name: 'payments',
    summary: 'Contracts that are not real.',
    facts: () => ({ payments: { methods: [] } }),
    routes: {
      'GET /payments/terms': {
        auth: 'public',
        run: () => ({ maximum: '5000', denom: 'udev' }),
      },
      'GET /payments/authz.json': {
        auth: 'public',
        run: () => ({
          granteeAddress: 'dev1oracle',
          oracleName: 'It',
          requiredPermissions: ['/cosmos.bank.v1beta1.MsgSend'],
          expirationDays: 90,
        }),
      },
      'POST /payments/contracts': {
        input: z.looseObject({}),
        run: (input: object) => {
          asked.push(input)
          const value = { grantee: 'dev1oracle', msg: { $bytes: 'AQID' } }
          const messages = [{ typeUrl: '/cosmos.authz.v1beta1.MsgExec', value }]
          return { id: 'c-1', status: 'pending', messages, memo: 'contract:c-1' }
        },
      },
      'POST /payments/contracts/:id/confirm': {
        input: z.looseObject({ id: z.string() }),
        run: (input: object) => {
          asked.push(input)
          confirmed++
          if (confirmed === 1) return { id: 'c-1', status: 'pending' }
          if (confirmed === 2) throw new RuntimeError('UNAVAILABLE', 'The ledger is away.')
          return { id: 'c-1', status: ends }
        },
      },
    },
  })
  return { plugin, asked }
}

const hash = 'AB'.repeat(32)

it('contractOracle has the wallet grant what is asked, and waits until the ledger has it', async () => {
  const { plugin, asked } = fakeContracts()
  await using oracle = await testOracle({ plugins: [plugin], model: scriptedModel([]) })
  const { oracleDid, overrides } = oracle
  const given: [readonly LedgerMessage[], string | undefined][] = []
  const client = oracle.tab({
    transactSignX: async (messages, memo) => (given.push([messages, memo]), { txhash: hash }),
  })
  const params = {
    oracleDid,
    userClaimCollectionId: '7',
    adminAddress: 'dev1admin',
    claimId: '',
    agentQuota: 4,
    maxAmount: { amount: 20_000, denom: 'udev' },
  }
  const page = hook(() => useContractOracle({ params, overrides }), oracle.within(client))
  await page.now.contractOracle({})
  expect(given).toEqual([
    [
      [
        {
          typeUrl: '/cosmos.authz.v1beta1.MsgExec',
          value: { grantee: 'dev1oracle', msg: Uint8Array.of(1, 2, 3) },
        },
      ],
      'contract:c-1',
    ],
  ])
  const confirm = { id: 'c-1', txHash: hash }
  expect(asked).toEqual([
    {
      address: 'ixo1test',
      maxAmount: '20000',
      agentQuota: 4,
      days: 90,
      collectionId: '7',
      adminAddress: 'dev1admin',
    },
    confirm,
    confirm,
    confirm,
  ])
  // Without a grant a contract is a room on the messaging server, which this wallet has no account on.
  await expect(page.now.contractOracle({ useAuthz: false })).rejects.toMatchObject({
    code: 'invalid_request',
    message: expect.stringContaining('no messaging account'),
  })
  expect(given).toHaveLength(1)

  const other = { oracleDid, maxAmount: { amount: 1, denom: 'uixo' } }
  const wrong = hook(() => useContractOracle({ params: other, overrides }), oracle.within(client))
  await expect(wrong.now.contractOracle()).rejects.toMatchObject({
    code: 'invalid_request',
    message: expect.stringContaining('udev'),
  })
}, 20_000)

it('a grant that the wallet refuses, or the ledger, is payment_failed', async () => {
  const { plugin } = fakeContracts('failed')
  await using oracle = await testOracle({ plugins: [plugin], model: scriptedModel([]) })
  const { oracleDid, overrides } = oracle
  let sign = async (): Promise<unknown> => Promise.reject(new Error('No, said the user.'))
  const client = oracle.tab({ transactSignX: () => sign() })
  const page = hook(
    () => useContractOracle({ params: { oracleDid }, overrides }),
    oracle.within(client),
  )
  await expect(page.now.contractOracle()).rejects.toMatchObject({
    code: 'payment_failed',
    message: expect.stringContaining('No, said the user.'),
  })
  await until(() => page.now.error?.code === 'payment_failed' && !page.now.isContractingOracle)
  sign = async () => undefined
  await expect(page.now.contractOracle()).rejects.toMatchObject({ code: 'payment_pending' })
  sign = async () => ({ hash })
  await expect(page.now.contractOracle()).rejects.toMatchObject({
    code: 'payment_failed',
    message: 'The contract is failed.',
  })
}, 20_000)

it('an oracle that has no such plugin says so, also to who contracts it by its DID alone', async () => {
  await using oracle = await testOracle({ plugins: [], model: scriptedModel([]) })
  const { oracleDid, overrides } = oracle
  const page = hook(
    () => useContractOracle({ params: { oracleDid }, overrides }),
    oracle.within(oracle.tab()),
  )
  await until(() => page.now.error !== null && !page.now.isLoadingAgentCard)
  for (const promise of [page.now.contractOracle(), page.now.payClaim()])
    await expect(promise).rejects.toMatchObject({
      code: 'plugin_not_available',
      message: expect.stringContaining('"payments" plugin'),
    })
  const lost = hook(() => useContractOracle('did:ixo:nobody'), oracle.within(oracle.tab()))
  await until(() => lost.now.error?.code === 'config_unresolved')
})

/** As much of a messaging server as rooms of users and oracles need, and what it was asked. */
async function fakeHomeServer() {
  const members: string[] = []
  const calls: string[] = []
  const rooms = { made: false, isTaken: false }
  const server = createServer(async (req, res) => {
    const path = decodeURIComponent(req.url ?? '').replace('/_matrix/client/v3', '')
    let text = ''
    for await (const chunk of req) text += chunk
    calls.push([req.method, path, req.headers.authorization, text].filter(Boolean).join(' '))
    const answer = (status: number, told: object) =>
      res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(told))
    if (path.startsWith('/directory/room/'))
      return rooms.made ? answer(200, { room_id: '!r:m' }) : answer(404, { errcode: 'M_NOT_FOUND' })
    if (path === '/createRoom') {
      rooms.made = true
      return rooms.isTaken
        ? answer(400, { errcode: 'M_ROOM_IN_USE' })
        : answer(200, { room_id: '!r:m' })
    }
    if (path === '/rooms/!r:m/invite') members.push(JSON.parse(text).user_id)
    answer(200, { joined: Object.fromEntries(members.map((member) => [member, {}])) })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const homeServer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { homeServer, host: new URL(homeServer).host, members, calls, rooms }
}

it('finds the oracle in its room on the messaging server, and invites it', async () => {
  const { plugin } = fakeContracts()
  await using oracle = await testOracle({ plugins: [plugin], model: scriptedModel([]) })
  const { oracleDid, overrides, wallet } = oracle
  const { homeServer, host, members, calls, rooms } = await fakeHomeServer()
  const client = oracle.tab({
    wallet: { ...wallet.initialWallet, matrix: { accessToken: 'syt', homeServer } },
  })
  const page = hook(
    () => useContractOracle({ params: { oracleDid }, overrides }),
    oracle.within(client),
  )
  await until(() => !page.now.isLoadingOracleInRoom)
  expect(page.now.isOracleInRoom).toBe(false)
  await expect(page.now.inviteOracle()).rejects.toMatchObject({ code: 'not_found' })
  rooms.made = true
  await page.now.inviteOracle()
  await until(() => page.now.isOracleInRoom)
  expect(members).toEqual([`@did-ixo-dev1oracle:${host}`])
  const alias = `#${wallet.initialWallet.did}_${oracleDid}`.replaceAll(':', '-')
  expect(calls[0]).toBe(`GET /directory/room/${alias}:${host} Bearer syt`)
})

it.each([
  ['makes the room', false],
  ['enters the room that another tab has just made', true],
])(
  'contractOracle %s, invites the oracle, and grants only where it is to',
  async (_, isTaken) => {
    const { plugin, asked } = fakeContracts()
    await using oracle = await testOracle({ plugins: [plugin], model: scriptedModel([]) })
    const { oracleDid, overrides, wallet } = oracle
    const { homeServer, host, members, calls, rooms } = await fakeHomeServer()
    rooms.isTaken = isTaken
    const signed: unknown[] = []
    const client = oracle.tab({
      wallet: { ...wallet.initialWallet, matrix: { accessToken: 'syt', homeServer } },
      transactSignX: async (messages) => (signed.push(messages), { hash }),
    })
    const page = hook(
      () => useContractOracle({ params: { oracleDid }, overrides }),
      oracle.within(client),
    )
    await until(() => !page.now.isLoadingOracleInRoom)
    calls.length = 0
    await page.now.contractOracle({ useAuthz: false })
    expect(members).toEqual([`@did-ixo-dev1oracle:${host}`])
    const name = `${wallet.initialWallet.did}_${oracleDid}`.replaceAll(':', '-')
    const made = `POST /createRoom Bearer syt {"preset":"private_chat","room_alias_name":"${name}"}`
    expect(calls.filter((call) => call.startsWith('POST'))).toEqual([
      made,
      'POST /rooms/!r:m/join Bearer syt {}',
      `POST /rooms/!r:m/invite Bearer syt {"user_id":"@did-ixo-dev1oracle:${host}"}`,
    ])
    await until(() => page.now.isOracleInRoom)
    expect([signed, asked]).toEqual([[], []])

    // Once more, with the grant: the room is there, and so is the oracle.
    await page.now.contractOracle()
    expect(members).toHaveLength(1)
    expect(calls.filter((call) => call === made)).toHaveLength(1)
    expect(signed).toHaveLength(1)
  },
  20_000,
)

it('an oracle that only receives still has a card and a price, and its claims are paid one by one', async () => {
  const env = {
    PAYMENTS_TURN_PRICE: '5000',
    PAYMENTS_LEDGER: '127.0.0.1:1',
    PAYMENTS_LEDGER_TLS: 'off',
    PAYMENTS_ADDRESS: toBech32('dev', new Uint8Array(20)),
    ORACLE_ENTITY_DID: 'did:ixo:entity:shop',
  }
  await using oracle = await testOracle({
    plugins: [payments, lookedThrough(() => oracle.app.log)],
    model: scriptedModel([]),
    env,
  })
  const { oracleDid, overrides, wallet } = oracle
  const client = oracle.tab({
    wallet: { ...wallet.initialWallet, address: env.PAYMENTS_ADDRESS },
  })
  const page = hook(
    () => useContractOracle({ params: { oracleDid }, overrides }),
    oracle.within(client),
  )
  await until(() => !page.now.isLoadingAgentCard)
  expect(page.now).toMatchObject({
    error: null,
    authzConfig: undefined,
    agentCard: { card: { credentialSubject: { id: 'did:ixo:entity:shop' } } },
    pricingList: [{ amount: '5000', denom: 'udev' }],
  })
  await expect(page.now.contractOracle()).rejects.toMatchObject({
    code: 'invalid_request',
    status: 409,
  })
})

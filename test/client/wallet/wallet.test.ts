import { expect, it } from 'vitest'
import { delegate, Delegation } from '@ucanto/core'
import type { Capabilities } from '@ucanto/interface'
import { ed25519 } from '@ucanto/principal'
import { testApp } from '#core/testing'
import { type Grant, keyOf, mint, proofOf } from '../../../client/wallet/ucan.ts'
import { createDevelopmentWallet } from '../../../client/wallet.ts'
import { lookedThrough } from '../../support/nothing-kept.ts'
import payments from '../../../plugins/payments/index.ts'
import { tabStorage } from '../oracle.ts'

const seed = Uint8Array.from({ length: 32 }, (_, i) => (i * 37 + 11) % 256)

it('makes the very bytes that ucanto makes, whatever the audience and the time', async () => {
  const key = await keyOf(seed)
  const issuer = await ed25519.derive(seed)
  expect(key.did).toBe(issuer.did())
  const oracle = (await ed25519.generate()).did()
  for (const audience of [oracle, 'did:ixo:entity:abc', 'did:web:oracle.example'] as const)
    for (const expiration of [23, 200, 60_000, 1_800_000_000, 5_000_000_000]) {
      const capabilities: Capabilities = [
        { can: '*', with: 'ixo:oracle' },
        { can: 'registry/*', with: key.did as `did:key:${string}` },
      ]
      const theirs = await delegate({
        issuer,
        audience: { did: () => audience },
        capabilities,
        expiration,
      })
      const { ok } = await theirs.archive()
      expect(await mint(key, audience, capabilities as Grant[], expiration)).toBe(
        Buffer.from(ok!).toString('base64'),
      )
    }
})

it('makes the very bytes that ucanto makes of a token with proofs', async () => {
  const key = await keyOf(seed)
  const issuer = await ed25519.derive(seed)
  const middle = await ed25519.generate()
  const capabilities: Capabilities = [{ can: 'oracle/call', with: issuer.did() }]
  const expiration = 1_800_000_000
  const first = await delegate({ issuer, audience: middle, capabilities, expiration })
  const proofs = [first]
  const second = await delegate({
    ...{ issuer: middle, audience: issuer, capabilities, expiration, proofs },
  })
  const theirs = await delegate({
    ...{ issuer, audience: middle, capabilities, expiration, proofs: [second] },
  })
  const text = async (one: Pick<typeof theirs, 'archive'>) =>
    Buffer.from((await one.archive()).ok!).toString('base64')
  const own = await mint(key, middle.did(), capabilities as Grant[], expiration)
  expect(own).toBe(await text(first))
  expect(
    await mint(key, middle.did(), capabilities as Grant[], expiration, [
      proofOf(await text(second)),
    ]),
  ).toBe(await text(theirs))
  for (const nonsense of ['', 'AAAA', '////', own.slice(0, 200)])
    expect(() => proofOf(nonsense), nonsense).toThrow()
})

it('makes the same bytes where the browser does not compute for the page', async () => {
  const { subtle } = crypto
  const grants = [{ can: '*', with: 'ixo:oracle' }]
  const made = async () => mint(await keyOf(seed), 'did:web:oracle.example', grants, 1_800_000_000)
  const usual = await made()
  Object.defineProperty(crypto, 'subtle', { value: undefined, configurable: true })
  try {
    expect(crypto.subtle).toBeUndefined()
    expect(await made()).toBe(usual)
  } finally {
    Object.defineProperty(crypto, 'subtle', { value: subtle, configurable: true })
  }
})

it('makes tokens whose signature holds', async () => {
  const wallet = await createDevelopmentWallet({ seed })
  const { serialized, expiresAt } = await wallet.createDelegation(
    'did:key:z6MkffDZCkCTWreg8868fG1FGFogcJj5X6PY93pPcWDn9bob',
  )
  const { ok } = await Delegation.extract(Buffer.from(serialized, 'base64'))
  expect(ok!.issuer.did()).toBe(wallet.initialWallet.did)
  expect(ok!.expiration * 1000).toBe(expiresAt)
})

it('calls a server, and is the same user at the next visit', async () => {
  await using app = await testApp({ plugins: [] })
  const storage = tabStorage()
  const dids = new Set<string>()
  for (const _ of [1, 2]) {
    const { initialWallet, createDelegation, createInvocation } = await createDevelopmentWallet({
      storage,
    })
    dids.add(initialWallet.did)
    const response = await fetch(`${app.url}/sessions`, {
      headers: {
        authorization: `Bearer ${(await createInvocation(app.oracleDid)).serialized}`,
        'x-auth-type': 'ucan',
        'x-ucan-delegation': (await createDelegation(app.oracleDid)).serialized,
      },
    })
    expect(response.status).toBe(200)
  }
  expect(dids.size).toBe(1)
})

it('signs on the development ledger of a server, where the server has one', async () => {
  const env = { PAYMENTS_TURN_PRICE: '5000', PAYMENTS_FIRST_CREDIT: '10000' }
  await using paid = await testApp({
    plugins: [payments, lookedThrough(() => paid.log)],
    env,
  })
  const wallet = await createDevelopmentWallet({
    seed: new Uint8Array(32).fill(5),
    ledger: `${paid.url}/`,
  })
  const { address } = wallet.initialWallet
  expect(address).toMatch(/^dev1/)
  const value = (amount: string) => ({
    fromAddress: address,
    toAddress: address,
    amount: [{ denom: 'udev', amount }],
  })
  const send = (amount: string) =>
    wallet.transactSignX(
      [{ typeUrl: '/cosmos.bank.v1beta1.MsgSend', value: value(amount) }],
      'to myself',
    )
  expect(await send('5')).toMatchObject({
    transactionHash: expect.stringMatching(/^[0-9A-F]{64}$/),
    code: 0,
  })
  // No ledger counts this one: the server refuses it as it stands.
  await expect(send('-1')).rejects.toMatchObject({ code: 'invalid_request' })

  await using free = await testApp({ plugins: [] })
  for (const options of [{ ledger: free.url }, {}]) {
    const plain = await createDevelopmentWallet({ seed: new Uint8Array(32).fill(5), ...options })
    expect(plain.initialWallet.address).toBe(plain.initialWallet.did)
    await expect(plain.transactSignX([])).rejects.toMatchObject({ code: 'invalid_request' })
  }
})

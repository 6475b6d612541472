import { randomBytes } from 'node:crypto'
import {
  DirectSecp256k1Wallet,
  makeAuthInfoBytes,
  makeSignDoc,
  Registry,
} from '@cosmjs/proto-signing'
import { expect, test } from 'vitest'
import { fromBech32, toBech32 } from './ledger/bech32.ts'
import { LedgerKey } from './ledger/keys.ts'
import { types, writeSend } from './ledger/messages.ts'
import { NotProto, ProtoFields } from './ledger/proto.ts'
import { readTx, signTx } from './ledger/tx.ts'

const secret = () => Buffer.concat([Buffer.of(1), randomBytes(31)])

test('addresses are those of the published library, and a wrong letter is found', async () => {
  for (let i = 0; i < 20; i++) {
    const key = secret()
    const wallet = await DirectSecp256k1Wallet.fromKey(key, 'ixo')
    const [account] = await wallet.getAccounts()
    const address = new LedgerKey(key).address('ixo')
    expect(address).toBe(account?.address)
    const data = fromBech32('ixo', address)
    expect(data && toBech32('ixo', data)).toBe(address)
    for (const place of [5, 20, address.length - 1]) {
      const wrong = address[place] === 'q' ? 'p' : 'q'
      expect(
        fromBech32('ixo', address.slice(0, place) + wrong + address.slice(place + 1)),
      ).toBeUndefined()
    }
  }
})

test('a transaction is byte for byte the one that the published library signs', async () => {
  const key = secret()
  const wallet = await DirectSecp256k1Wallet.fromKey(key, 'dev')
  const [account] = await wallet.getAccounts()
  if (!account) throw new Error('The wallet has no account.')
  const registry = new Registry()
  for (const [memo, sequence, amount] of [
    ['oracle:4b0b3c2e-0000-4000-8000-000000000000', 0, '10000'],
    ['', 300, '9007199254740991'],
    ['Zahlung für Gelée', 1, '1'],
  ] as const) {
    const coins = [{ denom: 'udev', amount }]
    const value = { fromAddress: account.address, toAddress: account.address, amount: coins }
    const body = registry.encodeTxBody({ messages: [{ typeUrl: types.send, value }], memo })
    const publicKey = { typeUrl: types.publicKey, value: Uint8Array.of(10, 33, ...account.pubkey) }
    const fee = [{ denom: 'udev', amount: '2500' }]
    const auth = makeAuthInfoBytes(
      [{ pubkey: publicKey, sequence }],
      fee,
      100_000,
      undefined,
      undefined,
    )
    const signed = await wallet.signDirect(account.address, makeSignDoc(body, auth, 'dev-1', 7))
    const ours = signTx(
      {
        messages: [{ typeUrl: types.send, value: writeSend(value) }],
        memo,
        fee,
        gas: 100_000,
        chainId: 'dev-1',
        accountNumber: 7,
        sequence,
      },
      new LedgerKey(key),
    )
    const read = readTx(ours.bytes)
    expect(Buffer.from(read.body).equals(body)).toBe(true)
    expect(Buffer.from(read.auth).equals(auth)).toBe(true)
    expect(Buffer.from(read.signatures[0] ?? []).toString('base64')).toBe(
      signed.signature.signature,
    )
    expect(registry.decode({ typeUrl: types.send, value: writeSend(value) })).toMatchObject(value)
    expect(read).toMatchObject({ memo, sequence, gas: 100_000 })
  }
})

test('bytes that are no message are refused, wherever they end', () => {
  const value = writeSend({
    fromAddress: 'dev1a',
    toAddress: 'dev1b',
    amount: [{ denom: 'udev', amount: '1' }],
  })
  for (let end = 1; end < value.length; end++) {
    try {
      new ProtoFields(value.subarray(0, end))
    } catch (error) {
      expect(error).toBeInstanceOf(NotProto)
    }
  }
  for (let i = 0; i < 500; i++) {
    try {
      readTx(randomBytes(i % 80))
    } catch (error) {
      expect(error).toBeInstanceOf(NotProto)
    }
  }
  expect(() => new ProtoFields(Uint8Array.of(0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f))).toThrow(NotProto)
})

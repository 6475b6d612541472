import { randomBytes } from 'node:crypto'
import {
  DirectSecp256k1HdWallet,
  DirectSecp256k1Wallet,
  type GeneratedType,
  makeAuthInfoBytes,
  makeSignDoc,
  Registry,
} from '@cosmjs/proto-signing'
import { MsgExec, MsgGrant, MsgRevoke } from 'cosmjs-types/cosmos/authz/v1beta1/tx'
import { SendAuthorization } from 'cosmjs-types/cosmos/bank/v1beta1/authz'
import { MsgSend } from 'cosmjs-types/cosmos/bank/v1beta1/tx'
import { expect, test } from 'vitest'
import { execMessage, grantingMessage, revokingMessage } from './contracts/contract-messages.ts'
import type { ContractRow } from './contracts/tables.ts'
import { fromBech32, toBech32 } from './ledger/bech32.ts'
import { LedgerKey } from './ledger/keys.ts'
import {
  readExec,
  readSendGrant,
  types,
  writeExec,
  writeRevoke,
  writeSend,
  writeSendGrant,
} from './ledger/messages.ts'
import { keyOfMnemonic } from './ledger/mnemonic.ts'
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

test('a mnemonic is the key that the published wallet derives', async () => {
  for (const length of [12, 24] as const) {
    const wallet = await DirectSecp256k1HdWallet.generate(length, { prefix: 'ixo' })
    const [account] = await wallet.getAccounts()
    const key = await keyOfMnemonic(`  ${wallet.mnemonic.replaceAll(' ', '  ')} `)
    expect(key.address('ixo')).toBe(account?.address)
    expect(Buffer.from(key.publicKey).equals(account?.pubkey ?? Buffer.of())).toBe(true)
  }
})

test('grants, their use and their end are byte for byte what the published types encode', () => {
  const [granter, grantee] = ['dev1granter', 'dev1grantee']
  const coins = [{ denom: 'udev', amount: '50000' }]
  const send = { fromAddress: granter, toAddress: grantee, amount: coins }
  const equal = (ours: Uint8Array, theirs: Uint8Array) =>
    expect(Buffer.from(ours).toString('hex')).toBe(Buffer.from(theirs).toString('hex'))
  const authorization = SendAuthorization.fromPartial({ spendLimit: coins, allowList: [grantee] })
  const value = SendAuthorization.encode(authorization).finish()
  equal(
    writeSendGrant({
      granter,
      grantee,
      spendLimit: coins,
      allowList: [grantee],
      expires: 1_800_000_000,
    }),
    MsgGrant.encode(
      MsgGrant.fromPartial({
        granter,
        grantee,
        grant: {
          authorization: { typeUrl: types.sendAuthorization, value },
          expiration: { seconds: 1_800_000_000n },
        },
      }),
    ).finish(),
  )
  const inner = { typeUrl: types.send, value: writeSend(send) }
  equal(inner.value, MsgSend.encode(MsgSend.fromPartial(send)).finish())
  equal(
    writeExec({ grantee, msgs: [inner] }),
    MsgExec.encode(MsgExec.fromPartial({ grantee, msgs: [inner] })).finish(),
  )
  const revoke = { granter, grantee, msgTypeUrl: types.send }
  equal(writeRevoke(revoke), MsgRevoke.encode(MsgRevoke.fromPartial(revoke)).finish())
})

test('what a wallet is given to sign for a contract is what it encodes with the published types', () => {
  const parties = { oracle: 'dev1oracle', oracleDid: 'did:x:oracle', denom: 'udev' }
  const message = execMessage('dev1user', [grantingMessage(contract, parties)])
  const text = JSON.stringify(message)
  expect(text.match(/.{1,100}/g)).toMatchInlineSnapshot(`
    [
      "{"typeUrl":"/cosmos.authz.v1beta1.MsgExec","value":{"grantee":"dev1user","msgs":[{"typeUrl":"/cosmos",
      ".authz.v1beta1.MsgGrant","value":{"$bytes":"CghkZXYxdXNlchIKZGV2MW9yYWNsZRpPCkUKJi9jb3Ntb3MuYmFuay52",
      "MWJldGExLlNlbmRBdXRob3JpemF0aW9uEhsKDQoEdWRldhIFNTAwMDASCmRldjFvcmFjbGUSBgiApKfaBg=="}}]}}",
    ]
  `)
  const msgs = message.value.msgs.map(({ typeUrl, value }) => ({
    typeUrl,
    value: new Uint8Array(Buffer.from(value.$bytes, 'base64')),
  }))
  const registry = new Registry([[types.exec, MsgExec as GeneratedType]])
  const bytes = registry.encode({ typeUrl: types.exec, value: { grantee: 'dev1user', msgs } })
  const [granted] = readExec(bytes).msgs
  expect(readSendGrant(granted?.value ?? new Uint8Array())).toEqual({
    granter: 'dev1user',
    grantee: 'dev1oracle',
    spendLimit: [{ denom: 'udev', amount: '50000' }],
    allowList: ['dev1oracle'],
    expires: 1_800_000_000,
  })
  const claims = { ...contract, form: 'claims' as const, collection_id: '7' }
  expect(
    [
      grantingMessage(claims, parties),
      revokingMessage(contract, parties),
      revokingMessage(claims, parties),
    ].map(({ typeUrl, value }) => [typeUrl, Buffer.from(value).toString('base64')]),
  ).toMatchInlineSnapshot(`
    [
      [
        "/ixo.claims.v1beta1.MsgCreateClaimAuthorization",
        "CghkZXYxdXNlchIKZGlkOng6dXNlchoKZGV2MW9yYWNsZSIIZGV2MXVzZXIqATcwATgDQg0KBHVkZXYSBTUwMDAwUgYIgKSn2gZaAA==",
      ],
      [
        "/cosmos.authz.v1beta1.MsgRevoke",
        "CghkZXYxdXNlchIKZGV2MW9yYWNsZRocL2Nvc21vcy5iYW5rLnYxYmV0YTEuTXNnU2VuZA==",
      ],
      [
        "/cosmos.authz.v1beta1.MsgRevoke",
        "CghkZXYxdXNlchIKZGV2MW9yYWNsZRoiL2l4by5jbGFpbXMudjFiZXRhMS5Nc2dTdWJtaXRDbGFpbQ==",
      ],
    ]
  `)
})

const contract: ContractRow = {
  id: '4b0b3c2e-0000-4000-8000-000000000000',
  did: 'did:x:user',
  address: 'dev1user',
  form: 'grant',
  status: 'pending',
  max_amount: 50_000,
  taken: 0,
  quota: 3,
  used: 0,
  collection_id: null,
  admin_address: null,
  memo: 'contract:4b0b3c2e-0000-4000-8000-000000000000',
  tx_hash: null,
  reason: null,
  created_at: 0,
  expires_at: 1_800_000_000_000,
}

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

import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  decodeTxRaw,
  DirectSecp256k1Wallet,
  makeAuthInfoBytes,
  makeSignDoc,
} from '@cosmjs/proto-signing'
import { MsgExec } from 'cosmjs-types/cosmos/authz/v1beta1/tx'
import { TxBody, TxRaw } from 'cosmjs-types/cosmos/tx/v1beta1/tx'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { onEachDatabase } from '../../test/support/each-database.ts'
import { storeOf } from '../../test/support/store-of.ts'
import { DevelopmentLedger } from './development/ledger.ts'
import { createLedger, type LedgerTables } from './development/tables.ts'
import { type ServedLedger, serveLedger } from './fixtures/grpc-ledger.ts'
import { paidApp, session, settledAccount } from '../../test/support/paid-app.ts'
import {
  evaluations,
  writeClaimAuthorization,
  writeEvaluateClaim,
  writeSubmitClaim,
} from './ledger/claim-messages.ts'
import { GrpcPort } from './ledger/grpc.ts'
import { LedgerKey } from './ledger/keys.ts'
import { Ledger } from './ledger/ledger.ts'
import { types, writeExec, writeRevoke, writeSend, writeSendGrant } from './ledger/messages.ts'
import { grpc, LedgerStatus } from './ledger/port.ts'
import { signTx } from './ledger/tx.ts'

const coin = (amount: number, denom = 'udev') => [{ denom, amount: String(amount) }]
const send = (fromAddress: string, toAddress: string, amount: number, denom?: string) => ({
  typeUrl: types.send,
  value: writeSend({ fromAddress, toAddress, amount: coin(amount, denom) }),
})

const keyOf = (pubkey: Uint8Array = new Uint8Array()) => ({
  typeUrl: types.publicKey,
  value: Uint8Array.of(10, 33, ...pubkey),
})
/** Every kind of message that people and the oracle sign. */
const signable = [
  ...[types.send, types.exec, types.grant, types.revoke],
  ...[types.submitClaim, types.evaluateClaim, types.claimAuthorization],
]

await onEachDatabase('the development ledger', (where) => {
  let folder = ''
  let store: Awaited<ReturnType<typeof storeOf>>
  let served: ServedLedger
  let own: DevelopmentLedger
  const options = () => ({
    db: store.db,
    chainId: 'dev-1',
    prefix: 'dev',
    denom: 'udev',
    decimals: 6,
    now: () => new Date(),
  })
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'ledger-'))
    store = await storeOf(folder, where)
    await store.migrate('payments', { '001': createLedger })
    own = new DevelopmentLedger(options())
    served = await serveLedger(own)
  })
  afterAll(async () => {
    await served.close()
    await store.close()
    rmSync(folder, { recursive: true, force: true })
  })

  describe.each(['in the process', 'over gRPC'])('%s', (how) => {
    const ledgerOf = (chainId = 'dev-1') => {
      const port = how === 'over gRPC' ? new GrpcPort(served.address, false) : own
      const ledger = new Ledger(port, chainId)
      onTestFinished(() => ledger.close())
      return ledger
    }

    test('carries transfers out, and tells of accounts, balances and transactions', async () => {
      const ledger = ledgerOf()
      const [ann, ben] = [
        await own.accountOf(`did:x:${randomUUID()}`),
        await own.accountOf(`did:x:${randomUUID()}`),
      ]
      const did = `did:x:${randomUUID()}`
      const { address } = await own.accountOf(did)
      expect(await ledger.balance(address, 'udev')).toBe(1_000_000_000n)
      expect(await ledger.account(address)).toMatchObject({ sequence: 0 })
      expect(await ledger.account(`${address.slice(0, -1)}-`)).toBeUndefined()
      const { hash } = await own.transact(did, [send(address, ann.address, 7)], 'a memo')
      expect(await ledger.tx(hash)).toMatchObject({ hash, code: 0, memo: 'a memo' })
      expect(await ledger.tx('0'.repeat(64))).toBeUndefined()
      expect(await ledger.account(address)).toMatchObject({ sequence: 1 })
      expect(await ledger.transfersTo(ann.address, address)).toMatchObject([{ hash }])
      expect(await ledger.transfersTo(ann.address, ben.address)).toEqual([])
      const poor = await own.transact(did, [send(address, ben.address, 2_000_000_000)], '')
      expect(await ledger.tx(poor.hash)).toMatchObject({ code: 5 })
      const stolen = await own.transact(did, [send(ann.address, address, 1)], '')
      expect(await ledger.tx(stolen.hash)).toMatchObject({ code: 4 })
      expect(await ledger.balance(ben.address, 'udev')).toBe(1_000_000_000n)
    })

    test('takes only bytes whose signature, sequence and chain are right, and each once', async () => {
      const ledger = ledgerOf()
      const secret = Buffer.concat([Buffer.of(1), randomBytes(31)])
      const key = new LedgerKey(secret)
      const address = key.address('dev')
      const giver = `did:x:${randomUUID()}`
      const { address: from } = await own.accountOf(giver)
      await own.transact(giver, [send(from, address, 100)], '')
      const account = await ledger.account(address)
      const tx = (more: object = {}) =>
        signTx(
          {
            messages: [send(address, from, 10)],
            memo: '',
            fee: [],
            gas: 1,
            chainId: 'dev-1',
            accountNumber: account?.number ?? 0,
            sequence: 0,
            ...more,
          },
          key,
        )
      for (const more of [{ chainId: 'other-1' }, { accountNumber: 9_999 }, { sequence: 5 }])
        expect((await ledger.broadcast(tx(more).bytes)).code).not.toBe(0)
      const flipped = tx().bytes
      flipped[flipped.length - 1] = (flipped.at(-1) ?? 0) ^ 1
      expect((await ledger.broadcast(flipped)).code).not.toBe(0)
      expect((await ledger.broadcast(randomBytes(40))).code).not.toBe(0)
      const good = tx()
      expect(await ledger.broadcast(good.bytes)).toMatchObject({ code: 0 })
      expect((await ledger.broadcast(good.bytes)).code).not.toBe(0)
      expect(await ledger.balance(address, 'udev')).toBe(90n)
      expect(await ledger.tx(good.hash)).toMatchObject({ code: 0 })
      expect(await ledger.simulate(good.bytes)).toBeGreaterThan(0)
    })

    test('keeps to grants: their limit, their list, and their end', async () => {
      const ledger = ledgerOf()
      const [did, agent] = [`did:x:${randomUUID()}`, `did:x:${randomUUID()}`]
      const { address: granter } = await own.accountOf(did)
      const { address: grantee } = await own.accountOf(agent)
      const code = async (who: string, messages: Parameters<typeof own.transact>[1]) => {
        const { hash } = await own.transact(who, messages, '')
        return (await ledger.tx(hash))?.code
      }
      const collect = (amount: number, to = grantee) => [
        { typeUrl: types.exec, value: writeExec({ grantee, msgs: [send(granter, to, amount)] }) },
      ]
      const grant = (expires: number) => [
        {
          typeUrl: types.grant,
          value: writeSendGrant({
            granter,
            grantee,
            spendLimit: coin(100),
            allowList: [grantee],
            expires,
          }),
        },
      ]
      const soon = Math.floor(Date.now() / 1000) + 3600
      expect(await code(agent, collect(1))).toBe(4)
      expect(await code(did, grant(1))).not.toBe(0)
      expect(await code(did, grant(soon))).toBe(0)
      expect(await ledger.grants(granter, grantee, types.send)).toBe(1)
      expect(await code(agent, collect(60))).toBe(0)
      expect(await code(agent, collect(60))).toBe(5)
      expect(await code(agent, collect(1, granter))).toBe(4)
      const value = writeRevoke({ granter, grantee, msgTypeUrl: types.send })
      expect(await code(did, [{ typeUrl: types.revoke, value }])).toBe(0)
      expect(await code(agent, collect(1))).toBe(4)
      expect(await ledger.grants(granter, grantee, types.send)).toBe(0)
      expect(await ledger.balance(grantee, 'udev')).toBe(1_000_000_060n)
    })

    test('pays a claim when it is approved, and never when it is rejected', async () => {
      const ledger = ledgerOf()
      const [did, agent] = [`did:x:${randomUUID()}`, `did:x:${randomUUID()}`]
      const { address, collectionId } = await own.accountOf(did)
      const { address: oracle } = await own.accountOf(agent)
      const code = async (who: string, typeUrl: string, value: Uint8Array) => {
        const { hash } = await own.transact(who, [{ typeUrl, value }], '')
        return (await ledger.tx(hash))?.code
      }
      const submit = (claimId: string) =>
        writeSubmitClaim({
          collectionId,
          claimId,
          agentDid: agent,
          agentAddress: oracle,
          adminAddress: address,
          amount: coin(50),
        })
      const evaluate = (claimId: string, status: number, amount = coin(50)) =>
        writeEvaluateClaim({
          claimId,
          collectionId,
          oracle: did,
          agentDid: agent,
          agentAddress: oracle,
          adminAddress: address,
          status,
          reason: 0,
          amount,
        })
      expect(await code(agent, types.submitClaim, submit(randomUUID()))).toBe(4)
      const authorization = writeClaimAuthorization({
        creatorAddress: address,
        creatorDid: did,
        granteeAddress: oracle,
        adminAddress: address,
        collectionId,
        agentQuota: 4,
        maxAmount: coin(50),
        expires: Math.floor(Date.now() / 1000) + 3600,
      })
      expect(await code(did, types.claimAuthorization, authorization)).toBe(0)
      const ids = [randomUUID(), randomUUID(), randomUUID(), randomUUID()] as const
      const [good, bad, less, untold] = ids
      for (const id of ids) expect(await code(agent, types.submitClaim, submit(id))).toBe(0)
      expect(await code(agent, types.submitClaim, submit(randomUUID()))).toBe(4)
      expect(await code(agent, types.evaluateClaim, evaluate(good, 1))).toBe(4)
      expect(await code(did, types.evaluateClaim, evaluate(good, evaluations.approved))).toBe(0)
      expect(await code(did, types.evaluateClaim, evaluate(bad, evaluations.rejected))).toBe(0)
      expect(await code(did, types.evaluateClaim, evaluate(good, evaluations.approved))).not.toBe(0)
      expect(await code(did, types.evaluateClaim, evaluate(less, 1, coin(3)))).toBe(0)
      expect(await code(did, types.evaluateClaim, evaluate(untold, 1, []))).toBe(0)
      const paid = { payment: 4, agentAddress: oracle }
      expect(await ledger.claim(good)).toMatchObject({ ...paid, approved: coin(50) })
      expect(await ledger.claim(less)).toMatchObject({ ...paid, approved: coin(3) })
      expect(await ledger.claim(untold)).toMatchObject({ ...paid, approved: coin(50) })
      expect(await ledger.claim(bad)).toMatchObject({ evaluation: 2, payment: 0, approved: [] })
      expect(await ledger.claim(randomUUID())).toBeUndefined()
      expect(await ledger.balance(oracle, 'udev')).toBe(1_000_000_103n)
    })

    test('half an answer is no answer, wherever it ends', async () => {
      const port = how === 'over gRPC' ? new GrpcPort(served.address, false) : own
      let length: number | undefined
      let whole = 0
      const halving = {
        unary: async (path: string, request: Uint8Array) => {
          const answer = await port.unary(path, request)
          whole = answer.length
          return path.endsWith('/GetNodeInfo') ? answer : answer.subarray(0, length)
        },
        close: () => port.close(),
      }
      const ledger = new Ledger(halving, 'dev-1')
      onTestFinished(() => ledger.close())
      const did = `did:x:${randomUUID()}`
      const { address } = await own.accountOf(did)
      const ann = await own.accountOf(`did:x:${randomUUID()}`)
      const { hash } = await own.transact(did, [send(address, ann.address, 7)], 'a memo')
      for (const ask of [
        () => ledger.tx(hash),
        () => ledger.account(address),
        () => ledger.broadcast(new Uint8Array()),
      ]) {
        length = undefined
        await ask()
        const end = whole
        for (length = 0; length < end; length++)
          await expect(ask()).rejects.toMatchObject({ code: 'LEDGER_UNREACHABLE' })
      }
    })

    test('a ledger of another chain is not believed', async () => {
      await expect(ledgerOf('ixo-5').balance('dev1x', 'udev')).rejects.toMatchObject({
        code: 'LEDGER_UNREACHABLE',
        message: expect.stringMatching(/it is the chain dev-1, and PAYMENTS_CHAIN_ID is ixo-5/),
      })
    })
  })

  test('every transaction that stands on it is byte for byte what the published library signs', async () => {
    const db = store.db.withTables<LedgerTables>()
    const rows = await db
      .selectFrom('payments_dev_txs')
      .innerJoin('payments_dev_accounts', 'payments_dev_accounts.address', 'sender')
      .innerJoin('payments_dev_keys', 'payments_dev_keys.address', 'sender')
      .select(['bytes', 'hash', 'secret', 'number'])
      .execute()
    const seen = new Set<string>()
    for (const { bytes, hash, secret, number } of rows) {
      const raw = Buffer.from(bytes, 'base64')
      expect(createHash('sha256').update(raw).digest('hex').toUpperCase()).toBe(hash)
      const { body, authInfo, signatures } = decodeTxRaw(raw)
      for (const { typeUrl, value } of body.messages) {
        seen.add(typeUrl)
        if (typeUrl === types.exec)
          for (const inner of MsgExec.decode(value).msgs) seen.add(inner.typeUrl)
      }
      const wallet = await DirectSecp256k1Wallet.fromKey(Buffer.from(secret, 'hex'), 'dev')
      const [account] = await wallet.getAccounts()
      const [signer] = authInfo.signerInfos
      const auth = makeAuthInfoBytes(
        [{ pubkey: keyOf(account?.pubkey), sequence: Number(signer?.sequence) }],
        authInfo.fee?.amount ?? [],
        Number(authInfo.fee?.gasLimit),
        undefined,
        undefined,
      )
      const doc = makeSignDoc(TxBody.encode(body).finish(), auth, 'dev-1', Number(number))
      const signed = await wallet.signDirect(account?.address ?? '', doc)
      const theirs = TxRaw.encode({
        bodyBytes: signed.signed.bodyBytes,
        authInfoBytes: signed.signed.authInfoBytes,
        signatures: [Buffer.from(signed.signature.signature, 'base64')],
      }).finish()
      expect(signatures).toHaveLength(1)
      expect(Buffer.from(theirs).equals(raw)).toBe(true)
    }
    expect([...seen].sort()).toEqual(signable.toSorted())
  })

  test.each([
    ['denomination', { denom: 'uother', chainId: 'dev-1' }, 409, 'PAYMENT_MISMATCH'],
    ['chain', { denom: 'udev', chainId: 'dev-2' }, 503, 'LEDGER_UNREACHABLE'],
  ])('a transaction of another %s is no payment', async (_, other, status, code) => {
    const chain = new DevelopmentLedger({ ...options(), ...other })
    const node = await serveLedger(chain)
    onTestFinished(() => node.close())
    const oracle = await chain.accountOf(`did:x:${randomUUID()}`)
    const app = await paidApp({
      env: {
        PAYMENTS_LEDGER: node.address,
        PAYMENTS_LEDGER_TLS: 'off',
        PAYMENTS_ADDRESS: oracle.address,
      },
    })
    const user = await app.user()
    const { address } = await chain.accountOf(user.did)
    const { claim } = (await user.post('/payments/claims', { advance: '7000' })).body
    const prepared = await user.post('/payments/prepare', { claims: [claim.id], address })
    const { paymentId, memo } = prepared.body
    const message = send(address, oracle.address, 7000, other.denom)
    const { hash: txHash } = await chain.transact(user.did, [message], memo)
    expect(await new Ledger(chain, other.chainId).tx(txHash)).toMatchObject({ code: 0 })
    for (const body of [{ paymentId, txHash }, { txHash }])
      expect(await user.post('/payments/settle', body)).toMatchObject({ status, body: { code } })
    expect((await user.get('/payments/account')).body).toMatchObject({
      balance: '0',
      claims: [claim.id],
    })
  })

  test('an app is paid over gRPC; while the node is away turns within the credit go on', async () => {
    /** What the node tells of a transaction. */
    let tells: 'all' | 'half' | 'nothing yet' = 'all'
    const node = await serveLedger({
      unary: async (path, request) => {
        const answer = await own.unary(path, request)
        if (!path.endsWith('/GetTx') || tells === 'all') return answer
        if (tells === 'half') return answer.subarray(0, answer.length / 2)
        throw new LedgerStatus(grpc.notFound, 'tx not found')
      },
      close: () => Promise.resolve(),
    })
    const oracle = await own.accountOf(`did:x:${randomUUID()}`)
    const app = await paidApp({
      env: {
        PAYMENTS_LEDGER: node.address,
        PAYMENTS_LEDGER_TLS: 'off',
        PAYMENTS_ADDRESS: oracle.address,
        PAYMENTS_FIRST_CREDIT: '5000',
      },
    })
    const user = await app.user()
    const { address } = await own.accountOf(user.did)
    const { claim } = (await user.post('/payments/claims', { advance: '7000' })).body
    const { paymentId, messages, memo } = (
      await user.post('/payments/prepare', { claims: [claim.id], address })
    ).body
    const { fromAddress, toAddress } = messages[0].value
    expect((await user.get('/payments/development/account')).status).toBe(404)
    const { hash } = await own.transact(user.did, [send(fromAddress, toAddress, 7000)], memo)
    const settle = () => user.post('/payments/settle', { paymentId, txHash: hash })
    const balance = async () => (await user.get('/payments/account')).body.balance
    tells = 'half'
    expect(await settle()).toMatchObject({ status: 503, body: { code: 'LEDGER_UNREACHABLE' } })
    tells = 'nothing yet'
    expect(await settle()).toMatchObject({ status: 202, body: { status: 'pending' } })
    expect(await balance()).toBe('0')
    await node.close()
    const away = await settle()
    expect(away).toMatchObject({ status: 503, body: { code: 'LEDGER_UNREACHABLE' } })
    // Where the node is, is nobody's but the operator's.
    expect(JSON.stringify(away.body)).not.toContain(node.address)
    const sessionId = await session(user)
    const say = () => user.post(`/messages/${sessionId}`, { message: 'Hello', stream: false })
    expect((await say()).status).toBe(200)
    const again = await serveLedger(own, Number(node.address.split(':')[1]))
    onTestFinished(() => again.close())
    await expect.poll(async () => (await settle()).status, { timeout: 20_000 }).toBe(200)
    // The turn is paid, too.
    expect(await settledAccount(user)).toMatchObject({ balance: '2000', owed: '0' })
  })
})

test('a ledger that answers garbage, half a message or nothing known is not believed', async () => {
  const answers = [
    Buffer.of(0, 0, 0, 0, 9, 1),
    Buffer.of(0, 0, 0, 0, 2, 0xff, 0xff),
    Buffer.from('no'),
  ]
  let answer = answers[0]
  const server = createServer()
  server.on('stream', (stream) => {
    stream.on('error', () => undefined)
    stream.respond(
      { ':status': 200, 'content-type': 'application/grpc' },
      { waitForTrailers: true },
    )
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }))
    stream.end(answer)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const ledger = new Ledger(new GrpcPort(`127.0.0.1:${port}`, false), 'dev-1')
  onTestFinished(async () => {
    await ledger.close()
    server.close()
  })
  for (answer of answers)
    await expect(ledger.tx('A'.repeat(64))).rejects.toMatchObject({ code: 'LEDGER_UNREACHABLE' })
})

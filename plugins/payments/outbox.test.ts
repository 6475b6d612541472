import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import type { TestApp, TestUser } from '#core/testing'
import { onEachDatabase } from '../../test/support/each-database.ts'
import { paidApp, session, settledAccount } from '../../test/support/paid-app.ts'
import { storeOf } from '../../test/support/store-of.ts'
import { silent } from '../../test/support/silent-log.ts'
import type { Books } from './accounts/account.ts'
import { Outbox } from './contracts/outbox.ts'
import { createContracts } from './contracts/tables.ts'
import { DevelopmentLedger } from './development/ledger.ts'
import { createLedger } from './development/tables.ts'
import { serveLedger } from './fixtures/grpc-ledger.ts'
import { relayTo } from './fixtures/relay.ts'
import { Ledger } from './ledger/ledger.ts'
import { readExec, readSend, types, writeExec } from './ledger/messages.ts'
import { grpc, type LedgerPort, LedgerStatus } from './ledger/port.ts'
import { ProtoFields } from './ledger/proto.ts'
import { readTx } from './ledger/tx.ts'
import { createAccounts, withPaymentsTables } from './tables.ts'

const mnemonic =
  'abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about'
const patient = { timeout: 40_000, interval: 50 }
const sending = 'cosmos.tx.v1beta1.Service/BroadcastTx'

/** A node that a test can have fail at a named moment of a broadcast. */
class Node implements LedgerPort {
  readonly #ledger: LedgerPort
  /** The transactions that were broadcast, each as often as it came. */
  readonly sent: string[] = []
  before: (() => Promise<void>) | undefined
  /** What this resolves to, the node answers in place of the answer. */
  after: ((answer: Uint8Array) => Promise<void | Uint8Array>) | undefined

  constructor(ledger: LedgerPort) {
    this.#ledger = ledger
  }

  async unary(path: string, request: Uint8Array): Promise<Uint8Array> {
    if (path !== sending) return this.#ledger.unary(path, request)
    const { before, after } = this
    this.before = undefined
    await before?.()
    this.sent.push(Buffer.from(request).toString('base64'))
    const answer = await this.#ledger.unary(path, request)
    this.after = undefined
    return (await after?.(answer)) ?? answer
  }

  close(): Promise<void> {
    return Promise.resolve()
  }
}

await onEachDatabase('the outbox', (where) => {
  let folder = ''
  let store: Awaited<ReturnType<typeof storeOf>>
  let chain: DevelopmentLedger
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'outbox-'))
    store = await storeOf(folder, {})
    await store.migrate('payments', {
      ...{ '001': createLedger, '002': createAccounts, '003': createContracts },
    })
    chain = new DevelopmentLedger({
      db: store.db,
      chainId: 'dev-1',
      prefix: 'dev',
      denom: 'udev',
      decimals: 6,
      now: () => new Date(),
    })
  })
  afterAll(async () => {
    await store.close()
    rmSync(folder, { recursive: true, force: true })
  })

  /** An app that is paid on a ledger over gRPC, and a user with a contract. */
  const start = async () => {
    const node = new Node(chain)
    const served = await serveLedger(node)
    const relay = await relayTo(served.address)
    onTestFinished(async () => {
      relay.close()
      await served.close()
    })
    const app = await paidApp({
      where,
      env: {
        PAYMENTS_LEDGER: relay.address,
        PAYMENTS_LEDGER_TLS: 'off',
        PAYMENTS_MNEMONIC: mnemonic,
        PAYMENTS_FIRST_CREDIT: '0',
      },
    })
    const user = await app.user()
    const { address } = await chain.accountOf(user.did)
    const { granteeAddress } = (await app.get('/payments/authz.json')).body
    await chain.open(granteeAddress)
    const body = { address, maxAmount: '50000', agentQuota: 10, days: 7 }
    const made = (await user.post('/payments/contracts', body)).body
    const { hash } = await chain.transact(user.did, revived(made.messages), made.memo)
    const confirmed = await user.post(`/payments/contracts/${made.id}/confirm`, { txHash: hash })
    expect(confirmed.body).toMatchObject({ status: 'active' })
    return { node, relay, app, user, address, oracle: granteeAddress as string }
  }

  const say = async (user: TestUser) => {
    const id = await session(user)
    const { status } = await user.post(`/messages/${id}`, { message: 'Hello', stream: false })
    expect(status).toBe(200)
    await settledAccount(user)
  }

  const balance = async (address: string) => {
    return Number(await new Ledger(chain, 'dev-1').balance(address, 'udev'))
  }

  /** What stands once the collection is over: one claim that is paid, and its money moved once. */
  const collectedOnce = async (user: TestUser, address: string, before: number) => {
    await expect
      .poll(async () => (await user.get('/payments/account')).body.owed, patient)
      .toBe('0')
    const { claims } = (await user.get('/payments/claims')).body
    expect(claims).toMatchObject([{ status: 'paid', method: 'contract', amount: '5000' }])
    expect(before - (await balance(address))).toBe(5_000)
    expect((await user.get('/payments/account')).body).toMatchObject({
      balance: '0',
      contract: { left: { amount: '45000', quota: 9 } },
    })
  }

  const crashing = (app: TestApp) => async () => {
    await app.crash()
    throw new LedgerStatus(grpc.unavailable, 'the caller is gone')
  }

  test('signed and not sent: after a crash the same bytes go out, once', async () => {
    const { node, app, user, address } = await start()
    const before = await balance(address)
    const crashed = Promise.withResolvers<void>()
    node.before = async () => {
      queueMicrotask(crashed.resolve)
      await crashing(app)()
    }
    const id = await session(user)
    await user.post(`/messages/${id}`, { message: 'Hello', stream: false }).catch(() => undefined)
    await crashed.promise
    expect(await balance(address)).toBe(before)
    await app.again()
    await collectedOnce(user, address, before)
    expect(new Set(node.sent).size).toBe(1)
  })

  test('sent and not noted: after a crash the ledger is asked first, and nothing is sent again', async () => {
    const { node, app, user, address } = await start()
    const before = await balance(address)
    const crashed = Promise.withResolvers<void>()
    node.after = async () => {
      queueMicrotask(crashed.resolve)
      await crashing(app)()
    }
    const id = await session(user)
    await user.post(`/messages/${id}`, { message: 'Hello', stream: false }).catch(() => undefined)
    await crashed.promise
    expect(before - (await balance(address))).toBe(5_000)
    await app.again()
    await collectedOnce(user, address, before)
    expect(node.sent).toHaveLength(1)
  })

  test.each(['breaks off', 'hangs', 'brings half a message'])(
    'a connection that %s after the broadcast: the node is asked for the hash until it answers',
    async (what) => {
      const { node, relay, user, address } = await start()
      const before = await balance(address)
      node.after = async (answer) => {
        // The answer goes into a connection through which nothing comes any more, and which nobody ends.
        if (what === 'hangs') return relay.hang()
        if (what === 'brings half a message') return answer.subarray(0, answer.length / 2)
        throw new LedgerStatus(grpc.unavailable, 'gone')
      }
      await say(user)
      await collectedOnce(user, address, before)
      expect(node.sent).toHaveLength(1)
    },
    90_000,
  )

  test('what is put there in the last moment of a look is found by the next one', async () => {
    const db = withPaymentsTables(store.db)
    const entry = {
      ...{ id: randomUUID(), contract_id: 'none', did: 'did:x:late', claims: '[]', amount: 1 },
      ...{ status: 'signed' as const, bytes: '', tx_hash: 'ab', sequence: 0, reason: null },
      ...{ created_at: 0, changed_at: 0 },
    }
    let late: Promise<boolean> | undefined
    const { signal } = new AbortController()
    /** The first look is at its end when it gives its lease back. */
    const watched = new Proxy(db, {
      get: (target, name) => {
        if (name === 'updateTable')
          late ??= (async () => {
            await db.insertInto('payments_outbox').values(entry).execute()
            return outbox.drain(signal)
          })()
        const value = Reflect.get(target, name)
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
    const gone = () => Promise.reject(new Error('the ledger was asked'))
    const outbox: Outbox = new Outbox({
      ...{ db: watched, log: silent, ledger: gone, signer: gone, parties: gone },
      books: { now: () => new Date() } as Books,
    })
    expect(await outbox.drain(signal)).toBe(true)
    await expect(late).rejects.toThrow('the ledger was asked')
  })

  test('what is owed is asked for by nobody while it is collected', async () => {
    const { node, user, address } = await start()
    const before = await balance(address)
    const held = Promise.withResolvers<void>()
    const reached = Promise.withResolvers<void>()
    node.before = async () => {
      reached.resolve()
      await held.promise
    }
    await say(user)
    await reached.promise
    const prepared = await user.post('/payments/prepare', { address })
    expect(prepared).toMatchObject({ status: 503, body: { code: 'PAYMENT_PENDING' } })
    const [claim] = (await user.get('/payments/account')).body.claims
    expect((await user.post(`/payments/claims/${claim}/dispute`, { reason: 'No' })).status).toBe(
      503,
    )
    held.resolve()
    await collectedOnce(user, address, before)
  })

  test('the memo and the messages of a collection name the entry and the money, and nobody else', async () => {
    const { node, user, address, oracle } = await start()
    const before = await balance(address)
    await say(user)
    await collectedOnce(user, address, before)
    const request = new ProtoFields(Buffer.from(node.sent[0] ?? '', 'base64'))
    const { memo, messages } = readTx(request.bytes(1))
    expect(memo).toMatch(/^collect:[0-9a-f-]{36}$/)
    const [exec] = messages
    expect(exec?.typeUrl).toBe(types.exec)
    const { grantee, msgs } = readExec(exec?.value ?? new Uint8Array())
    expect(grantee).toBe(oracle)
    expect(msgs.map(({ value }) => readSend(value))).toEqual([
      {
        fromAddress: address,
        toAddress: oracle,
        amount: [{ denom: 'udev', amount: '5000' }],
      },
    ])
    expect(JSON.stringify([memo])).not.toContain(user.did)
  })

  test('a mnemonic and an address that do not fit are a fault that names both', async () => {
    const { oracle } = await start()
    const served = await serveLedger(new Node(chain))
    onTestFinished(() => served.close())
    const { address } = await chain.accountOf(`did:x:${randomUUID()}`)
    const app = await paidApp({
      where,
      env: {
        PAYMENTS_LEDGER: served.address,
        PAYMENTS_LEDGER_TLS: 'off',
        PAYMENTS_MNEMONIC: mnemonic,
        PAYMENTS_ADDRESS: address,
      },
    })
    await expect
      .poll(async () => (await app.get('/health')).body.plugins.payments, patient)
      .toBe('degraded')
    const sentence = `PAYMENTS_ADDRESS is ${address}, and the account of PAYMENTS_MNEMONIC is ${oracle}`
    await expect.poll(() => app.log.some((line) => line.includes(sentence)), patient).toBe(true)
    expect(app.log.some((line) => line.includes('abandon'))).toBe(false)
  })
})

/** The messages as the development ledger takes them. */
const revived = (
  messages: readonly {
    readonly value: {
      readonly grantee: string
      readonly msgs: readonly { readonly typeUrl: string; readonly value: { $bytes: string } }[]
    }
  }[],
) =>
  messages.map(({ value: { grantee, msgs } }) => {
    const inner = msgs.map(({ typeUrl, value }) => ({
      typeUrl,
      value: Buffer.from(value.$bytes, 'base64'),
    }))
    return { typeUrl: types.exec, value: writeExec({ grantee, msgs: inner }) }
  })

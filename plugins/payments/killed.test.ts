import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { type Caller, callerOf } from '../../test/support/caller.ts'
import { type Child, killChildren, startChild } from '../../test/support/child.ts'
import {
  type CollectingServerSettings,
  endMoments,
  usageOfStep,
} from '../../test/support/collecting-server.ts'
import { freshDatabase } from '../../test/support/database.ts'
import { at, faultsAt, noteSecrets, sentence } from '../../test/support/nothing-kept.ts'
import { describeWith } from '../../test/support/services.ts'
import { storeOf } from '../../test/support/store-of.ts'
import { DevelopmentLedger } from './development/ledger.ts'
import { createLedger } from './development/tables.ts'
import { serveLedger } from './fixtures/grpc-ledger.ts'
import { Ledger } from './ledger/ledger.ts'
import { readExec, readSend, types, writeExec } from './ledger/messages.ts'
import type { LedgerPort } from './ledger/port.ts'

afterEach(killChildren)

const patient = { timeout: 90_000, interval: 100 }
const env = {
  ORACLE_MNEMONIC: 'the words of the oracle whose processes are killed',
  PAYMENTS_MNEMONIC: 'legal winner thank year wave sausage worth useful legal winner thank yellow',
  PAYMENTS_TURN_PRICE: '5000',
  PAYMENTS_FIRST_CREDIT: '0',
}

noteSecrets(env)

/** Where the process of a test ends: what it has asked the node of the ledger last. */
const moments = {
  'before it has signed': 'cosmos.auth.v1beta1.Query/Account',
  'when it has signed, before the ledger has it': 'cosmos.tx.v1beta1.Service/BroadcastTx',
  'when the ledger has it, before that is noted': 'cosmos.tx.v1beta1.Service/BroadcastTx',
} as const
type Moment = keyof typeof moments

/** Which processes share a database, and where the second of them comes from. */
interface Place {
  readonly database: Pick<CollectingServerSettings, 'databaseUrl' | 'dataDir'>
  /** Whether the second process runs beside the first one, or begins when that one is dead. */
  readonly isBeside: boolean
}

let folder = ''
let store: Awaited<ReturnType<typeof storeOf>>
let chain: DevelopmentLedger
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'killed-'))
  store = await storeOf(folder, {})
  await store.migrate('payments', { '001': createLedger })
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

/** A process, and the node by which it alone asks the ledger. */
interface Server {
  readonly child: Child
  readonly url: string
}

/** What kills the first process that comes to a moment. */
class Trap {
  readonly moment: Moment | undefined
  readonly sprung = Promise.withResolvers<Server>()
  /** Read when a process waits for an answer that it will not live to see. Later another process may have sent what that one could not. */
  look: (() => Promise<bigint>) | undefined
  seen: bigint | undefined
  /** Each transaction that came to a node. */
  readonly sent: string[] = []
  /** The processes that ask the nodes. */
  readonly children: Child[] = []
  isSet = false

  constructor(moment?: Moment) {
    this.moment = moment
  }

  /** What the processes have printed. */
  get lines(): string[] {
    return this.children.flatMap(({ lines }) => lines)
  }

  /** A node of the ledger, for one process. */
  nodeFor(server: Promise<Server>): LedgerPort {
    return {
      unary: async (path, request) => {
        const isHere = () => this.isSet && this.moment && moments[this.moment] === path
        const isAfter = this.moment === 'when the ledger has it, before that is noted'
        if (isHere() && !isAfter) await this.#kill(await server)
        if (path === 'cosmos.tx.v1beta1.Service/BroadcastTx')
          this.sent.push(Buffer.from(request).toString('base64'))
        const answer = await chain.unary(path, request)
        if (isHere()) await this.#kill(await server)
        return answer
      },
      close: () => Promise.resolve(),
    }
  }

  async #kill(server: Server): Promise<never> {
    this.isSet = false
    this.seen = await this.look?.()
    await server.child.kill('SIGKILL')
    this.sprung.resolve(server)
    throw new Error('Whoever asked is dead.')
  }
}

async function started(
  trap: Trap,
  settings: Omit<CollectingServerSettings, 'ledger'>,
): Promise<Server> {
  const ready = Promise.withResolvers<Server>()
  const node = await serveLedger(trap.nodeFor(ready.promise))
  onTestFinished(() => node.close())
  const all = { ...settings, env: { ...env, ...settings.env }, ledger: node.address }
  const child = startChild('./collecting-server.ts', [JSON.stringify(all)])
  trap.children.push(child)
  const [url = ''] = await child.printed(1)
  const server = { child, url }
  ready.resolve(server)
  return server
}

/** Asks whichever process there is. */
async function ask(user: Caller, url: string, path: string, body?: unknown) {
  const answer = await fetch(url + path, {
    method: body === undefined ? 'GET' : 'POST',
    headers: { ...(await user.headers()), 'content-type': 'application/json' },
    body: body === undefined ? undefined : JSON.stringify(body),
  })
  // any: a test states what it expects of the value, and fails when the value is another
  return { status: answer.status, body: (await answer.json()) as any }
}

/** Grants the oracle on the ledger that it may collect. */
async function grant(
  url: string,
  user: Caller,
): Promise<{ readonly address: string; readonly oracle: string }> {
  const { address } = await chain.accountOf(user.did)
  const { granteeAddress: oracle } = (await ask(user, url, '/payments/authz.json')).body
  await chain.open(oracle)
  const wish = { address, maxAmount: '50000', agentQuota: 10, days: 7 }
  const { id, messages, memo } = (await ask(user, url, '/payments/contracts', wish)).body
  const [{ value }] = messages
  const msgs = value.msgs.map((one: { typeUrl: string; value: { $bytes: string } }) => ({
    typeUrl: one.typeUrl,
    value: Buffer.from(one.value.$bytes, 'base64'),
  }))
  const exec = { typeUrl: types.exec, value: writeExec({ grantee: value.grantee, msgs }) }
  const { hash } = await chain.transact(user.did, [exec], memo)
  // A process that has no time may not hear the node in time, and then asks to be asked again.
  const confirm = () => ask(user, url, `/payments/contracts/${id}/confirm`, { txHash: hash })
  await expect.poll(async () => (await confirm()).body, patient).toMatchObject({ status: 'active' })
  return { address, oracle }
}

/** Has the lease be over of whoever carries a turn. */
async function endLeases(database: Place['database']): Promise<void> {
  await at(database, async (db) => {
    await sql`update kernel_processes set alive_until = 0
      where owner in (select owner from kernel_runs where status = 'running')`.execute(db)
    await sql`update kernel_runs set lease_until = 0 where status = 'running'`.execute(db)
  })
}

function collects(placeOf: () => Promise<Place>, areAlone: boolean) {
  const names = Object.keys(moments) as Moment[]
  // Another replica may hear of the end first, or send, and then nobody dies there.
  test.for([...(areAlone ? endMoments : []), ...names])(
    'a process that dies %s: the turn is charged once, and its money moves once',
    { timeout: 180_000 },
    async (moment) => {
      const { database, isBeside } = await placeOf()
      const dies = endMoments.find((one) => one === moment)
      const trap = new Trap(names.find((one) => one === moment))
      const first = await started(trap, { ...database, dies })
      const beside = isBeside ? await started(trap, database) : undefined
      const user = await callerOf(first.url)
      const { address, oracle } = await grant(first.url, user)
      const balance = () => new Ledger(chain, 'dev-1').balance(address, 'udev')
      const before = await balance()
      const { sessionId } = (await ask(user, first.url, '/sessions', {})).body
      trap.look = balance
      trap.isSet = true
      const message = { message: sentence, stream: false }
      await ask(user, first.url, `/messages/${sessionId}`, message).catch(() => undefined)
      const dead = dies ? await first.child.ended().then(() => first) : await trap.sprung.promise
      expect(before - (dies ? await balance() : (trap.seen ?? 0n))).toBe(
        moment === 'when the ledger has it, before that is noted' ? 5_000n : 0n,
      )

      const isSecondDead = dead === beside
      const alive = isSecondDead ? first : (beside ?? (await started(trap, database)))
      const account = async () => (await ask(user, alive.url, '/payments/account')).body
      await expect
        .poll(
          async () => (await ask(user, alive.url, '/payments/claims?status=paid')).body.claims,
          patient,
        )
        .toMatchObject([{ status: 'paid', method: 'contract', amount: '5000' }])
      expect(before - (await balance())).toBe(5_000n)
      const collections = (await new Ledger(chain, 'dev-1').transfersTo(oracle))
        .flatMap(({ messages }) => messages.map(({ value }) => readExec(value)))
        .flatMap(({ msgs }) => msgs.map(({ value }) => readSend(value)))
      expect(collections.filter(({ fromAddress }) => fromAddress === address)).toHaveLength(1)
      expect(new Set(trap.sent).size).toBe(1)
      expect(await account()).toMatchObject({
        balance: '0',
        owed: '0',
        held: '0',
        contract: { left: { amount: '45000', quota: 9 } },
      })
      const { charges } = (await ask(user, alive.url, '/payments/charges')).body
      expect(charges).toMatchObject([{ status: 'paid', amount: '5000' }])
      expect(await faultsAt(database, trap.lines)).toEqual([])
    },
  )

  test('a process that dies in mid-answer: the turn is billed for the tokens of its journal, once', async () => {
    const { database, isBeside } = await placeOf()
    const more = {
      PAYMENTS_INPUT_PRICE: '1000',
      PAYMENTS_OUTPUT_PRICE: '1000',
      PAYMENTS_MAX_PER_TURN: '7000',
      PAYMENTS_FIRST_CREDIT: '7000',
    }
    const trap = new Trap()
    // However little time it has, nobody takes its turn over while it lives.
    const long = { ...more, RUN_LEASE_MS: '600000' }
    const first = await started(trap, { ...database, env: long, stands: true })
    const takesOver = { ...database, env: { ...more, TAKES_OVER: 'yes' } }
    const beside = isBeside ? await started(trap, takesOver) : undefined
    const user = await callerOf(first.url)
    const { sessionId } = (await ask(user, first.url, '/sessions', {})).body
    const message = { message: sentence, stream: false }
    const cut = ask(user, first.url, `/messages/${sessionId}`, message).catch(() => undefined)
    const said = async () =>
      JSON.stringify((await ask(user, first.url, `/messages/${sessionId}`)).body)
    await expect.poll(said, patient).toContain('Rung.')
    expect((await ask(user, first.url, '/payments/account')).body).toMatchObject({ held: '7000' })
    await first.child.kill('SIGKILL')
    await cut
    await endLeases(database)

    const alive = beside ?? (await started(trap, takesOver))
    const charges = async () => (await ask(user, alive.url, '/payments/charges')).body.charges
    await expect.poll(async () => (await charges())[0].status, patient).toBe('due')
    const { inputTokens, outputTokens } = usageOfStep
    const amount = String(5_000 + 2 * (inputTokens + outputTokens))
    const models = [{ inputTokens: 2 * inputTokens, outputTokens: 2 * outputTokens }]
    expect(await charges()).toMatchObject([
      { amount, lines: [{ what: 'turn' }, { what: 'tokens', models }] },
    ])
    expect((await ask(user, alive.url, '/payments/account')).body).toMatchObject({
      held: '0',
      owed: amount,
    })
    expect(await faultsAt(database, trap.lines)).toEqual([])
  }, 180_000)
}

describe('kill -9 of an app, on SQLite, restarted', () => {
  collects(async () => {
    const own = mkdtempSync(join(tmpdir(), 'killed-app-'))
    onTestFinished(() => rmSync(own, { recursive: true, force: true }))
    return { database: { dataDir: join(own, 'data') }, isBeside: false }
  }, true)
})
for (const isBeside of [false, true])
  await describeWith(
    'postgres',
    `kill -9 of an app, on PostgreSQL, ${isBeside ? 'beside another replica' : 'restarted'}`,
    (url) => {
      collects(async () => {
        const database = await freshDatabase(url)
        onTestFinished(() => database.drop())
        return { database: { databaseUrl: database.url }, isBeside }
      }, !isBeside)
    },
  )

import { randomUUID } from 'node:crypto'
import { AddressHashes } from '../../plugins/payments/accounts/addresses.ts'
import { BegunCharges } from '../../plugins/payments/accounts/begun-charges.ts'
import { Gate } from '../../plugins/payments/accounts/gate.ts'
import { Statements } from '../../plugins/payments/accounts/statements.ts'
import { createContracts } from '../../plugins/payments/contracts/tables.ts'
import {
  createAccounts,
  createPayments,
  withPaymentsTables,
} from '../../plugins/payments/tables.ts'
import { type Terms } from '../../plugins/payments/terms/terms.ts'
import { definePlugin } from '../../core/plugin.ts'
import { openDataDir } from '../../core/runtime/store/data-dir.ts'
import type { Store } from '../../core/runtime/store/store.ts'
import type { RunMoment } from '../../core/runtime/turns/carry/carried-run.ts'
import type { Engine } from '../../core/runtime/turns/run.ts'
import { askedGates } from './asked-gates.ts'
import { dieAt } from './die-at.ts'
import { type Replica, type ReplicaOptions, startServer } from './server.ts'

/** Where the database of a process is that dies, and of the one that follows. */
export type ChargingPlace = Pick<ReplicaOptions, 'databaseUrl' | 'dataDir'>

/** What a server whose turns cost something is told on its command line. */
export interface ChargingServerSettings extends ChargingPlace {
  readonly leaseMs: number
  /** Where the process ends itself, and when it comes there for which time. */
  readonly dies?: RunMoment
  readonly nth?: number
}

/** A turn costs 5,000, and one for each token. */
const terms: Terms = {
  coin: { denom: 'udev', symbol: 'DEV', decimals: 6 },
  turn: 5_000,
  input: 1_000,
  output: 1_000,
  tokens: [],
  tools: {},
  maximum: 6_000,
  credit: 12_000,
  firstCredit: 12_000,
  freeTurns: 0,
  advance: 60_000,
  isPriced: true,
}

/** What a turn of `steppingEngine` costs. */
export const costOfTurn = 5_000 + 30 + 8

/** Says something in two steps, and says nothing again that its journal has. */
const steppingEngine: Engine = async (run) => {
  const { length } = run.takenOver ? await run.journal.read() : []
  for (const [i, [inputTokens, outputTokens]] of [
    [10, 3],
    [20, 5],
  ].entries()) {
    if (i < length) continue
    const content = `Step ${i}. `
    run.emit('message', { content })
    const usage = { model: 'test/model', inputTokens: inputTokens!, outputTokens: outputTokens! }
    const message = { role: 'assistant', id: randomUUID(), content, usage } as const
    await run.journal.append({ messages: [message] }, 'now')
    await run.journal.flush()
  }
  return { status: 'finished' }
}

/** A server without plugins but for the gate of payments, which sees every moment of a run. */
export async function chargingServer(options: Partial<ReplicaOptions>): Promise<Replica> {
  const opened = Promise.withResolvers<Gate>()
  const gatekeeper = definePlugin({
    name: 'gatekeeper',
    summary: 'Is the gate of payments.',
    runs: {
      admit: async (run) => (await opened.promise).admit(run),
      begin: async (run, { db }) => (await opened.promise).begin(run, withPaymentsTables(db)),
      end: async (run, { db }) => (await opened.promise).end(run, withPaymentsTables(db)),
    },
  })
  const started = await startServer({
    engine: steppingEngine,
    gates: askedGates([gatekeeper], 10_000),
    ...options,
  })
  const db = withPaymentsTables(started.store.db)
  const hashes = new AddressHashes(db)
  const books = {
    terms,
    statements: new Statements(db, terms),
    begun: new BegunCharges(),
    now: () => new Date(),
    hashOf: (address: string) => hashes.of(address),
    send: async () => undefined,
  }
  const ways = async () => ({ look: async () => undefined, methods: ['transfer'] })
  // Ends that a process before this one left are told at once, and their transaction would keep the migrations waiting.
  opened.resolve(new Gate(db, books, ways))
  await migratePayments(started.store)
  return started
}

const migratePayments = (store: Store): Promise<unknown> =>
  store.migrate('payments', {
    '001-accounts': createAccounts,
    '002-payments': createPayments,
    '004-contracts': createContracts,
  })

if (process.argv[1] === import.meta.filename) {
  const settings = JSON.parse(process.argv[2] ?? '{}') as ChargingServerSettings
  const { databaseUrl, dataDir, leaseMs, dies, nth } = settings
  const { url } = await chargingServer({
    databaseUrl,
    dataDir: typeof dataDir === 'string' ? await openDataDir(dataDir) : undefined,
    leaseMs,
    at: dies && dieAt(dies, nth),
  })
  console.log(url)
}

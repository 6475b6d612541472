import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, onTestFinished, test } from 'vitest'
import {
  chargingServer,
  type ChargingPlace,
  type ChargingServerSettings,
  costOfTurn,
} from '../../test/support/charging-server.ts'
import { killChildren, startChild } from '../../test/support/child.ts'
import { freshDatabase } from '../../test/support/database.ts'
import { look, sentence } from '../../test/support/nothing-kept.ts'
import { type Replica, someone } from '../../test/support/server.ts'
import { describeWith } from '../../test/support/services.ts'
import { withPaymentsTables } from './tables.ts'

afterEach(killChildren)

const moments: readonly NonNullable<ChargingServerSettings['dies']>[] = [
  'before the run is recorded',
  'after the run is recorded',
  'before a step is kept',
  'after a step is kept',
  'before the end is kept',
  'after the end is kept',
  'before the end is settled',
  'while the end is settled',
  'after the end is settled',
]

const rowsOf = async ({ store }: Replica) => {
  const db = withPaymentsTables(store.db)
  const [account] = await db.selectFrom('payments_accounts').selectAll().execute()
  const charges = await db.selectFrom('payments_charges').selectAll().execute()
  const claims = await db.selectFrom('payments_claims').selectAll().execute()
  return { account, charges, claims }
}

function killed(placeOf: () => Promise<ChargingPlace>, isBeside = false) {
  const steps = moments.flatMap((dies) =>
    // The answer has two steps: a process may die over the second one, when the first is in the journal.
    dies.endsWith('a step is kept')
      ? ([
          [dies, 1],
          [dies, 2],
        ] as const)
      : ([[dies, 1]] as const),
  )
  test.for(steps)('a turn is charged once when the process dies %s (%i)', async ([dies, nth]) => {
    const place = await placeOf()
    const settings: ChargingServerSettings = { ...place, leaseMs: 700, dies, nth }
    // The first process makes the tables, and then another replica may run beside it.
    const child = startChild('./charging-server.ts', [JSON.stringify(settings)])
    const [url = ''] = await child.printed(1)
    const beside = isBeside ? await chargingServer({ ...place, leaseMs: 700 }) : undefined
    const headers = { Authorization: `Bearer ${someone}`, 'Content-Type': 'application/json' }
    const made = await fetch(`${url}/sessions`, { method: 'POST', headers })
    const { sessionId } = (await made.json()) as { sessionId: string }
    const message = { message: sentence, requestId: randomUUID(), stream: false }
    // The answer breaks off with the process.
    await fetch(`${url}/messages/${sessionId}`, {
      method: 'POST',
      headers,
      body: JSON.stringify(message),
    })
      .then((response) => response.text())
      .catch(() => undefined)
    await child.ended()

    const next = beside ?? (await chargingServer({ ...place, leaseMs: 700 }))
    onTestFinished(() => next.close())
    // Nothing stands of a turn that was not recorded; the same message begins it, once.
    if (dies === 'before the run is recorded') {
      const { account, charges } = await rowsOf(next)
      expect(charges).toEqual([])
      expect(account).toMatchObject({ held: 0, owed: 0 })
    }
    expect((await next.call('POST', `/messages/${sessionId}`, message)).status).toBe(200)
    await expect
      .poll(async () => (await rowsOf(next)).charges.map(({ status }) => status), {
        timeout: 30_000,
      })
      .toEqual(['due'])
    const { account, charges, claims } = await rowsOf(next)
    expect(charges).toMatchObject([{ amount: costOfTurn, session_id: sessionId }])
    expect(account).toMatchObject({ held: 0, owed: costOfTurn, balance: 0 })
    expect(claims).toMatchObject([{ amount: costOfTurn, status: 'open' }])
    expect((await look(next.store.db)).faults).toEqual([])
  })
}

describe('kill -9, on SQLite', () => {
  killed(async () => {
    const folder = mkdtempSync(join(tmpdir(), 'charging-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    return { dataDir: join(folder, 'data') }
  })
})
for (const isBeside of [false, true])
  await describeWith(
    'postgres',
    `kill -9, on PostgreSQL, ${isBeside ? 'beside another replica' : 'restarted'}`,
    (url) => {
      killed(async () => {
        const database = await freshDatabase(url)
        onTestFinished(() => database.drop())
        return { databaseUrl: database.url }
      }, isBeside)
    },
  )

import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterEach, describe, expect, onTestFinished, test } from 'vitest'
import type { RunMoment } from '../../core/runtime/turns/carry/carried-run.ts'
import { RunGates } from '../../core/runtime/turns/gates/gates.ts'
import { purgeRuns } from '../../core/runtime/turns/journal/retention.ts'
import { forgetOrphans } from '../../core/runtime/turns/gates/marks.ts'
import { RunStore } from '../../core/runtime/turns/journal/store.ts'
import type { Engine } from '../../core/runtime/turns/run.ts'
import { killChildren, startChild } from '../support/child.ts'
import { freshDatabase } from '../support/database.ts'
import { onEachDatabase, onPostgres } from '../support/each-database.ts'
import { countedEngine, endGates, endsIn, makeEndTable } from '../support/ends.ts'
import { type Replica, type ReplicaOptions, replica, someone } from '../support/replica.ts'
import { describeWith } from '../support/services.ts'
import type { SettlingServerSettings } from '../support/settling-server.ts'

afterEach(killChildren)

/** Says a word and goes on until somebody ends the run. */
const endless: Engine = (run) => {
  run.emit('message', { content: 'Still ' })
  return new Promise((_, reject) =>
    run.signal.addEventListener('abort', () => reject(run.signal.reason)),
  )
}

/** A server that writes ends down. */
async function server(options: Partial<ReplicaOptions> = {}): Promise<Replica> {
  const started = await replica({
    engine: countedEngine,
    gates: endGates(),
    leaseMs: 1_000,
    ...options,
  })
  await makeEndTable(started.store)
  return started
}

const ask = async ({ call }: Replica, sessionId: string) =>
  (
    await call('POST', `/messages/${sessionId}`, {
      message: 'Is it?',
      stream: false,
      requestId: randomUUID(),
    })
  ).body

const told = ({ store }: Replica) => endsIn(store.db)

const unsettled = async ({ store }: Replica): Promise<number> => {
  const { rows } = await sql<{ n: number }>`select count(*) as n from kernel_unsettled`.execute(
    store.db,
  )
  return Number(rows[0]!.n)
}

const moments: readonly RunMoment[] = [
  'after the run is recorded',
  'before a step is kept',
  'before the end is kept',
  'after the end is kept',
  'before the end is settled',
  'while the end is settled',
  'after the end is settled',
]

/** Places for the database of a process that dies and of the one that follows. */
type Place = Pick<SettlingServerSettings, 'databaseUrl' | 'dataDir'>

function killed(placeOf: () => Promise<Place>) {
  test.for(moments)('an end is told once when the process dies %s', async (dies) => {
    const place = await placeOf()
    const settings: SettlingServerSettings = { ...place, leaseMs: 1_000, dies }
    const child = startChild('./settling-server.ts', [JSON.stringify(settings)])
    const [url = ''] = await child.printed(1)
    const headers = { Authorization: `Bearer ${someone}`, 'Content-Type': 'application/json' }
    const made = await fetch(`${url}/sessions`, { method: 'POST', headers })
    const { sessionId } = (await made.json()) as { sessionId: string }
    const body = JSON.stringify({ message: 'Is it?', requestId: randomUUID() })
    // The answer breaks off with the process.
    await fetch(`${url}/messages/${sessionId}`, { method: 'POST', headers, body })
      .then((response) => response.text())
      .catch(() => undefined)
    await child.ended()

    const next = await server(place)
    await expect.poll(() => unsettled(next), { timeout: 20_000 }).toBe(0)
    const ends = await told(next)
    expect(ends).toHaveLength(1)
    expect(ends[0]).toMatchObject({ sessionId, did: someone, status: 'finished', said: true })
    expect(ends[0]).toMatchObject({
      usage: [{ model: 'test/model', inputTokens: 10, outputTokens: 3 }],
      reply: 'It is done.',
    })
  })
}

describe('the end of a run, on SQLite', () => {
  killed(async () => {
    const folder = mkdtempSync(join(tmpdir(), 'settling-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    return { dataDir: join(folder, 'data') }
  })
})
await describeWith('postgres', 'the end of a run, on PostgreSQL', (url) => {
  killed(async () => {
    const database = await freshDatabase(url)
    onTestFinished(() => database.drop())
    return { databaseUrl: database.url }
  })
})

await onPostgres('two replicas', (where) => {
  test('tell an end once, whoever hears of it', async () => {
    const one = await server(where)
    const two = await server(where)
    const sessionIds = await Promise.all(Array.from({ length: 20 }, () => one.session()))
    await Promise.all(sessionIds.map((id, i) => ask(i % 2 ? one : two, id)))
    await expect.poll(() => unsettled(one), { timeout: 20_000 }).toBe(0)
    const ends = (await told(two)).filter((end) => sessionIds.includes(end.sessionId))
    expect(ends.map(({ sessionId }) => sessionId).sort()).toEqual([...sessionIds].sort())
  })

  test('settle for each other: one goes on with the run of the other, and tells its end', async () => {
    const one = await server({ ...where, engine: endless })
    const sessionId = await one.session()
    const stream = await one.stream(`/messages/${sessionId}`, {
      message: 'Go on',
      requestId: randomUUID(),
    })
    await stream.next()
    const two = await server(where)
    await one.close()
    await expect
      .poll(async () => (await told(two)).filter((end) => end.sessionId === sessionId), {
        timeout: 20_000,
      })
      .toMatchObject([{ status: 'finished', said: true }])
  })
})

await onEachDatabase('an end that nobody has heard of yet', (where) => {
  /** A replica whose consumer fails for as long as the test wants. */
  async function failing() {
    let isFailing = true
    const gates = new RunGates({ records: [] })
    gates.onEnd('test', {
      wants: () => true,
      async end(run, trx) {
        if (isFailing) throw new Error('not now')
        await sql`insert into kernel_test_ends values (${run.runId}, ${JSON.stringify(run)})`.execute(
          trx,
        )
      },
    })
    const started = await server({ ...where, gates })
    return { started, heal: () => void (isFailing = false) }
  }

  test('keeps its run from being purged, and no longer', async () => {
    const { started, heal } = await failing()
    const { store } = started
    const sessionId = await started.session()
    await ask(started, sessionId)
    const runs = new RunStore({ store, owner: randomUUID(), leaseMs: 1_000 })
    const purge = async () => {
      await sql`update kernel_runs set ended_at = 1 where session_id = ${sessionId}`.execute(
        store.db,
      )
      return purgeRuns(runs, 1)
    }
    expect(await purge()).toBe(0)
    expect(await unsettled(started)).toBeGreaterThan(0)
    heal()
    await expect
      .poll(async () => (await told(started)).filter((end) => end.sessionId === sessionId), {
        timeout: 20_000,
      })
      .toMatchObject([{ status: 'finished', said: true }])
    expect(await purge()).toBe(1)
  })

  test('is kept for a consumer that the app does not have, and forgotten after 30 days', async () => {
    const { started } = await failing()
    const sessionId = await started.session()
    await ask(started, sessionId)
    const mine = async () =>
      (
        await sql<{ consumer: string }>`select consumer from kernel_unsettled
          where session_id = ${sessionId}`.execute(started.store.db)
      ).rows
    const runs = new RunStore({ store: started.store, owner: randomUUID(), leaseMs: 1_000 })
    await forgetOrphans(runs, [])
    expect(await mine()).toHaveLength(1)
    await sql`update kernel_unsettled set created_at = 1 where session_id = ${sessionId}`.execute(
      started.store.db,
    )
    await forgetOrphans(runs, ['kernel:test'])
    expect(await mine()).toHaveLength(1)
    await forgetOrphans(runs, ['other'])
    expect(await mine()).toHaveLength(0)
  })

  test('costs nothing where nobody wants to hear of ends', async () => {
    const quiet = await server({ ...where, gates: new RunGates({ records: [] }) })
    const before = await unsettled(quiet)
    const some = new RunGates({ records: [] })
    some.onEnd('test', { wants: ({ origin }) => origin !== undefined, end: async () => {} })
    const picky = where.databaseUrl ? await server({ ...where, gates: some }) : quiet
    for (const each of [quiet, picky]) await ask(each, await each.session())
    expect(await unsettled(quiet)).toBe(before)
  })
})

await onEachDatabase('a run that nobody could carry to its end', (where) => {
  test.for([
    ['given up after too many takeovers', sql`attempts = 9`, 'interrupted'],
    ['quarantined', sql`deaths = 2`, 'failed'],
  ] as const)('is told of when it was %s', async ([, state, status]) => {
    const folder = mkdtempSync(join(tmpdir(), 'settling-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const place = where.databaseUrl ? where : { dataDir: join(folder, 'data') }
    // This one lets go of a run without saying a word, so that what is said comes from the kernel alone.
    const silent: Engine = (run) =>
      new Promise((_, reject) =>
        run.signal.addEventListener('abort', () => reject(run.signal.reason)),
      )
    const one = await server({ ...place, engine: silent })
    const sessionId = await one.session()
    const { runId } = await one.runs.send({
      user: { did: someone, can: () => true, denial: () => [] },
      sessionId,
      request: { message: 'Go on' },
    })
    await sql`update kernel_runs set ${state} where id = ${runId}`.execute(one.store.db)
    await one.close()
    const two = await server(place)
    await expect
      .poll(async () => (await told(two)).filter((end) => end.sessionId === sessionId), {
        timeout: 20_000,
      })
      .toMatchObject([{ runId, status, cause: 'given-up', said: false, usage: [], tools: [] }])
  })
})

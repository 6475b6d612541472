import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { expect, onTestFinished, test } from 'vitest'
import { flakyWire, freshDatabase } from '../support/database.ts'
import { onEachDatabase } from '../support/each-database.ts'
import { sayingEngine, toolEngine } from '../support/fake-engines.ts'
import { type Replica, replica, type ReplicaOptions } from '../support/replica.ts'
import { describeWith } from '../support/services.ts'

await describeWith('postgres', 'a run whose database goes away, with a fake engine', (postgres) => {
  async function database() {
    const { url, drop } = await freshDatabase(postgres)
    onTestFinished(() => drop())
    const wire = await flakyWire(url)
    onTestFinished(() => wire.close())
    return { url, wire }
  }

  test('goes on by itself when the database is back within the lease', async () => {
    const { wire } = await database()
    const words = Array.from({ length: 60 }, (_, i) => `${i} `)
    const here = await replica({
      engine: sayingEngine(words, 20),
      databaseUrl: wire.url,
      leaseMs: 30_000,
    })
    const sessionId = await here.session()
    const turn = await here.stream(`/messages/${sessionId}`, { message: 'Count' })
    const seen = await turn.until(({ data }) => data.content === '3 ')
    await wire.cut()
    // What is said meanwhile reaches whoever listens.
    seen.push(...(await turn.until(({ data }) => data.content === '20 ')))
    await wire.restore()
    seen.push(...(await turn.rest()))
    expect(seen.map(({ id }) => id)).toEqual(seen.map((_, i) => i + 1))
    expect(seen.filter(({ event }) => event === 'message').map(({ data }) => data.content)).toEqual(
      words,
    )
    expect(seen.at(-1)?.data.status).toBe('finished')
    const { messages } = (await here.call('GET', `/messages/${sessionId}`)).body
    expect(messages[1].content).toBe(words.join(''))
  })

  test('is taken over by another replica when the lease is over, and never fails for that', async () => {
    const { url, wire } = await database()
    const words = Array.from({ length: 40 }, (_, i) => `${i} `)
    const options = { engine: sayingEngine(words, 25), leaseMs: 800 }
    const here = await replica({ ...options, databaseUrl: wire.url })
    const there = await replica({ ...options, databaseUrl: url })
    const sessionId = await here.session()
    const turn = await here.stream(`/messages/${sessionId}`, { message: 'Count' })
    await turn.until(({ data }) => data.content === '3 ')
    const other = await there.stream(`/runs/${turn.headers.get('x-run-id')}`)
    wire.silence()
    const events = await other.rest()
    expect(events.filter(({ data }) => data.resumed)).toHaveLength(1)
    expect(events.at(-1)?.data.status).toBe('finished')
    const { messages } = (await there.call('GET', `/messages/${sessionId}`)).body
    expect(messages).toHaveLength(2)
    expect(messages[1]).toMatchObject({ content: words.join(''), isComplete: true })
    turn.cut()
    await wire.cut()
  })
})

/** The tables that these tests look into or age. */
type Tables = {
  kernel_runs: { id: string; ended_at: number }
  kernel_run_events: { run_id: string }
}
const tablesOf = ({ store }: Replica) => store.db.withTables<Tables>()

/** Makes a run older by two hours. */
const age = async (here: Replica, runId: string) => {
  await tablesOf(here)
    .updateTable('kernel_runs')
    .set({ ended_at: sql<number>`ended_at - ${3_600_000 * 2}` })
    .where('id', '=', runId)
    .execute()
}

await onEachDatabase('runs that are old, with a fake engine', ({ databaseUrl }) => {
  /** Servers that come one after the other to the same database, and delete at their start what is older than an hour. */
  async function world(engine: ReplicaOptions['engine']) {
    const folder = mkdtempSync(join(tmpdir(), 'old-runs-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    let last: Replica | undefined
    return async () => {
      await last?.close()
      const where = databaseUrl ? { databaseUrl } : { dataDir: join(folder, 'data') }
      return (last = await replica({ engine, retentionHours: 1, ...where }))
    }
  }
  /** How many runs the server has deleted at its start, once it has. */
  const deleted = async ({ logged }: Replica) => {
    const told = () => logged.find(({ message }) => message === 'Events of old runs were deleted')
    await expect.poll(told).toBeDefined()
    return told()?.fields.runs
  }

  test('lose their events and keep their transcript; who asks is told that they are gone', async () => {
    const start = await world(toolEngine(0))
    const first = await start()
    const sessionId = await first.session()
    const ask = async () => {
      const turn = await first.stream(`/messages/${sessionId}`, { message: 'Look it up' })
      await turn.rest()
      return turn.headers.get('x-run-id') ?? ''
    }
    const old = await ask()
    await age(first, old)
    const young = await ask()
    const before = (await first.call('GET', `/messages/${sessionId}`)).body

    const second = await start()
    expect(await deleted(second)).toBe(1)
    const gone = await second.call('GET', `/runs/${old}`)
    expect([gone.status, gone.body.code]).toEqual([410, 'GONE'])
    expect((await (await second.stream(`/runs/${young}`)).rest()).at(-1)?.data.status).toBe(
      'finished',
    )
    expect((await second.call('GET', `/messages/${sessionId}`)).body).toEqual(before)
    const events = await tablesOf(second).selectFrom('kernel_run_events').select('run_id').execute()
    expect(events.some(({ run_id }) => run_id === old)).toBe(false)

    // The one that is old now is deleted, and the one that is deleted already does not count again.
    await age(second, young)
    expect(await deleted(await start())).toBe(1)
  })

  test('that still wait for a person are kept', async () => {
    const start = await world(async ({ request }) =>
      request.message === 'Ask me' ? { status: 'waiting' } : { status: 'finished' },
    )
    const first = await start()
    const say = async (message: string) => {
      const turn = await first.stream(`/messages/${await first.session()}`, { message })
      await turn.rest()
      return turn.headers.get('x-run-id')
    }
    const waiting = await say('Ask me')
    await say('Hello')
    await tablesOf(first).updateTable('kernel_runs').set({ ended_at: 0 }).execute()
    const second = await start()
    expect(await deleted(second)).toBe(1)
    const path = `/runs/${waiting}/resume`
    expect((await second.stream(path, { decision: 'approve' })).status).toBe(200)
  })
})

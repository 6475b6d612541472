import { sql } from 'kysely'
import { expect, onTestFinished, test } from 'vitest'
import { purgeRuns } from '../../core/runtime/turns/journal/retention.ts'
import { RunStore } from '../../core/runtime/turns/journal/store.ts'
import { withRunTables } from '../../core/runtime/turns/journal/tables.ts'
import { flakyWire, freshDatabase } from '../support/database.ts'
import { onEachDatabase } from '../support/each-database.ts'
import { sayingEngine, toolEngine } from '../support/fake-engines.ts'
import { replica } from '../support/replica.ts'
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

await onEachDatabase('runs that are old, with a fake engine', (where) => {
  test('lose their events and keep their transcript; who asks is told that they are gone', async () => {
    const here = await replica({ engine: toolEngine(0), ...where })
    const sessionId = await here.session()
    const ask = async () => {
      const turn = await here.stream(`/messages/${sessionId}`, { message: 'Look it up' })
      await turn.rest()
      return turn.headers.get('x-run-id')
    }
    const old = await ask()
    const db = withRunTables(here.store.db)
    await db
      .updateTable('kernel_runs')
      .set({ ended_at: sql<number>`ended_at - ${3_600_000 * 2}` })
      .execute()
    const young = await ask()
    const store = new RunStore({ store: here.store, owner: 'the sweep', leaseMs: 1_000 })
    const before = (await here.call('GET', `/messages/${sessionId}`)).body
    expect(await purgeRuns(store, 1)).toBe(1)
    expect(await purgeRuns(store, 1)).toBe(0)
    const gone = await here.call('GET', `/runs/${old}`)
    expect([gone.status, gone.body.code]).toEqual([410, 'GONE'])
    expect((await (await here.stream(`/runs/${young}`)).rest()).at(-1)?.data.status).toBe(
      'finished',
    )
    expect((await here.call('GET', `/messages/${sessionId}`)).body).toEqual(before)
    const events = await db.selectFrom('kernel_run_events').select('run_id').execute()
    expect(events.some(({ run_id }) => run_id === old)).toBe(false)
  })

  test('that still wait for a person are kept', async () => {
    const here = await replica({ engine: async () => ({ status: 'waiting' }), ...where })
    const turn = await here.stream(`/messages/${await here.session()}`, { message: 'Ask me' })
    await turn.rest()
    const db = withRunTables(here.store.db)
    await db.updateTable('kernel_runs').set({ ended_at: 0 }).execute()
    const store = new RunStore({ store: here.store, owner: 'the sweep', leaseMs: 1_000 })
    await purgeRuns(store, 1)
    const path = `/runs/${turn.headers.get('x-run-id')}/resume`
    expect((await here.stream(path, { decision: 'approve' })).status).toBe(200)
  })
})

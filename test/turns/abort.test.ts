import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { Engine } from '../../core/runtime/turns/run.ts'
import { withRunTables } from '../../core/runtime/turns/journal/tables.ts'
import { askingEngine } from '../support/asking-engines.ts'
import { onEachDatabase, onPostgres } from '../support/each-database.ts'
import { endGates, endsIn, makeEndTable } from '../support/ends.ts'
import type { Seen } from '../support/event-stream.ts'
import { deafEngine, sayingEngine, talkingEngine } from '../support/fake-engines.ts'
import { type Replica, replica, someone } from '../support/replica.ts'

const isMessage = ({ event }: Seen) => event === 'message'
const patient = { timeout: 20_000 }

/** The engine that asks before it pays, and which asks no sooner than the test lets it. A fake. */
function heldAsker() {
  const asks = Promise.withResolvers<void>()
  const mayEnd = Promise.withResolvers<void>()
  const engine: Engine = async (run) => {
    const end = await askingEngine(run)
    if (run.request.message !== 'Pay') return end
    asks.resolve()
    await mayEnd.promise
    return end
  }
  return { engine, asks: asks.promise, letEnd: mayEnd.resolve }
}

/** What must hold when a stop came before the run waited for a person, as far as the database knows. */
async function isStoppedForGood(here: Replica, sessionId: string, seen: readonly Seen[]) {
  const runId = seen[0]?.data.runId
  expect(seen.filter(({ event }) => event === 'interrupt' || event === 'done')).toMatchObject([
    { event: 'done', data: { status: 'aborted' } },
  ])
  const ids = seen.map(({ id }) => id ?? 0)
  expect(ids).toEqual(ids.toSorted((a, b) => a - b))
  expect((await (await here.stream(`/runs/${runId}`)).rest()).at(-1)?.data.status).toBe('aborted')
  expect((await here.call('GET', `/sessions/${sessionId}/run`)).body.run).toBe(null)
  const decided = await here.call('POST', `/runs/${runId}/resume`, { decision: 'approve' })
  expect(decided.status).toBe(409)
  const told = async () => (await endsIn(here.store.db)).filter((end) => end.runId === runId)
  await expect.poll(async () => (await told()).length, patient).toBeGreaterThan(0)
  expect(await told()).toMatchObject([{ status: 'aborted', cause: 'stopped' }])
  const steps = await withRunTables(here.store.db)
    .selectFrom('kernel_steps')
    .select(['kind', 'body'])
    .where('session_id', '=', sessionId)
    .where('kind', '<>', 'note')
    .orderBy('position')
    .execute()
  expect(steps.map(({ kind }) => kind)).toEqual(['user', 'assistant', 'tool'])
  expect(JSON.parse(steps[2]?.body ?? '').content).toMatch(/^Nobody approved this/)
  const next = await here.stream(`/messages/${sessionId}`, { message: 'thanks' })
  expect((await next.rest()).at(-1)?.data.status).toBe('finished')
}

await onEachDatabase('a stop, with a fake engine', (where) => {
  test('is answered before the stream ends, and reaches the engine before it is answered', async () => {
    const order: string[] = []
    const here = await replica({ engine: talkingEngine(() => order.push('signal')), ...where })
    const sessionId = await here.session()
    const turn = await here.stream(`/messages/${sessionId}`, { message: 'Talk' })
    await turn.until(isMessage)
    const ended = turn.rest().then((events) => (order.push('end'), events))
    const { status, body } = await here.call('POST', '/messages/abort', { sessionId })
    order.push('answer')
    expect({ status, body }).toEqual({ status: 200, body: { success: true } })
    const events = await ended
    expect(order).toEqual(['signal', 'answer', 'end'])
    expect(events.at(-1)).toMatchObject({ event: 'done', data: { status: 'aborted' } })
  })

  test('keeps what was said in the transcript, marked', async () => {
    const here = await replica({ engine: talkingEngine(), ...where })
    const sessionId = await here.session()
    const turn = await here.stream(`/messages/${sessionId}`, { message: 'Talk' })
    const before = await turn.until(isMessage)
    await here.call('POST', '/messages/abort', { sessionId })
    const events = [...before, ...(await turn.rest())]
    const said = events.filter(isMessage).map(({ data }) => data.content)
    const { body } = await here.call('GET', `/messages/${sessionId}`)
    expect(body.messages).toMatchObject([
      { type: 'human', content: 'Talk', isComplete: true },
      { type: 'ai', content: said.join(''), isComplete: false },
    ])
  })

  test('works on a stream that was resumed, and through another connection than the one that reads', async () => {
    const here = await replica({ engine: talkingEngine(), ...where })
    const sessionId = await here.session()
    const turn = await here.stream(`/messages/${sessionId}`, { message: 'Talk' })
    const [run] = await turn.until(isMessage)
    turn.cut()
    const resumed = await here.stream(`/runs/${run?.data.runId}`)
    await resumed.until(isMessage)
    const requestId = run?.data.requestId
    expect(
      (await here.call('POST', '/messages/abort', { sessionId, requestId })).body.success,
    ).toBe(true)
    expect((await resumed.rest()).at(-1)?.data.status).toBe('aborted')
  })

  test('counts when it comes before its message', async () => {
    let carried = 0
    const here = await replica({
      engine: (run) => (carried++, sayingEngine(['Hello.'])(run)),
      ...where,
    })
    const sessionId = await here.session()
    const requestId = randomUUID()
    const stop = await here.call('POST', '/messages/abort', { sessionId, requestId })
    expect(stop.body).toEqual({ success: true })
    const turn = await here.stream(`/messages/${sessionId}`, { message: 'Talk', requestId })
    expect((await turn.rest()).map(({ event, data }) => data.status ?? event)).toEqual([
      'run',
      'aborted',
    ])
    expect(carried).toBe(0)
    // It was for that message alone.
    const next = await here.stream(`/messages/${sessionId}`, { message: 'Talk' })
    expect((await next.rest()).at(-1)?.data.status).toBe('finished')
  })

  test('counts in the very moment in which its message arrives', async () => {
    const here = await replica({ engine: talkingEngine(), ...where })
    const sessionId = await here.session()
    for (let i = 0; i < 10; i++) {
      const requestId = randomUUID()
      const [turn, stop] = await Promise.all([
        here.stream(`/messages/${sessionId}`, { message: 'Talk', requestId }),
        here.call('POST', '/messages/abort', { sessionId, requestId }),
      ])
      expect(stop.body.success).toBe(true)
      expect((await turn.rest()).at(-1)?.data.status).toBe('aborted')
    }
  })

  test('of another request, another user or an idle session ends nothing', async () => {
    const here = await replica({ engine: talkingEngine(), ...where })
    const sessionId = await here.session()
    const stop = (body: object, did?: string) => here.call('POST', '/messages/abort', body, did)
    expect((await stop({ sessionId })).body).toEqual({ success: false })
    const turn = await here.stream(`/messages/${sessionId}`, { message: 'Talk' })
    await turn.until(isMessage)
    expect((await stop({ sessionId }, 'did:key:zOther')).status).toBe(404)
    await stop({ sessionId, requestId: randomUUID() })
    await turn.until(isMessage)
    expect((await stop({ sessionId })).body).toEqual({ success: true })
    expect((await turn.rest()).at(-1)?.data.status).toBe('aborted')
    expect((await stop({ sessionId: randomUUID() })).status).toBe(404)
    expect((await stop({})).status).toBe(400)
  })

  test('ends a run whose engine does not listen, and keeps what it said', async () => {
    const here = await replica({ engine: deafEngine, ...where })
    const sessionId = await here.session()
    const turn = await here.stream(`/messages/${sessionId}`, { message: 'Talk' })
    await turn.until(isMessage)
    await here.call('POST', '/messages/abort', { sessionId })
    expect((await turn.rest()).at(-1)?.data.status).toBe('aborted')
    const { body } = await here.call('GET', `/messages/${sessionId}`)
    expect(body.messages[1]).toMatchObject({ content: 'I never stop.', isComplete: false })
  })
})

await onEachDatabase('a stop of which only the database knows', (where) => {
  test('wins over a question that nobody was asked yet', async () => {
    const { engine, asks, letEnd } = heldAsker()
    const here = await replica({ engine, gates: endGates(), ...where })
    await makeEndTable(here.store)
    const sessionId = await here.session()
    const turn = await here.stream(`/messages/${sessionId}`, { message: 'Pay' })
    await asks
    // As another replica does whose notification is still on its way.
    await withRunTables(here.store.db)
      .updateTable('kernel_runs')
      .set({ stop: 'aborted' })
      .where('session_id', '=', sessionId)
      .execute()
    letEnd()
    await isStoppedForGood(here, sessionId, await turn.rest())
  })
})

await onPostgres('a stop on another replica, with a fake engine', (where) => {
  test('in the instant in which the run asks a person ends the run, and its end is told once', async () => {
    const { engine, asks, letEnd } = heldAsker()
    const deaf = await replica({ engine, gates: endGates(), ...where, listening: false })
    await makeEndTable(deaf.store)
    const there = await replica({ engine: talkingEngine(), gates: endGates(), ...where })
    const sessionId = await deaf.session()
    const turn = await deaf.stream(`/messages/${sessionId}`, { message: 'Pay' })
    await asks
    const holder = new pg.Client(where.databaseUrl)
    await holder.connect()
    onTestFinished(() => holder.end())
    const waits = async (count: number) =>
      vi.waitFor(async () => {
        const { rows } = await holder.query(
          `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
        )
        expect(rows.length).toBeGreaterThanOrEqual(count)
      }, patient)
    await holder.query('begin')
    await holder.query('select * from kernel_runs where did = $1 for update', [someone])
    // First the stop waits for the row, then the write that would have the run wait for a person.
    const stopped = there.call('POST', '/messages/abort', { sessionId })
    await waits(1)
    letEnd()
    await waits(2)
    await holder.query('commit')
    expect((await stopped).body).toEqual({ success: true })
    await isStoppedForGood(deaf, sessionId, await turn.rest())
  })

  test('reaches the engine, and both streams end', async () => {
    let heard = 0
    const here = await replica({ engine: talkingEngine((at) => (heard = at)), ...where })
    const there = await replica({ engine: talkingEngine(), ...where })
    const sessionId = await here.session()
    const turn = await here.stream(`/messages/${sessionId}`, { message: 'Talk' })
    const other = await there.stream(`/runs/${turn.headers.get('x-run-id')}`)
    await other.until(isMessage)
    const answered = there
      .call('POST', '/messages/abort', { sessionId })
      .then(() => performance.now())
    const [events, seen] = await Promise.all([turn.rest(), other.rest()])
    const ended = performance.now()
    expect(events.at(-1)?.data.status).toBe('aborted')
    expect(seen.at(-1)).toEqual(events.at(-1))
    expect(heard).toBeGreaterThan(0)
    expect(await answered).toBeLessThan(ended)
  })

  test('reaches a run whose replica hears nothing, by its heartbeat', async () => {
    const deaf = await replica({
      engine: talkingEngine(),
      ...where,
      listening: false,
      leaseMs: 600,
    })
    const there = await replica({ engine: talkingEngine(), ...where })
    const sessionId = await deaf.session()
    const turn = await deaf.stream(`/messages/${sessionId}`, { message: 'Talk' })
    await turn.until(isMessage)
    await there.call('POST', '/messages/abort', { sessionId })
    expect((await turn.rest()).at(-1)?.data.status).toBe('aborted')
  })
})

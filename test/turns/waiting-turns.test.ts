import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { expect, onTestFinished, test } from 'vitest'
import type { NewTurn, StartedTurn } from '../../core/plugin.ts'
import type { WaitingTurnsTable } from '../../core/runtime/turns/waiting-tables.ts'
import { openStore } from '../../core/runtime/store/store.ts'
import { runMigrations, withRunTables } from '../../core/runtime/turns/journal/tables.ts'
import { askingEngine } from '../support/asking-engines.ts'
import { onEachDatabase, onPostgres } from '../support/each-database.ts'
import { endGates, endsIn, makeEndTable } from '../support/ends.ts'
import { heldEngine } from '../support/held-engine.ts'
import { type Replica, replica, someone } from '../support/replica.ts'
import { silent } from '../support/silent-log.ts'

const patient = { timeout: 20_000 }
const user = { did: someone }

/** `turns.start` of a plugin at a replica, for the usual user. */
const starter = (here: Replica) => (turn: Omit<NewTurn, 'user'> & Partial<Pick<NewTurn, 'user'>>) =>
  here.runs.turnsOf('clerk').start({ user, ...turn })

/** The code of the error that a turn is refused with. */
const refusal = (turn: StartedTurn) =>
  turn.begun.then(
    () => 'begun',
    (error: { code?: string }) => error.code,
  )

/** The tables of a replica, with that of the turns that wait. */
const tablesOf = ({ store }: Replica) =>
  withRunTables(store.db).withTables<{ kernel_waiting_turns: WaitingTurnsTable }>()

const historyOf = async (here: Replica, sessionId: string, query = '') =>
  (await here.call('GET', `/messages/${sessionId}${query}`)).body.messages.map(
    ({ type, content }: { type: string; content: string }) => `${type}: ${content}`,
  )

const underway = async (here: Replica, sessionId: string) =>
  (await here.call('GET', `/sessions/${sessionId}/run`)).body

async function eventsOf(turn: StartedTurn) {
  const events = []
  for await (const event of turn) events.push(event)
  return events
}

await onEachDatabase('a turn that a plugin starts while another is under way', (where) => {
  const held = async (options: Partial<Parameters<typeof replica>[0]> = {}) => {
    const { engine, ran, release } = heldEngine()
    const here = await replica({ engine, leaseMs: 600, ...where, ...options })
    const sessionId = await here.session()
    const answer = await here.stream(`/messages/${sessionId}`, { message: 'hold on' })
    await answer.until(({ event }) => event === 'message')
    return { here, sessionId, answer, ran, release, start: starter(here) }
  }

  test('begins when the turn before has ended, whose answer stays whole', async () => {
    const { here, sessionId, answer, release, start } = await held()
    const turn = start({ session: sessionId, message: 'And then?', requestId: 'then-1' })
    expect(await turn.begun).toEqual({
      sessionId,
      requestId: 'then-1',
      isNew: true,
      state: 'queued',
    })
    expect(await underway(here, sessionId)).toMatchObject({
      run: { status: 'running' },
      waitingTurns: 1,
    })
    release('hold on')
    const rest = await answer.rest()
    expect(rest.filter(({ event }) => event === 'message').map(({ data }) => data.content)).toEqual(
      ['hold on'],
    )
    expect(rest.at(-1)?.data.status).toBe('finished')
    const events = await eventsOf(turn)
    expect(events.map(({ event }) => event)).toEqual(['run', 'message', 'done'])
    expect(events[0]?.data).toMatchObject({ sessionId, requestId: 'then-1' })
    expect(await turn.ended).toEqual({ status: 'finished', text: 'Well: And then?' })
    expect(await historyOf(here, sessionId)).toEqual([
      'human: hold on',
      'ai: Well: hold on',
      'human: And then?',
      'ai: Well: And then?',
    ])
    expect(await underway(here, sessionId)).toEqual({ run: null, waitingTurns: 0 })
  })

  test('is refused, or ends the other, where it says so', async () => {
    const { sessionId, answer, release, start } = await held()
    expect(await refusal(start({ session: sessionId, message: 'No', whenBusy: 'refuse' }))).toBe(
      'SESSION_BUSY',
    )
    const loud = start({ session: sessionId, message: 'Now', whenBusy: 'interrupt' })
    expect(await loud.begun).toMatchObject({ state: 'running', isNew: true })
    expect((await answer.rest()).at(-1)?.data.status).toBe('interrupted')
    expect(await loud.ended).toMatchObject({ status: 'finished', text: 'Well: Now' })
    release('hold on')
    const quiet = start({ session: sessionId, message: 'Free', whenBusy: 'refuse' })
    expect(await quiet.ended).toMatchObject({ status: 'finished', text: 'Well: Free' })
  })

  test('waits twenty in a session, and each begins once, in the order of the starts', async () => {
    // A hundred starts at once may keep the replica from renewing a short lease.
    const { here, sessionId, ran, release, start } = await held({ leaseMs: 30_000 })
    const names = Array.from({ length: 100 }, (_, i) => `turn ${i}`)
    const turns = names.map((message) => start({ session: sessionId, message }))
    const outcomes = await Promise.all(turns.map(refusal))
    const taken = names.filter((_, i) => outcomes[i] === 'begun')
    expect(taken).toHaveLength(20)
    expect(outcomes.filter((outcome) => outcome === 'QUEUE_FULL')).toHaveLength(80)
    expect((await underway(here, sessionId)).waitingTurns).toBe(20)
    const places = await tablesOf(here)
      .selectFrom('kernel_waiting_turns')
      .select('request')
      .where('session_id', '=', sessionId)
      .orderBy('place')
      .execute()
    const inOrder = places.map(({ request }) => JSON.parse(request).message)
    release('hold on')
    const ends = await Promise.all(
      turns.filter((_, i) => outcomes[i] === 'begun').map(({ ended }) => ended),
    )
    expect(ends.map(({ status }) => status)).toEqual(taken.map(() => 'finished'))
    expect(ran).toEqual(['hold on', ...inOrder])
    expect([...inOrder].sort()).toEqual([...taken].sort())
  })

  test('lets the messages of the user go first', async () => {
    const { here, sessionId, answer, ran, release, start } = await held()
    const turn = start({ session: sessionId, message: 'Later' })
    await turn.begun
    const next = await here.stream(`/messages/${sessionId}`, { message: 'hold again' })
    expect((await answer.rest()).at(-1)?.data.status).toBe('interrupted')
    await next.until(({ event }) => event === 'message')
    expect((await underway(here, sessionId)).waitingTurns).toBe(1)
    release('hold again')
    expect((await next.rest()).at(-1)?.data.status).toBe('finished')
    expect((await turn.ended).status).toBe('finished')
    expect(ran).toEqual(['hold on', 'hold again', 'Later'])
  })

  test('stays when the turn before is stopped, and is taken away by its own signal', async () => {
    const { here, sessionId, ran, start } = await held()
    const giveUp = new AbortController()
    const dropped = start({ session: sessionId, message: 'Dropped', signal: giveUp.signal })
    const kept = start({ session: sessionId, message: 'Kept' })
    await Promise.all([dropped.begun, kept.begun])
    giveUp.abort()
    expect(await dropped.ended).toEqual({ status: 'aborted', text: '' })
    expect(await eventsOf(dropped)).toEqual([])
    await here.call('POST', '/messages/abort', { sessionId })
    expect((await kept.ended).status).toBe('finished')
    expect(ran).toEqual(['hold on', 'Kept'])
  })

  test('that is stopped by its name never begins, and whoever hears of ends hears of that once', async () => {
    const { here, sessionId, ran, release, start } = await held({ gates: endGates() })
    await makeEndTable(here.store)
    const requestId = randomUUID()
    const turn = start({
      session: sessionId,
      message: 'Dropped',
      from: 'plugin',
      requestId,
      metadata: { reply: 'to' },
    })
    await turn.begun
    const stop = () => here.call('POST', '/messages/abort', { sessionId, requestId })
    expect((await stop()).body).toEqual({ success: true })
    expect(await turn.ended).toEqual({ status: 'aborted', text: '' })
    const told = async () =>
      (await endsIn(here.store.db)).filter((end) => end.sessionId === sessionId)
    await expect.poll(async () => (await told()).length, patient).toBe(1)
    release('hold on')
    await expect.poll(async () => (await told()).length, patient).toBe(2)
    expect((await told())[0]).toMatchObject({
      did: someone,
      status: 'aborted',
      cause: 'stopped',
      from: 'plugin',
      origin: 'clerk',
      metadata: { reply: 'to' },
      said: false,
      reply: '',
      usage: [],
    })
    expect(ran).toEqual(['hold on'])
    // Nothing of the turn was recorded, so its name is free.
    const again = start({ session: sessionId, message: 'Dropped', requestId })
    expect((await again.ended).status).toBe('finished')
  })

  test('ends with its session', async () => {
    const { here, sessionId, start } = await held()
    const turn = start({ session: sessionId, message: 'Never' })
    await turn.begun
    await here.call('DELETE', `/sessions/${sessionId}`)
    expect(await turn.ended).toEqual({ status: 'aborted', text: '' })
    expect(
      await tablesOf(here)
        .selectFrom('kernel_waiting_turns')
        .selectAll()
        .where('session_id', '=', sessionId)
        .execute(),
    ).toEqual([])
  })

  test('that waited a day is recorded as interrupted, and does not begin', async () => {
    const { here, sessionId, ran, release, start } = await held()
    const turn = start({ session: sessionId, message: 'Too late' })
    await turn.begun
    const db = tablesOf(here)
    await db
      .updateTable('kernel_waiting_turns')
      .set({ created_at: sql<number>`created_at - ${86_400_001}` })
      .where('session_id', '=', sessionId)
      .execute()
    expect(await turn.ended).toEqual({ status: 'interrupted', text: '' })
    const rows = await db
      .selectFrom('kernel_runs')
      .select(['status', 'cause', 'ended_at'])
      .where('session_id', '=', sessionId)
      .where('cause', 'is not', null)
      .execute()
    expect(rows).toEqual([
      { status: 'interrupted', cause: 'expired', ended_at: expect.any(Number) },
    ])
    expect((await underway(here, sessionId)).run.status).toBe('running')
    release('hold on')
    const next = start({ session: sessionId, message: 'In time' })
    expect((await next.ended).status).toBe('finished')
    expect(ran).toEqual(['hold on', 'In time'])
  })

  test('goes on waiting where its user has begun as many turns today as there may be', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'waiting-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const kept = where.databaseUrl ? {} : { dataDir: folder }
    const did = `did:key:z${randomUUID().replaceAll('-', '')}`
    const limits = { atOnce: 10, perDay: 1, addressFactor: 10, atOnceTotal: 100 }
    const { engine, ran, release } = heldEngine()
    const here = await replica({ engine, limits, leaseMs: 600, ...where, ...kept })
    const first = starter(here)({ user: { did }, message: 'hold on' })
    const { sessionId: session } = await first.begun
    const turn = starter(here)({ user: { did }, session, message: 'Patiently' })
    await turn.begun
    release('hold on')
    await expect
      .poll(() => here.logged.some(({ message }) => /cannot begin yet/.test(message)), patient)
      .toBe(true)
    expect(ran).toEqual(['hold on'])
    await here.close()
    const later = heldEngine()
    const there = await replica({ engine: later.engine, leaseMs: 600, ...where, ...kept })
    await expect
      .poll(
        async () => (await there.call('GET', `/sessions/${session}/run`, undefined, did)).body,
        patient,
      )
      .toEqual({ run: null, waitingTurns: 0 })
    expect(later.ran).toEqual(['Patiently'])
  })

  test('may be looked at by nobody', async () => {
    const { sessionId, start, here } = await held()
    const faults: unknown[] = []
    const note = (fault: unknown) => void faults.push(fault)
    process.on('unhandledRejection', note)
    try {
      void start({ session: sessionId, message: '' })
      void start({ session: sessionId, message: 'No', whenBusy: 'refuse' })
      await expect
        .poll(
          () => here.logged.filter(({ message }) => /did not begin/.test(message)).length,
          patient,
        )
        .toBe(2)
      await new Promise((resolve) => setImmediate(resolve))
    } finally {
      process.off('unhandledRejection', note)
    }
    expect(faults).toEqual([])
  })
})

await onEachDatabase('a turn that a plugin starts while a person is asked', (where) => {
  test('waits for the answer, which the person can still give, and for what comes of it', async () => {
    const here = await replica({ engine: askingEngine, leaseMs: 600, ...where })
    const sessionId = await here.session()
    const asked = await here.stream(`/messages/${sessionId}`, { message: 'Pay 5' })
    const runId = asked.headers.get('x-run-id')
    expect((await asked.rest()).at(-1)?.data.status).toBe('waiting')
    const start = starter(here)
    const turn = start({ session: sessionId, message: 'thanks' })
    expect(await turn.begun).toMatchObject({ state: 'queued' })
    expect(
      await refusal(start({ session: sessionId, message: 'thanks', whenBusy: 'refuse' })),
    ).toBe('SESSION_BUSY')
    expect(await underway(here, sessionId)).toEqual({
      run: null,
      waiting: { runId },
      waitingTurns: 1,
    })
    const resumed = await here.stream(`/runs/${runId}/resume`, { decision: 'approve' })
    expect(resumed.status).toBe(200)
    expect((await resumed.rest()).at(-1)?.data.status).toBe('finished')
    expect(await turn.ended).toMatchObject({ status: 'finished' })
    expect(await historyOf(here, sessionId)).toEqual([
      'human: Pay 5',
      'ai: May I? ',
      'ai: Pay 5: paid (new)',
      'human: thanks',
      'ai: You are welcome.',
    ])
  })

  test('begins when the question is taken back', async () => {
    const here = await replica({ engine: askingEngine, leaseMs: 60_000, ...where })
    const sessionId = await here.session()
    const asked = await here.stream(`/messages/${sessionId}`, { message: 'Pay 5' })
    await asked.rest()
    const turn = starter(here)({ session: sessionId, message: 'thanks' })
    await turn.begun
    await here.call('POST', '/messages/abort', { sessionId })
    expect(await turn.ended).toMatchObject({ status: 'finished' })
  })
})

await onEachDatabase('the name of a turn', (where) => {
  const open = async () => {
    const { engine, ran, release } = heldEngine()
    const here = await replica({ engine, leaseMs: 600, ...where })
    // A user of their own for each test: names are the user's.
    const own = { did: `did:key:z${randomUUID().replaceAll('-', '')}` }
    return { here, ran, release, own, start: starter(here) }
  }

  test('finds the first turn, with and without a session, and by the message of a client', async () => {
    const { here, own, ran, start } = await open()
    const requestId = randomUUID()
    const first = start({ user: own, message: 'Once', requestId })
    const { sessionId, runId } = await first.begun
    expect((await first.ended).text).toBe('Well: Once')
    const again = { runId, sessionId, requestId, isNew: false, state: 'running' }
    expect(await start({ user: own, message: 'Once', requestId }).begun).toEqual(again)
    expect(await start({ user: own, session: 'other', message: 'Once', requestId }).begun).toEqual(
      again,
    )
    const sent = await here.call(
      'POST',
      `/messages/${await here.session(own.did)}`,
      { message: 'Once', requestId, stream: false },
      own.did,
    )
    expect(sent.body).toMatchObject({ sessionId, message: { content: 'Well: Once' } })
    expect(ran).toEqual(['Once'])
    expect(
      await refusal(start({ user: own, session: sessionId, message: 'Twice', requestId })),
    ).toBe('REQUEST_ID_REUSED')
    const other = { message: 'Twice', requestId }
    const reused = await here.call('POST', `/messages/${sessionId}`, other, own.did)
    expect([reused.status, reused.body.code]).toEqual([422, 'REQUEST_ID_REUSED'])
    // Another user has names of their own.
    const theirs = start({ user: { did: `${own.did}2` }, message: 'Twice', requestId })
    expect(await theirs.begun).toMatchObject({ isNew: true })
    const { sessions } = (await here.call('GET', '/sessions', undefined, own.did)).body
    expect(sessions).toHaveLength(2)
  })

  test('finds a turn that waits', async () => {
    const { here, own, ran, release, start } = await open()
    const first = start({ user: own, message: 'hold on' })
    const { sessionId: session } = await first.begun
    const requestId = randomUUID()
    const queued = start({ user: own, session, message: 'Next', requestId })
    expect(await queued.begun).toMatchObject({ isNew: true, state: 'queued' })
    const again = start({ user: own, message: 'Next', requestId })
    expect(await again.begun).toEqual({
      sessionId: session,
      requestId,
      isNew: false,
      state: 'queued',
    })
    expect(await refusal(start({ user: own, message: 'Last', requestId }))).toBe(
      'REQUEST_ID_REUSED',
    )
    const sent = { message: 'Next', requestId }
    const known = await here.call('POST', `/messages/${session}`, sent, own.did)
    expect([known.status, known.body.code]).toEqual([409, 'SESSION_BUSY'])
    release('hold on')
    expect(await again.ended).toEqual(await queued.ended)
    expect(ran).toEqual(['hold on', 'Next'])
  })

  test('makes one turn of many starts at once', async () => {
    const { own, ran, start } = await open()
    const requestId = randomUUID()
    const turns = Array.from({ length: 20 }, () => start({ user: own, message: 'Once', requestId }))
    const begun = await Promise.all(turns.map((turn) => turn.begun))
    expect(begun.filter(({ isNew }) => isNew)).toHaveLength(1)
    expect(new Set(begun.map(({ runId }) => runId)).size).toBe(1)
    await Promise.all(turns.map(({ ended }) => ended))
    expect(ran).toEqual(['Once'])
  })

  test('of runs from before may stand in several sessions', async () => {
    const { here, own, start } = await open()
    const db = tablesOf(here)
    const [a, b] = [await here.session(own.did), await here.session(own.did)]
    const requestId = randomUUID()
    await start({ user: own, session: a, message: 'A', requestId }).ended
    const other = start({ user: own, session: b, message: 'B', requestId: randomUUID() })
    const { runId = '' } = await other.begun
    await other.ended
    // As the migration leaves the second run of one name.
    await db
      .updateTable('kernel_runs')
      .set({ request_id: requestId, namesake: 1 })
      .where('id', '=', runId)
      .execute()
    const send = (session: string, message: string) =>
      here.call('POST', `/messages/${session}`, { message, requestId, stream: false }, own.did)
    expect((await send(a, 'A')).body.message.content).toBe('Well: A')
    expect((await send(b, 'B')).body.message.content).toBe('Well: B')
  })
})

await onEachDatabase('what a plugin asks for', (where) => {
  test('is refused before anything is made, where it cannot be', async () => {
    const { engine, ran } = heldEngine()
    const here = await replica({ engine, ...where })
    const start = starter(here)
    const theirs = await here.session('did:key:zOther')
    const long = (bytes: number) => 'x'.repeat(bytes)
    const own = { did: `did:key:z${randomUUID().replaceAll('-', '')}` }
    const wrong: readonly object[] = [
      { message: '' },
      { message: '  ' },
      { message: long(300 * 1024) },
      { message: 'half \ud800' },
      { user: { did: 'amina' } },
      { user: { did: '' } },
      { session: '' },
      { requestId: '' },
      { requestId: 'retry:1' },
      { whenBusy: 'later' },
      { from: 'nobody' },
      { metadata: { note: long(8 * 1024) } },
      { metadata: JSON.parse('{"__proto__":{"admin":true}}') },
      { metadata: { a: JSON.parse('{"constructor":1}') } },
      { metadata: [1] },
      { metadata: { count: 1n } },
      { attachments: Array.from({ length: 101 }, () => 'a') },
      { model: '' },
      { instructions: long(36 * 1024 + 1) },
      { quoted: long(64 * 1024 + 1) },
      { quoted: [long(40 * 1024), long(40 * 1024)] },
      { allow: [7] },
      { whenbusy: 'refuse' },
    ]
    for (const fields of wrong) {
      const turn = { user: own, message: 'Hello', ...fields } as NewTurn
      expect([fields, await refusal(start(turn))]).toEqual([fields, 'INPUT_INVALID'])
    }
    expect(await refusal(start({ session: theirs, message: 'Let me in' }))).toBe('NOT_FOUND')
    expect(ran).toEqual([])
    const { sessions } = (await here.call('GET', '/sessions', undefined, own.did)).body
    expect(sessions).toEqual([])
  })

  test('stands in the history where the words are the user’s, and on request where they are the plugin’s', async () => {
    const { engine } = heldEngine()
    const here = await replica({ engine, ...where })
    const start = starter(here)
    const first = start({ message: 'Remind the user', from: 'plugin' })
    const { sessionId } = await first.begun
    const [began] = await eventsOf(first)
    expect(began?.data).not.toHaveProperty('userMessageId')
    await start({ session: sessionId, message: 'Thank you' }).ended
    expect(await historyOf(here, sessionId)).toEqual([
      'ai: Well: Remind the user',
      'human: Thank you',
      'ai: Well: Thank you',
    ])
    const { messages } = (await here.call('GET', `/messages/${sessionId}?origin=all`)).body
    expect(messages[0]).toMatchObject({
      type: 'human',
      content: 'Remind the user',
      origin: 'clerk',
    })
    expect(messages[2]).not.toHaveProperty('origin')
    const page = async (query: string) =>
      (await here.call('GET', `/sessions/${sessionId}/messages?${query}`)).body
    expect((await page('limit=3')).messages).toHaveLength(3)
    expect(await page('limit=3')).toMatchObject({ hasOlder: false })
    const all = await page('limit=3&origin=all')
    expect(all).toMatchObject({ hasOlder: true, messages: [{ type: 'ai' }, {}, {}] })
    const older = await page(`limit=3&origin=all&before=${all.prevCursor}`)
    expect(older.messages).toMatchObject([{ content: 'Remind the user', origin: 'clerk' }])
    expect((await here.call('GET', `/messages/${sessionId}?origin=some`)).status).toBe(400)
    // The title is made of what the user said.
    const { sessions } = (await here.call('GET', '/sessions')).body
    const session = sessions.find((each: { sessionId: string }) => each.sessionId === sessionId)
    expect(session.title).toBe('Thank you')
  })
})

await onPostgres('waiting turns of several replicas', (where) => {
  const two = async () => {
    const [a, b] = [heldEngine(), heldEngine()]
    const here = await replica({ engine: a.engine, leaseMs: 600, ...where })
    const there = await replica({ engine: b.engine, leaseMs: 600, ...where })
    const sessionId = await here.session()
    const answer = await here.stream(`/messages/${sessionId}`, { message: 'hold on' })
    await answer.until(({ event }) => event === 'message')
    return { a, b, here, there, sessionId, answer }
  }

  test('begin when a turn of another replica ends, and are heard where they were started', async () => {
    const { a, b, there, sessionId } = await two()
    const turn = starter(there)({ session: sessionId, message: 'From afar' })
    expect(await turn.begun).toMatchObject({ state: 'queued' })
    a.release('hold on')
    expect((await eventsOf(turn)).map(({ event }) => event)).toEqual(['run', 'message', 'done'])
    expect([...a.ran, ...b.ran]).toEqual(['hold on', 'From afar'])
  })

  test('begin at another replica when theirs has gone, each once', async () => {
    const { a, b, here, there, sessionId } = await two()
    const start = starter(here)
    const turns = ['One', 'Two', 'Three'].map((message) => start({ session: sessionId, message }))
    await Promise.all(turns.map(({ begun }) => begun))
    const left = expect(turns[0]?.ended).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    b.release('hold on')
    await here.close()
    await left
    await expect
      .poll(() => underway(there, sessionId), patient)
      .toEqual({ run: null, waitingTurns: 0 })
    expect(a.ran).toEqual(['hold on'])
    expect([...b.ran].sort()).toEqual(['One', 'Three', 'Two', 'hold on'].sort())
  })
})

await onEachDatabase('the migration that makes names unique for the user', ({ databaseUrl }) => {
  test('leaves runs as they are that share a name in several sessions', async () => {
    const { db: store, ...rest } = await openStore({ databaseUrl, log: silent })
    onTestFinished(() => rest.close())
    const before = Object.entries(runMigrations).filter(([name]) => name < '005-waiting-turns')
    await rest.migrate('kernel-runs', Object.fromEntries(before))
    const db = withRunTables(store)
    const run = (id: string, did: string, created: number) =>
      sql`insert into kernel_runs (id, session_id, did, turn, root_id, root_turn, request_id, status, lease_until, created_at)
        values (${id}, ${`s-${id}`}, ${did}, 1, ${id}, 1, 'name', 'finished', 0, ${created})`.execute(
        db,
      )
    await run('second', 'did:key:zA', 2)
    await run('first', 'did:key:zA', 1)
    await run('other', 'did:key:zB', 3)
    await rest.migrate('kernel-runs', runMigrations)
    const rows = await db
      .selectFrom('kernel_runs')
      .select(['id', 'namesake'])
      .where('request_id', '=', 'name')
      .orderBy('id')
      .execute()
    expect(rows).toEqual([
      { id: 'first', namesake: 0 },
      { id: 'other', namesake: 0 },
      { id: 'second', namesake: 1 },
    ])
    await expect(run('third', 'did:key:zB', 4)).rejects.toThrow(/unique|UNIQUE/)
  })
})

import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { expect, it, onTestFinished, vi } from 'vitest'
import { definePlugin } from '../../core/plugin.ts'
import { RunGates } from '../../core/runtime/turns/gates/gates.ts'
import type { Engine } from '../../core/runtime/turns/run.ts'
import { Client } from '../../core/runtime/store/postgres.ts'
import { askedGates } from '../support/asked-gates.ts'
import { onPostgres } from '../support/each-database.ts'
import { replica, someone, type Replica } from '../support/replica.ts'

const engine: Engine = async (run) => {
  run.emit('message', { content: 'Yes.' })
  const messages = [{ role: 'assistant' as const, id: run.runId, content: 'Yes.' }]
  // As the agent does it: the journal has the answer together with the end of the run.
  void run.journal.append({ messages }, 'soon')
  return { status: 'finished' }
}

/** An app in which a plugin has something to do in the transaction of a beginning: its turns begin step by step. */
class BusyGates extends RunGates {
  override get actAtBeginnings(): boolean {
    return true
  }
}

const seats = { atOnce: 3, perDay: 5, addressFactor: 2, atOnceTotal: 100 }

/** The beginnings of statements that this process sends to PostgreSQL from now on. */
function statements(): string[] {
  const sent: string[] = []
  const query = Client.prototype.query
  vi.spyOn(Client.prototype, 'query').mockImplementation(function (this: Client, ...args) {
    const [first] = args as [string | { readonly text?: string }]
    sent.push((typeof first === 'string' ? first : (first.text ?? '')).trim())
    return Reflect.apply(query, this, args)
  })
  onTestFinished(() => void vi.restoreAllMocks())
  return sent
}

await onPostgres('a turn that begins as most do', (where) => {
  const say = async (here: Replica, session: string, body: object) => {
    const { status, body: answer } = await here.call('POST', `/messages/${session}`, {
      stream: false,
      ...body,
    })
    return { status, code: answer.code, details: answer.details }
  }

  it('asks the database once to begin, and writes nothing more before its end', async () => {
    // No heartbeat comes meanwhile, which writes as well.
    const here = await replica({
      engine,
      leaseMs: 300_000,
      limits: { ...seats, perDay: 100 },
      ...where,
    })
    const session = await here.session()
    await say(here, session, { message: 'Hello' })
    const sent = statements()
    await say(here, session, { message: 'Hello again' })
    const own = sent.filter((text) => /^(begin|commit|insert|update|with|select begun)/.test(text))
    expect(own).toEqual([
      expect.stringContaining('kernel_begin_run_2'),
      expect.stringMatching(/^with fence as/),
    ])
  })

  it('asks a plugin first that says which ends it wants, and tells that plugin of these alone', async () => {
    const asked: string[] = []
    const ended: string[] = []
    let wanted = ''
    const choosy = definePlugin({
      name: 'choosy',
      summary: 'Hears of some ends.',
      runs: {
        wants({ sessionId, runId }) {
          asked.push(runId)
          return sessionId === wanted
        },
        end: ({ runId }) => void ended.push(runId),
      },
    })
    const here = await replica({ engine, gates: askedGates([choosy], 10_000), ...where })
    const unwanted = await here.session()
    wanted = await here.session()
    const sent = statements()
    for (const session of [unwanted, wanted, unwanted])
      expect((await say(here, session, { message: 'Hello' })).status).toBe(200)
    expect(sent.filter((text) => text.includes('kernel_begin_run_2'))).toHaveLength(3)
    await expect.poll(() => ended).toEqual([asked[1]])
    const { rows } = await sql`select 1 from kernel_unsettled
      where session_id in (${wanted}, ${unwanted})`.execute(here.store.db)
    expect(rows).toEqual([])
  })

  it('leaves the same rows as one that begins step by step', async () => {
    const rowsOf = async (here: Replica, session: string) => {
      const all = async (table: string, where: string) =>
        (
          await sql<{ row: Record<string, unknown> }>`select to_jsonb(t) as row
            from ${sql.table(table)} t where ${sql.raw(where)} order by 1`.execute(here.store.db)
        ).rows.map(({ row }) => row)
      const found = {
        sessions: await all('kernel_sessions', `id = '${session}'`),
        runs: await all('kernel_runs', `session_id = '${session}'`),
        requests: await all(
          'kernel_run_requests',
          `run_id in (select id from kernel_runs where session_id = '${session}')`,
        ),
        steps: await all('kernel_steps', `session_id = '${session}'`),
        unsettled: await all('kernel_unsettled', `session_id = '${session}'`),
        counts: await all('kernel_turn_counts', '1 = 1'),
      }
      // Ids, times and what the process calls itself are other ones each time.
      return JSON.parse(
        JSON.stringify(found)
          .replaceAll(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, 'id')
          .replaceAll(/\b1\d{12}\b/g, '0')
          .replaceAll(/address:[\w-]+/g, 'address'),
      )
    }
    const shown: unknown[] = []
    for (const gates of [new RunGates({ records: [] }), new BusyGates({ records: [] })]) {
      gates.onEnd('listener', { wants: () => true, end: async () => {} })
      const limits = { ...seats, perDay: 100 }
      const here = await replica({ engine, limits, gates, ...where })
      const session = await here.session()
      const sent = statements()
      const messages = [
        { message: 'A first "word" – \\ü', requestId: randomUUID() },
        { message: 'Another', model: 'large', metadata: { a: [1] }, timezone: 'Africa/Lusaka' },
        { message: 'A third', model: 'default' },
      ]
      for (const message of messages) expect((await say(here, session, message)).status).toBe(200)
      expect(sent.filter((text) => text.includes('kernel_begin_run_2')).length).toBe(
        gates instanceof BusyGates ? 0 : 3,
      )
      await expect.poll(async () => (await rowsOf(here, session)).unsettled).toEqual([])
      const { counts, ...rows } = await rowsOf(here, session)
      shown.push(rows)
      expect(counts).toHaveLength(2)
      await sql`delete from kernel_turn_counts`.execute(here.store.db)
      vi.restoreAllMocks()
    }
    expect(shown[0]).toEqual(shown[1])
  })

  it('is found by the name of its message, refused over its limits, and nobody else’s', async () => {
    const here = await replica({ engine, limits: seats, ...where })
    const session = await here.session()
    const named = { message: 'Hello', requestId: randomUUID() }
    const first = await here.call('POST', `/messages/${session}`, { stream: false, ...named })
    const again = await here.call('POST', `/messages/${session}`, { stream: false, ...named })
    expect(first.status).toBe(200)
    expect(again.body.runId).toBe(first.body.runId)
    expect(await say(here, session, { ...named, message: 'Other words' })).toMatchObject({
      code: 'REQUEST_ID_REUSED',
    })
    const foreign = await here.session('did:key:zOther')
    expect((await say(here, foreign, { message: 'Hello' })).status).toBe(404)
    for (let turn = 2; turn <= seats.perDay; turn++)
      expect((await say(here, session, { message: `Turn ${turn}` })).status).toBe(200)
    expect(await say(here, session, { message: 'One too many' })).toMatchObject({
      status: 429,
      code: 'TURNS_LIMIT',
      details: { of: 'did', max: seats.perDay },
    })
    const { rows } = await sql<{ runs: number; counted: number }>`select
      (select count(*) from kernel_runs where session_id = ${session}) as runs,
      (select turns from kernel_turn_counts where who = ${someone}) as counted`.execute(
      here.store.db,
    )
    expect(rows).toEqual([{ runs: seats.perDay, counted: seats.perDay }])
  })

  it('begins once for each of many messages in one moment, the newest of which remains', async () => {
    const held = Promise.withResolvers<void>()
    const waits: Engine = async (run) => {
      await Promise.race([
        held.promise,
        new Promise((resolve) => run.signal.addEventListener('abort', resolve)),
      ])
      return { status: run.signal.aborted ? 'aborted' : 'finished' }
    }
    const here = await replica({ engine: waits, ...where })
    const other = await replica({ engine: waits, ...where })
    const session = await here.session()
    const sent = Array.from({ length: 10 }, (_, nth) =>
      say(nth % 2 ? here : other, session, { message: `Message ${nth}` }),
    )
    const states = async () =>
      (
        await sql<{ turn: number; status: string }>`select turn, status from kernel_runs
          where session_id = ${session} order by turn`.execute(here.store.db)
      ).rows
    await expect
      .poll(async () => (await states()).map(({ status }) => status))
      .toEqual([...Array(9).fill('interrupted'), 'running'])
    held.resolve()
    await Promise.all(sent)
    expect((await states()).map(({ turn }) => turn)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
  })
})

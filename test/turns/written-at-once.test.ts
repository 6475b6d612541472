import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { expect, it, vi } from 'vitest'
import { Client } from '../../core/runtime/store/postgres.ts'
import { RunStore } from '../../core/runtime/turns/journal/store.ts'
import type { Engine } from '../../core/runtime/turns/run.ts'
import { onEachDatabase } from '../support/each-database.ts'
import { replica } from '../support/replica.ts'

// SQLite writes few runs and few rows by other statements than many: what they keep must be the same.
await onEachDatabase('what runs write', (where) => {
  it('is whole, for a run alone and for many at once, with few rows and with many', async () => {
    const counts = [1, 2, 16, 17, 40, 3, 5]
    const all = Promise.withResolvers<void>()
    let arrived = 0
    let alone = true
    const engine: Engine = async (run) => {
      if (!alone && ++arrived === counts.length) all.resolve()
      // All of them write in the same moment.
      if (!alone) await all.promise
      const messages = Array.from({ length: Number(run.request.message) }, (_, nth) => ({
        role: 'assistant' as const,
        id: randomUUID(),
        content: `"${nth}" – ${'\\ü'.repeat(nth)}`,
      }))
      for (const { content } of messages) run.emit('message', { content })
      await run.journal.append({ messages })
      return { status: 'finished' }
    }
    const here = await replica({ engine, ...where })
    const begin = async (count: number) => {
      const session = await here.session()
      const turn = await here.stream(`/messages/${session}`, { message: String(count) })
      return { count, session, turn }
    }
    const shown = async (ofTurns: readonly Awaited<ReturnType<typeof begin>>[]) => {
      for (const { count, session, turn } of ofTurns) {
        const events = await turn.rest()
        expect(events.at(-1)?.event).toBe('done')
        const { rows } = await sql<{ kind: string; position: number; body: string }>`
          select kind, position, body from kernel_steps where session_id = ${session}
          order by position`.execute(here.store.db)
        expect(rows.map(({ kind }) => kind)).toEqual(['user', ...Array(count).fill('assistant')])
        expect(JSON.parse(rows.at(-1)?.body ?? '').content).toMatch(`"${count - 1}" – `)
        const { rows: runs } = await sql<Record<string, unknown>>`select status, owner, steps,
            ended_at, last_seq, kept_seq, attempts from kernel_runs
          where session_id = ${session}`.execute(here.store.db)
        const lastSeq = Number(events.at(-1)?.id)
        expect(runs).toMatchObject([
          { status: 'finished', owner: null, steps: count + 1, last_seq: lastSeq, attempts: 0 },
        ])
        expect(runs[0]?.kept_seq).toBe(lastSeq - 1)
        expect(runs[0]?.ended_at).not.toBeNull()
      }
    }
    for (const count of counts) await shown([await begin(count)])
    alone = false
    await shown(await Promise.all(counts.map(begin)))
  })

  it('has what the engine keeps with an end, and nothing of that where another process has the run', async () => {
    const engine: Engine = async (run) => {
      run.emit('message', { content: 'Yes.' })
      if (run.request.message === 'stolen')
        await sql`update kernel_runs set owner = 'another', epoch = epoch + 1
          where id = ${run.runId}`.execute(here.store.db)
      const rows = [
        { id: run.runId, words: `it's "so" – \\ü`, place: -1, absent: null },
        { id: `${run.runId}, too`, words: '', place: 2, absent: null },
      ]
      return {
        status: 'finished',
        checkpoint: `of ${run.runId}`,
        inserts: [{ table: 'kept_with_ends', key: ['id'], replaces: 'always', rows }],
        save: async (trx) => void (await trx.insertInto('kept_with_ends').values(rows).execute()),
      }
    }
    const here = await replica({ engine, ...where })
    await sql`create table kept_with_ends (id text primary key, words text not null,
      place integer not null, absent text)`.execute(here.store.db)
    const transactions = vi.spyOn(Client.prototype, 'query')
    const session = await here.session()
    const say = async (message: string) =>
      (await here.stream(`/messages/${session}`, { message })).rest()
    await say('first')
    await say('second')
    const begun = transactions.mock.calls.filter(([text]) => /^begin/.test(String(text)))
    vi.restoreAllMocks()
    if (where.databaseUrl) expect(begun).toEqual([])
    const kept = async () =>
      (
        await sql<
          Record<string, unknown>
        >`select run.checkpoint, run.status, saved.words, saved.place,
          saved.absent from kernel_runs as run join kept_with_ends as saved
          on saved.id in (run.id, run.id || ', too') where run.session_id = ${session}
          order by run.turn, saved.place`.execute(here.store.db)
      ).rows
    const whole = await kept()
    expect(whole).toMatchObject([
      { words: `it's "so" – \\ü`, place: -1, absent: null, status: 'finished' },
      { words: '', place: 2 },
      { place: -1 },
      { place: 2 },
    ])
    expect(whole.every(({ checkpoint }) => String(checkpoint).startsWith('of '))).toBe(true)
    const writes = vi.spyOn(RunStore.prototype, 'write')
    const stolen = await here.stream(`/messages/${session}`, { message: 'stolen' })
    const refused = ({ value }: { value?: unknown }) => value instanceof Map && value.size > 0
    await expect.poll(() => writes.mock.settledResults.some(refused)).toBe(true)
    stolen.cut()
    vi.restoreAllMocks()
    expect(await kept()).toEqual(whole)
  })

  it('has what many ends keep at once, though it is more than one statement takes', async () => {
    const ends = Promise.withResolvers<void>()
    const columns = Array.from({ length: 24 }, (_, nth) => `c${nth}`)
    const engine: Engine = async (run) => {
      await ends.promise
      const rows = Array.from({ length: 100 }, (_, nth) => ({
        id: `${run.runId} ${nth}`,
        ...Object.fromEntries(columns.map((column) => [column, nth])),
      }))
      return {
        status: 'finished',
        checkpoint: 'one',
        inserts: [{ table: 'much_kept', key: ['id'], replaces: 'never', rows }],
        save: async (trx) => {
          for (const row of rows) await trx.insertInto('much_kept').values(row).execute()
        },
      }
    }
    const here = await replica({ engine, ...where })
    const numbers = columns.map((column) => `${column} integer not null`)
    await sql`create table much_kept (id text primary key, ${sql.raw(numbers.join())})`.execute(
      here.store.db,
    )
    const all = await Promise.all(
      Array.from({ length: 30 }, async () => {
        const session = await here.session()
        return here.stream(`/messages/${session}`, { message: 'much' })
      }),
    )
    ends.resolve()
    for (const stream of all) expect((await stream.rest()).at(-1)).toMatchObject({ event: 'done' })
    const { rows } = await sql<{
      count: number
    }>`select count(*) as count from much_kept`.execute(here.store.db)
    expect(Number(rows[0]?.count)).toBe(3_000)
  })
})

import { randomUUID } from 'node:crypto'
import { DatabaseSync } from 'node:sqlite'
import { type Kysely, sql } from 'kysely'
import { expect, onTestFinished, test, vi } from 'vitest'
import { checkpointMigrations } from '../../core/runtime/agent/state/checkpoint-tables.ts'
import { openStore } from '../../core/runtime/store/store.ts'
import { runMigrations } from '../../core/runtime/turns/journal/tables.ts'
import { replica } from '../support/replica.ts'
import { silent } from '../support/silent-log.ts'

/** A database as the version before has left it, with rows. */
async function before() {
  const store = await openStore({ log: silent })
  onTestFinished(() => store.close())
  const older = Object.entries(runMigrations).filter(([name]) => name < '016')
  await store.migrate('kernel-runs', Object.fromEntries(older))
  const { '001-checkpoints': first } = checkpointMigrations
  if (!first) throw new Error('The first migration of checkpoints is gone.')
  await store.migrate('kernel-checkpoints', { '001-checkpoints': first })
  const { db } = store
  for (const nth of [3, 1, 2]) {
    await sql`insert into kernel_sessions
      (id, did, title, turns, created_at, updated_at, room, plugin, model, shared, pinned, family, ephemeral)
      values (${`s${nth}`}, 'did:key:zA', ${nth === 1 ? null : 'Ωmega'}, 2, 1, ${nth}, 'p:room', 'p', 'm', 1, 1, 'f', 1)`.execute(
      db,
    )
    await run(db, nth, 'finished', 0)
    await sql`insert into checkpoints (thread_id, namespace, id, parent_id, state, metadata)
      values (${`s${nth}`}, '', ${`c${nth}`}, null, '{"v":4}', '{}')`.execute(db)
    await sql`insert into checkpoint_values (thread_id, namespace, channel, version, value)
      values (${`s${nth}`}, '', 'x.y', '2.25', ${'"long"'.repeat(2_000)})`.execute(db)
  }
  await run(db, 4, 'waiting', 1)
  await expectEnd(db, 'r4', 'p')
  return store
}

const run = (db: Kysely<any>, nth: number, status: string, namesake: number) =>
  sql`insert into kernel_runs (id, session_id, did, turn, root_id, root_turn, request_id, status,
      lease_until, created_at, ended_at, namesake, cause, checkpoint)
    values (${`r${nth}`}, ${`s${nth}`}, 'did:key:zA', 1, ${`r${nth}`}, 1,
      ${namesake ? 'request-1' : `request-${nth}`}, ${status}, 9007199254740993, 1, 2, ${namesake}, null, 'c')`.execute(
    db,
  )

const expectEnd = (db: Kysely<any>, root: string, consumer: string) =>
  sql`insert into kernel_unsettled (session_id, root_id, consumer, created_at)
    values ('s4', ${root}, ${consumer}, 1)`.execute(db)

const tables = [
  'kernel_sessions',
  'kernel_runs',
  'kernel_unsettled',
  'checkpoints',
  'checkpoint_values',
]

test('tables that get rid of their rowids keep rows, defaults and rules', async () => {
  const store = await before()
  const { db } = store
  const all = async () => {
    const found: Record<string, unknown> = {}
    for (const table of tables)
      found[table] = (await sql`select * from ${sql.table(table)} order by 1`.execute(db)).rows
    return found
  }
  const columns = async (table: string) =>
    (
      await sql`select name, type, dflt_value from pragma_table_info(${table}) order by cid`.execute(
        db,
      )
    ).rows
  const was = await all()
  const had = await Promise.all(tables.map(columns))
  await store.migrate('kernel-runs', runMigrations)
  await store.migrate('kernel-checkpoints', checkpointMigrations)
  expect(await all()).toEqual(was)
  expect(await Promise.all(tables.map(columns))).toEqual(had)
  for (const table of tables)
    await expect(sql`select rowid from ${sql.table(table)}`.execute(db)).rejects.toThrow(/rowid/)

  // What a version before this one writes has its defaults, and what it must not write is refused.
  await sql`insert into kernel_sessions (id, did, created_at, updated_at)
    values ('s5', 'did:key:zA', 1, 1)`.execute(db)
  await expect(
    sql`insert into kernel_sessions (id, did, created_at, updated_at)
      values (null, 'did:key:zA', 1, 1)`.execute(db),
  ).rejects.toThrow(/NOT NULL/)
  await run(db, 5, 'running', 0)
  const { rows } = await sql`select s.turns, s.pinned, r.v, r.epoch from kernel_sessions s
    join kernel_runs r on r.session_id = s.id where s.id = 's5'`.execute(db)
  expect(rows).toEqual([{ turns: 0, pinned: 0, v: 1, epoch: 1 }])
  const again = (id: string, session: string, turn: number, name: string, namesake: number) =>
    sql`insert into kernel_runs (id, session_id, did, turn, root_id, root_turn, request_id, status,
        lease_until, created_at, namesake)
      values (${id}, ${session}, 'did:key:zA', ${turn}, ${id}, 1, ${name}, 'finished', 0, 1, ${namesake})`.execute(
      db,
    )
  await expect(again('r1', 's9', 1, 'other', 0)).rejects.toThrow(/UNIQUE/)
  await expect(again('r9', 's1', 1, 'other', 0)).rejects.toThrow(/UNIQUE/)
  await expect(again('r9', 's9', 1, 'request-2', 0)).rejects.toThrow(/UNIQUE/)
  await expect(again('r9', 's4', 2, 'request-1', 1)).rejects.toThrow(/UNIQUE/)
  await again('r9', 's9', 1, 'request-9', 0)

  await expectEnd(db, 'r4', 'q')
  await expect(expectEnd(db, 'r4', 'p')).rejects.toThrow(/UNIQUE/)
  const { rows: due } = await sql`select consumer, tries, due_at, facts from kernel_unsettled
    order by consumer`.execute(db)
  const waits = { tries: 0, due_at: 0, facts: null }
  expect(due).toEqual([
    { consumer: 'p', ...waits },
    { consumer: 'q', ...waits },
  ])
})

/** Tables that grow with every turn or session. */
const growing =
  /^(SCAN) (kernel_sessions|kernel_runs|kernel_steps|kernel_run_\w+|run|open|earlier)\b/
/** What holds what is under way, and nothing else. */
const small = /kernel_runs_under_way/

test('no statement of a turn, of a stop or of the keeping of leases goes through all rows', async () => {
  const prepare = vi.spyOn(DatabaseSync.prototype, 'prepare')
  onTestFinished(() => prepare.mockRestore())
  const here = await replica({
    engine: async (run) => {
      run.emit('message', { content: 'Yes' })
      await run.journal.append({
        messages: [{ role: 'assistant', id: randomUUID(), content: 'Yes' }],
      })
      return { status: 'finished' }
    },
  })
  const session = await here.session()
  for (const message of ['One', 'Two']) {
    const turn = await here.stream(`/messages/${session}`, { message })
    expect((await turn.rest()).at(-1)?.event).toBe('done')
  }
  const asked = [...new Set(prepare.mock.calls.map(([text]) => text))].filter(
    (text) =>
      /kernel_(runs|sessions|steps)/.test(text) &&
      /^\s*(select|update|delete|with)/i.test(text) &&
      !text.includes('row_number()'), // of a migration
  )
  expect(asked.length).toBeGreaterThan(5)
  const scans = async () => {
    const found: string[] = []
    for (const text of asked) {
      const { rows } = await sql<{ detail: string }>`explain query plan ${sql.raw(text)}`.execute(
        here.store.db,
      )
      for (const { detail } of rows)
        if (growing.test(detail) && !small.test(detail)) found.push(`${detail}: ${text}`)
    }
    return found
  }
  expect(await scans()).toEqual([])
  await sql`drop index kernel_runs_under_way`.execute(here.store.db)
  expect(await scans()).not.toEqual([])
})

import { chmod, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setImmediate as turnOfTheLoop, setTimeout as sleep } from 'node:timers/promises'
import { Kysely, sql, type Generated } from 'kysely'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { openDataDir } from '../../core/runtime/store/data-dir.ts'
import { isConnectionError } from '../../core/runtime/store/database-errors.ts'
import { prepared } from '../../core/runtime/store/prepared.ts'
import { PostgresChannels } from '../../core/runtime/store/postgres-channels.ts'
import { Pool, postgresSettings } from '../../core/runtime/store/postgres.ts'
import { openSqlite, sqliteDialect } from '../../core/runtime/store/sqlite.ts'
import { WalSync } from '../../core/runtime/store/wal-sync.ts'
import { openStore, type Store } from '../../core/runtime/store/store.ts'
import { killChildren, startChild } from '../support/child.ts'
import { flakyWire, freshDatabase } from '../support/database.ts'
import { describeWith } from '../support/services.ts'
import { silent } from '../support/silent-log.ts'

type Tables = {
  notes: {
    id: Generated<number> | number
    owner: string
    text: string | null
    done: Generated<boolean>
    size: number | bigint | null
    data: Uint8Array | null
  }
  replies: { note: number }
  counters: { name: string; value: number }
}

const note = { id: 1, owner: 'ann', text: 'first', size: 1, data: null }

/** What every database does alike. */
function behavesAlike(name: string, open: () => Promise<Store>, close: () => Promise<void>) {
  describe(name, () => {
    let store: Store
    let db: Kysely<Tables>

    beforeAll(async () => {
      store = await open()
      db = store.db.withTables<Tables>()
      const bytes = store.kind === 'sqlite' ? sql`blob` : sql`bytea`
      await db.schema
        .createTable('notes')
        .addColumn('id', 'integer', (column) => column.primaryKey())
        .addColumn('owner', 'text', (column) => column.notNull())
        .addColumn('text', 'text', (column) => column.defaultTo('nothing'))
        .addColumn('done', 'boolean', (column) => column.notNull().defaultTo(false))
        .addColumn('size', 'bigint')
        .addColumn('data', bytes)
        .addUniqueConstraint('notes_owner_text', ['owner', 'text'])
        .execute()
      await db.schema
        .createTable('replies')
        .addColumn('note', 'integer', (column) => column.references('notes.id'))
        .execute()
      await db.schema
        .createTable('counters')
        .addColumn('name', 'text', (column) => column.primaryKey())
        .addColumn('value', 'integer', (column) => column.notNull())
        .execute()
    })
    afterAll(async () => {
      await store.close()
      await close()
    })
    beforeEach(async () => {
      for (const table of ['replies', 'notes', 'counters'] as const)
        await db.deleteFrom(table).execute()
    })

    const all = () => db.selectFrom('notes').selectAll().orderBy('id').execute()

    test('rows are plain objects with plain values', async () => {
      await db
        .insertInto('notes')
        .values({ ...note, done: true })
        .execute()
      const [row] = await all()
      expect(row).toStrictEqual({ ...note, done: true })
    })

    test('booleans come back as booleans, also from returning, and can be asked for', async () => {
      const returned = await db
        .insertInto('notes')
        .values([
          { ...note, done: true },
          { ...note, id: 2, owner: 'bob', done: false },
        ])
        .returning(['id', 'done as finished'])
        .execute()
      expect(returned).toEqual([
        { id: 1, finished: true },
        { id: 2, finished: false },
      ])
      const open = await db.selectFrom('notes').select('id').where('done', '=', false).execute()
      expect(open).toEqual([{ id: 2 }])
    })

    test('text stays the text that it was: JSON, digits, the empty string, any script', async () => {
      const texts = [JSON.stringify({ a: [1, true, null], 'b"': 'ü' }), '007', '', "नमस्ते 🎉 \\ % '"]
      for (const [i, text] of texts.entries())
        await db
          .insertInto('notes')
          .values({ ...note, id: i, text })
          .execute()
      expect((await all()).map((row) => row.text)).toEqual(texts)
    })

    test('a whole number given to a text column has no fraction', async () => {
      const text = 1 as unknown as string // the mistake that this is about
      await db
        .insertInto('notes')
        .values({ ...note, text })
        .execute()
      expect((await all())[0]?.text).toBe('1')
    })

    test('integers are numbers while that is exact, and bigints beyond', async () => {
      const sizes = [0, -1, 2 ** 53 - 1, 2n ** 53n, -(2n ** 63n), 2n ** 63n - 1n]
      for (const [i, size] of sizes.entries())
        await db
          .insertInto('notes')
          .values({ ...note, id: i, text: String(i), size })
          .execute()
      expect((await all()).map((row) => row.size)).toEqual(sizes)
      await db.deleteFrom('notes').where('id', '>', 2).execute()
      const totals = await db
        .selectFrom('notes')
        .select((eb) => [
          eb.fn.countAll().as('count'),
          eb.fn.sum('id').as('ids'),
          eb.fn.sum('size').as('sizes'),
          eb.fn.max('size').as('largest'),
        ])
        .executeTakeFirst()
      expect(totals).toEqual({ count: 3, ids: 3, sizes: 2 ** 53 - 2, largest: 2 ** 53 - 1 })
    })

    test('bytes come back as the same bytes', async () => {
      const data = Uint8Array.from({ length: 256 }, (_, i) => i)
      await db
        .insertInto('notes')
        .values({ ...note, data })
        .execute()
      const row = await db.selectFrom('notes').select('data').executeTakeFirstOrThrow()
      expect(row.data).toBeInstanceOf(Uint8Array)
      expect([...(row.data ?? [])]).toEqual([...data])
    })

    test('undefined leaves a column to its default, null is null, and neither equals anything', async () => {
      const owner = 'ann'
      await db.insertInto('notes').values({ id: 1, owner, text: undefined }).execute()
      await db.insertInto('notes').values({ id: 2, owner, text: null }).execute()
      await db.updateTable('notes').set({ text: undefined, size: 5 }).where('id', '=', 1).execute()
      expect((await all()).map(({ text, size }) => ({ text, size }))).toEqual([
        { text: 'nothing', size: 5 },
        { text: null, size: null },
      ])
      const missing = undefined as unknown as string // what an unchecked field would be
      expect(await db.deleteFrom('notes').where('text', '=', missing).executeTakeFirst()).toEqual({
        numDeletedRows: 0n,
      })
    })

    test('a statement that the database refuses is no lost connection', async () => {
      await db.insertInto('notes').values(note).execute()
      const caught = (work: Promise<unknown>) =>
        work.then(
          () => undefined,
          (error) => error,
        )
      const sameId = await caught(
        db
          .insertInto('notes')
          .values({ ...note, text: 'x' })
          .execute(),
      )
      const sameText = await caught(
        db
          .insertInto('notes')
          .values({ ...note, id: 2 })
          .execute(),
      )
      const noOwner = await caught(sql`insert into notes (id) values (3)`.execute(db))
      const noNote = await caught(db.insertInto('replies').values({ note: 99 }).execute())
      const noTable = await caught(sql`select * from nowhere`.execute(db))
      expect([sameId, sameText, noOwner, noNote, noTable].map((e) => e instanceof Error)).toEqual(
        Array(5).fill(true),
      )
      expect([sameId, noOwner, noTable, undefined, 'text'].some(isConnectionError)).toBe(false)
    })

    test('changes say how many rows they changed', async () => {
      const insert = db.insertInto('notes').values([note, { ...note, id: 2, text: 'second' }])
      expect((await insert.executeTakeFirst()).numInsertedOrUpdatedRows).toBe(2n)
      const update = db.updateTable('notes').set({ done: true })
      expect((await update.executeTakeFirst()).numUpdatedRows).toBe(2n)
      const none = await update.where('id', '=', 99).executeTakeFirst()
      expect(none.numUpdatedRows).toBe(0n)
      const raw = await sql`/* why */ update notes set done = false -- all of them`.execute(db)
      expect(raw.numAffectedRows).toBe(2n)
      expect((await sql`create index by_owner on notes (owner)`.execute(db)).numAffectedRows).toBe(
        undefined,
      )
      expect((await db.deleteFrom('notes').executeTakeFirst()).numDeletedRows).toBe(2n)
    })

    test('an upsert returns the row as it is after', async () => {
      const add = (name: string) =>
        db
          .insertInto('counters')
          .values({ name, value: 1 })
          .onConflict((conflict) =>
            conflict.column('name').doUpdateSet((eb) => ({ value: eb('counters.value', '+', 1) })),
          )
          .returning('value')
          .executeTakeFirstOrThrow()
      expect(await add('a')).toEqual({ value: 1 })
      expect(await add('a')).toEqual({ value: 2 })
    })

    test('a transaction that throws leaves nothing', async () => {
      const failing = db.transaction().execute(async (trx) => {
        await trx.insertInto('notes').values(note).execute()
        await trx.insertInto('replies').values({ note: 1 }).execute()
        throw new Error('changed my mind')
      })
      await expect(failing).rejects.toThrow('changed my mind')
      expect(await all()).toEqual([])
    })

    test('a failed statement spoils its transaction, which cannot then be committed', async () => {
      await db.insertInto('notes').values(note).execute()
      const carryingOn = db.transaction().execute(async (trx) => {
        await trx.insertInto('counters').values({ name: 'a', value: 1 }).execute()
        await trx
          .insertInto('notes')
          .values(note)
          .execute()
          .catch(() => {})
        await expect(
          trx.insertInto('counters').values({ name: 'b', value: 1 }).execute(),
        ).rejects.toThrow(/transaction/)
      })
      await expect(carryingOn).rejects.toThrow('rolled back instead of committed')
      expect(await db.selectFrom('counters').selectAll().execute()).toEqual([])
    })

    test('a savepoint takes back what came after it, a failure included', async () => {
      await db.insertInto('notes').values(note).execute()
      const trx = await db.startTransaction().execute()
      await trx.insertInto('counters').values({ name: 'kept', value: 1 }).execute()
      const saved = await trx.savepoint('here "and" now').execute()
      await saved.insertInto('counters').values({ name: 'dropped', value: 1 }).execute()
      await expect(saved.insertInto('notes').values(note).execute()).rejects.toThrow()
      const back = await saved.rollbackToSavepoint('here "and" now').execute()
      await back.insertInto('counters').values({ name: 'after', value: 1 }).execute()
      await back.releaseSavepoint('here "and" now').execute()
      await trx.commit().execute()
      const names = await db.selectFrom('counters').select('name').orderBy('name').execute()
      expect(names).toEqual([{ name: 'after' }, { name: 'kept' }])
    })

    test('while a transaction waits for something else, nobody slips into it', async () => {
      const gap = Promise.withResolvers<void>()
      const inside = Promise.withResolvers<void>()
      const doomed = db.transaction().execute(async (trx) => {
        await trx.insertInto('notes').values(note).execute()
        inside.resolve()
        await gap.promise
        throw new Error('changed my mind')
      })
      await inside.promise
      const others = [2, 3, 4].map((id) =>
        db
          .insertInto('notes')
          .values({ ...note, id, text: `note ${id}` })
          .execute(),
      )
      await turnOfTheLoop()
      gap.resolve()
      await expect(doomed).rejects.toThrow('changed my mind')
      await Promise.all(others)
      expect((await all()).map((row) => row.id)).toEqual([2, 3, 4])
    })

    test('concurrent increments all count', async () => {
      await db.insertInto('counters').values({ name: 'a', value: 0 }).execute()
      const increment = (handle: Kysely<Tables>) =>
        handle
          .updateTable('counters')
          .set((eb) => ({ value: eb('value', '+', 1) }))
          .execute()
      await Promise.all(
        Array.from({ length: 60 }, (_, i) =>
          i % 2
            ? increment(db)
            : db.transaction().execute(async (trx) => {
                await increment(trx)
                await turnOfTheLoop()
                await increment(trx)
              }),
        ),
      )
      expect(await db.selectFrom('counters').select('value').executeTakeFirst()).toEqual({
        value: 90,
      })
    })

    test('a stream gives every row, in pieces, and can be left early', async () => {
      for (let id = 1; id <= 25; id++)
        await db
          .insertInto('notes')
          .values({ ...note, id, text: `note ${id}` })
          .execute()
      const some = db.selectFrom('notes').select(['id', 'done']).where('id', '>', 2).orderBy('id')
      const seen: number[] = []
      for await (const row of some.stream(10)) {
        expect(row.done).toBe(false)
        seen.push(row.id)
      }
      expect(seen).toEqual(Array.from({ length: 23 }, (_, i) => i + 3))
      for await (const row of some.stream(10)) if (row.id === 5) break
      expect((await all()).length).toBe(25)
    })

    test('a stream inside a transaction sees it and leaves it open', async () => {
      await db.transaction().execute(async (trx) => {
        for (const id of [1, 2, 3])
          await trx
            .insertInto('notes')
            .values({ ...note, id, text: `note ${id}` })
            .execute()
        const seen: number[] = []
        for await (const { id } of trx.selectFrom('notes').select('id').stream(1)) seen.push(id)
        for await (const { id } of trx.selectFrom('notes').select('id').stream(1)) {
          seen.push(id)
          break
        }
        expect(seen).toEqual([1, 2, 3, 1])
        await trx.insertInto('counters').values({ name: 'after', value: 1 }).execute()
      })
      expect((await all()).length).toBe(3)
      expect(await db.selectFrom('counters').select('name').execute()).toEqual([{ name: 'after' }])
    })

    test('a stream that fails says why and frees the connection', async () => {
      const wrong = sql<{ id: number }>`select id from nowhere`.compile(db)
      const read = async () => {
        for await (const _ of db.getExecutor().stream(wrong, 10)) continue
      }
      for (let i = 0; i < 15; i++) await expect(read()).rejects.toThrow(/nowhere/)
      expect(await all()).toEqual([])
    })

    test('several statements in one text all run', async () => {
      await sql`create table one (a integer); create table two (b boolean); -- that is all`.execute(
        db,
      )
      await sql`insert into one values (1); insert into two values (true);`.execute(db)
      expect((await sql`select * from one, two`.execute(db)).rows).toEqual([{ a: 1, b: true }])
      await sql`drop table one; drop table two`.execute(db)
      const half = sql`create table three (a integer); insert into nowhere values (1)`.execute(db)
      await expect(half).rejects.toThrow(/nowhere/)
      await expect(sql`select * from three`.execute(db)).rejects.toThrow(/three/)
    })

    test('a query sees columns that were added after it first ran', async () => {
      await sql`create table grows (a integer)`.execute(db)
      const every = () => sql`select * from grows`.execute(db)
      await sql`insert into grows values (1)`.execute(db)
      expect((await every()).rows).toEqual([{ a: 1 }])
      await sql`alter table grows add column b boolean default true`.execute(db)
      expect((await every()).rows).toEqual([{ a: 1, b: true }])
      await sql`drop table grows`.execute(db)
    })

    test('a prepared query takes new values each time, inside a transaction too', async () => {
      const byOwner = prepared(db, (p: { owner: string; done: boolean }) =>
        db.selectFrom('notes').select('id').where('owner', '=', p.owner).where('done', '=', p.done),
      )
      const add = prepared(db, (p: { id: number; owner: string; done: boolean }) =>
        db.insertInto('notes').values({ ...note, id: p.id, owner: p.owner, done: p.done }),
      )
      await add({ id: 1, owner: 'ann', done: true })
      await add({ id: 2, owner: 'bob', done: true })
      expect((await byOwner({ owner: 'bob', done: true })).rows).toEqual([{ id: 2 }])
      expect((await byOwner({ owner: 'bob', done: false })).rows).toEqual([])
      const inside = db.transaction().execute(async (trx) => {
        expect((await add({ id: 3, owner: 'cid', done: false }, trx)).numAffectedRows).toBe(1n)
        expect((await byOwner({ owner: 'cid', done: false }, trx)).rows).toEqual([{ id: 3 }])
        throw new Error('enough')
      })
      await expect(inside).rejects.toThrow('enough')
      expect((await byOwner({ owner: 'cid', done: false })).rows).toEqual([])
    })

    test('five hundred different queries leave every one of them right', async () => {
      const answer = (i: number) => sql<{ n: number }>`select ${sql.lit(i)} as n`.execute(db)
      for (const _ of [1, 2])
        for (let i = 0; i < 500; i++) expect((await answer(i)).rows).toEqual([{ n: i }])
    })

    test('messages reach every listener until it stops', async () => {
      const heard: string[] = []
      const stopFirst = await store.listen('runs', (payload) => heard.push(`first ${payload}`))
      const stopSecond = await store.listen('runs', (payload) => heard.push(`second ${payload}`))
      const stopOther = await store.listen('other_channel', (payload) =>
        heard.push(`other ${payload}`),
      )
      await store.notify('runs', 'a')
      await expect.poll(() => heard).toEqual(['first a', 'second a'])
      await stopFirst()
      await store.notify('nobody', 'lost')
      await store.notify('runs', 'b ü')
      await store.notify('other_channel', '')
      await expect.poll(() => heard).toEqual(['first a', 'second a', 'second b ü', 'other '])
      await stopSecond()
      await stopOther()
      const again = await store.listen('runs', (payload) => heard.push(`again ${payload}`))
      await store.notify('runs', 'c')
      await expect.poll(() => heard.at(-1)).toBe('again c')
      await again()
    })

    test('a listener that throws does not spoil the next', async () => {
      const heard: string[] = []
      const stops = [
        await store.listen('runs', () => {
          throw new Error('not today')
        }),
        await store.listen('runs', (payload) => heard.push(payload)),
      ]
      await store.notify('runs', 'a')
      await expect.poll(() => heard).toEqual(['a'])
      for (const stop of stops) await stop()
    })

    test('the key of a channel is any id of letters, digits, - and _', async () => {
      for (const key of ['a__b', '__', '_-', '-__9']) {
        const told = Promise.withResolvers<string>()
        const stop = await store.listen(`runs.${key}`, told.resolve)
        await store.notify(`runs.${key}`, key)
        expect(await told.promise).toBe(key)
        await stop()
      }
    })

    test('a channel is an identifier and a message is short', async () => {
      for (const channel of [
        '',
        'Runs',
        'runs; drop table notes',
        'a-b',
        '1a',
        'a__1',
        'a'.repeat(64),
      ]) {
        await expect(store.listen(channel, () => {})).rejects.toThrow(TypeError)
        await expect(store.notify(channel, '')).rejects.toThrow(TypeError)
      }
      await expect(store.notify('runs', 'ü'.repeat(4000))).rejects.toThrow(RangeError)
      await store.notify('runs', 'x'.repeat(7999))
    })

    test('the database answers a ping, even in the middle of a transaction', async () => {
      expect(await store.ping()).toBe(true)
      await db.transaction().execute(async (trx) => {
        await trx.insertInto('notes').values(note).execute()
        expect(await store.ping()).toBe(true)
      })
    })
  })
}

const folders: string[] = []
async function folder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'store-'))
  folders.push(path)
  return path
}
afterAll(async () => {
  killChildren()
  for (const path of folders) await rm(path, { recursive: true, force: true })
})
const openFolder = async (path: string) =>
  openStore({ dataDir: await openDataDir(path), log: silent })

behavesAlike(
  'SQLite in memory',
  () => openStore({ log: silent }),
  async () => {},
)
behavesAlike(
  'SQLite in a file',
  async () => openFolder(await folder()),
  async () => {},
)

describe('SQLite', () => {
  test('keeps its files to its owner, those that it finds too', async () => {
    const path = await folder()
    await writeFile(join(path, 'oracle.sqlite'), '')
    await chmod(join(path, 'oracle.sqlite'), 0o644)
    const store = await openFolder(path)
    await sql`create table t (a integer)`.execute(store.db)
    const names = (await readdir(path)).sort()
    expect(names).toEqual(['oracle.sqlite', 'oracle.sqlite-shm', 'oracle.sqlite-wal'])
    for (const name of names) expect((await stat(join(path, name))).mode & 0o777).toBe(0o600)
    await store.close()
  })

  test('keeps a log that one can bring to the disk', async () => {
    const database = openSqlite(join(await folder(), 'db'))
    const setting = (name: string) =>
      Object.values(database.prepare(`pragma ${name}`).get() ?? {})[0]
    expect(setting('journal_mode')).toBe('wal')
    expect(setting('synchronous')).toBe(1)
    expect(setting('foreign_keys')).toBe(1)
    database.close()
  })

  test('waiting for the disk, again and again and while it is closed, does not hang', async () => {
    const path = join(await folder(), 'db')
    const database = openSqlite(path)
    const wal = new WalSync(path)
    const db = new Kysely<{}>({ dialect: sqliteDialect(database, { patienceMs: 50, wal }) })
    await sql`create table t (a integer)`.execute(db)
    const inserts = Array.from({ length: 20 }, (_, i) =>
      sql`insert into t values (${i})`.execute(db),
    )
    await Promise.all([...inserts, wal.synced(), wal.synced()])
    await wal.close()
    await sql`insert into t values (20)`.execute(db)
    const last = wal.synced()
    await db.destroy()
    await last
    await wal.close()
  })

  test('tells nobody that something is written before the disk has it', async () => {
    const synced = Promise.withResolvers<void>()
    const wal = { synced: () => synced.promise } as WalSync
    const dialect = sqliteDialect(openSqlite(join(await folder(), 'db')), { patienceMs: 50, wal })
    const [db, unsynced] = [dialect, dialect.unsynced].map(
      (each) => new Kysely<{}>({ dialect: each }),
    )
    const order: string[] = []
    const create = sql`create table t (a integer)`.execute(db!).then(() => order.push('created'))
    await sql`insert into t values (1)`.execute(unsynced!)
    // A read waits for nobody's disk, and neither does a transaction that only reads.
    const { rows } = await db!.transaction().execute((trx) => sql`select a from t`.execute(trx))
    expect(rows).toEqual([{ a: 1 }])
    await sql`with one as (select a from t) select a from one`.execute(db!)
    order.push('read')
    synced.resolve()
    await create
    expect(order).toEqual(['read', 'created'])
    await db!.destroy()
  })

  test('serves those who wait in the order in which they came', async () => {
    const { db, close } = await openStore({ log: silent })
    const order: number[] = []
    const first = db.transaction().execute(async () => {
      await turnOfTheLoop()
      order.push(0)
    })
    await Promise.all([
      first,
      ...[1, 2, 3, 4, 5, 6].map(async (i) => {
        if (i % 2) await sql`select 1`.execute(db)
        else await db.transaction().execute((trx) => sql`select 1`.execute(trx))
        order.push(i)
      }),
    ])
    expect(order).toEqual([0, 1, 2, 3, 4, 5, 6])
    await close()
  })

  test('lets the rest of the process live while a long loop of queries runs', async () => {
    const { db, close } = await openStore({ log: silent })
    let alive = false
    setTimeout(() => (alive = true), 1)
    let queries = 0
    for (; !alive && queries < 1_000_000; queries++) await sql`select 1`.execute(db)
    expect(alive).toBe(true)

    alive = false
    setTimeout(() => (alive = true), 1)
    const many = sql<{
      n: number
    }>`with recursive many(n) as (select 1 union all select n + 1 from many) select n from many`
    for await (const _ of db.getExecutor().stream(many.compile(db), 100)) if (alive) break
    await close()
  })

  test('says what to do when a transaction waits for itself', async () => {
    const database = openSqlite(':memory:')
    const db = new Kysely<{}>({ dialect: sqliteDialect(database, { patienceMs: 50 }) })
    const stuck = db.transaction().execute(() => sql`select 1`.execute(db))
    await expect(stuck).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      message: 'Busy, try again',
      headers: { 'Retry-After': '1' },
      cause: expect.objectContaining({
        message: expect.stringMatching(
          /^The database stayed in use for too long: .* Inside a transaction use the handle it gives/,
        ),
      }),
    })
    expect((await sql`select 1 as n`.execute(db)).rows).toEqual([{ n: 1 }])
    await db.destroy()
  })

  test('rolls back what somebody began by hand and never ended', async () => {
    const { db, close } = await openStore({ log: silent })
    await sql`create table t (a integer)`.execute(db)
    await sql`begin`.execute(db)
    await sql`insert into t values (1)`.execute(db)
    await db.connection().execute(async (connection) => {
      await sql`begin`.execute(connection)
      await sql`insert into t values (2)`.execute(connection)
    })
    expect((await sql`select a from t`.execute(db)).rows).toEqual([{ a: 1 }])
    await close()
  })

  test('waits for another process that writes, and lets this one live meanwhile', async () => {
    const path = await folder()
    const store = await openFolder(path)
    await sql`create table t (a integer)`.execute(store.db)
    const other = new DatabaseSync(join(path, 'oracle.sqlite'))
    other.exec('begin immediate')
    const waiting = [
      sql`insert into t values (1)`.execute(store.db),
      store.db.transaction().execute((trx) => sql`insert into t values (2)`.execute(trx)),
      sql`insert into t values (3); insert into t values (4)`.execute(store.db),
    ]
    await sleep(60)
    other.exec('insert into t values (0); commit')
    other.close()
    await Promise.all(waiting)
    const { rows } = await sql<{ a: number }>`select a from t`.execute(store.db)
    expect(rows.map((row) => row.a)).toEqual([0, 1, 2, 3, 4])
    await store.close()
  })

  test('names a parameter that it cannot store', async () => {
    const { db, close } = await openStore({ log: silent })
    const store = (value: unknown) => sql`select ${'x'}, ${sql.val(value)}`.execute(db)
    await expect(store(new Date())).rejects.toThrow(
      'Parameter 2 of the query is a Date: give its toISOString().',
    )
    await expect(store({ a: 1 })).rejects.toThrow(
      'Parameter 2 of the query is an object: give text, such as its JSON.',
    )
    await close()
  })

  test.each([true, false])('that was closed cannot be had (used before: %s)', async (used) => {
    const store = await openFolder(await folder())
    if (used) await sql`select 1`.execute(store.db)
    await Promise.all([store.close(), store.close()])
    const error = await sql`select 1`.execute(store.db).catch((error: unknown) => error)
    expect(isConnectionError(error)).toBe(true)
    expect(await store.ping()).toBe(false)
  })

  test('lets a running transaction finish when it is closed', async () => {
    const path = await folder()
    const store = await openFolder(path)
    await sql`create table t (a integer)`.execute(store.db)
    const begun = Promise.withResolvers<void>()
    const running = store.db.transaction().execute(async (trx) => {
      begun.resolve()
      await turnOfTheLoop()
      await sql`insert into t values (1)`.execute(trx)
    })
    await begun.promise
    await store.close()
    await running
    const again = await openFolder(path)
    expect((await sql`select a from t`.execute(again.db)).rows).toEqual([{ a: 1 }])
    await again.close()
  })

  test('says which file is no database', async () => {
    const path = await folder()
    await writeFile(
      join(path, 'oracle.sqlite'),
      'this is a text, and a rather long one, not a database'.repeat(50),
    )
    await expect(openFolder(path)).rejects.toMatchObject({
      code: 'DATA_DIR_UNUSABLE',
      message: `${join(path, 'oracle.sqlite')} cannot be opened: file is not a database.`,
    })
  })

  test('has every row that it acknowledged before it was killed', async () => {
    const path = await folder()
    const store = await openFolder(path)
    await sql`create table rows (id integer primary key, body text not null)`.execute(store.db)
    await store.close()
    for (let round = 0; round < 5; round++) {
      const writer = startChild('row-writer.ts', [path])
      await writer.printed(20 + Math.floor(Math.random() * 200))
      await writer.kill('SIGKILL')
      const acknowledged = writer.lines.map(Number)
      const last = acknowledged.length

      const database = new DatabaseSync(join(path, 'oracle.sqlite'))
      expect(database.prepare('pragma integrity_check').get()).toEqual({ integrity_check: 'ok' })
      const ids = database
        .prepare('select id from rows order by id')
        .all()
        .map((row) => Number(row.id))
      expect(acknowledged).toEqual(Array.from({ length: last }, (_, i) => i + 1))
      const written = new Set(ids)
      expect(acknowledged.filter((id) => !written.has(id))).toEqual([])
      // Whole transactions only: every third number has its pair, acknowledged or not.
      const halves = ids.filter((id) => id % 3 === 0 && !written.has(-id))
      expect(halves).toEqual([])
      database.exec('delete from rows')
      database.close()
    }
  })
})

await describeWith('postgres', 'on a PostgreSQL server', (server) => {
  let own: Awaited<ReturnType<typeof freshDatabase>>
  beforeAll(async () => void (own = await freshDatabase(server)))
  afterAll(() => own.drop())

  behavesAlike(
    'PostgreSQL',
    () => openStore({ databaseUrl: own.url, log: silent }),
    async () => {},
  )

  describe('PostgreSQL', () => {
    const open: { close(): Promise<void> }[] = []
    afterEach(async () => {
      for (const each of open.splice(0).reverse()) await each.close()
    })
    async function opened(url = own.url): Promise<Store> {
      const store = await openStore({ databaseUrl: url, log: silent })
      open.push(store)
      return store
    }
    async function wired() {
      const wire = await flakyWire(own.url)
      open.push(wire)
      return { wire, store: await opened(wire.url) }
    }
    const ask = (store: Store) => sql<{ n: number }>`select 1 as n`.execute(store.db)
    const failureOf = (work: Promise<unknown>) =>
      work.then(
        () => undefined,
        (error: unknown) => error,
      )

    test('that goes away is unreachable, and is there again when it comes back', async () => {
      const { wire, store } = await wired()
      await ask(store)
      expect(await store.ping()).toBe(true)
      await wire.cut()
      expect(await store.ping()).toBe(false)
      const error = await failureOf(ask(store))
      expect(error).toMatchObject({ code: 'DATABASE_UNREACHABLE', status: 503 })
      expect(isConnectionError(error)).toBe(true)
      expect(isConnectionError(new Error('wrapped', { cause: error }))).toBe(true)
      expect(isConnectionError(await failureOf(store.notify('runs', 'x')))).toBe(true)
      expect(isConnectionError(await failureOf(store.listen('runs', () => {})))).toBe(true)
      expect(isConnectionError(await failureOf(store.migrate('weather', {})))).toBe(true)
      await wire.restore()
      expect(await store.ping()).toBe(true)
      expect((await ask(store)).rows).toEqual([{ n: 1 }])
    })

    test('that falls silent does not make a ping wait', async () => {
      const { wire, store } = await wired()
      expect(await store.ping()).toBe(true)
      wire.silence()
      expect(await store.ping(100)).toBe(false)
      expect(await Promise.all([store.ping(50), store.ping(50), store.ping(50)])).toEqual([
        false,
        false,
        false,
      ])
      await wire.restore()
      await wire.cut()
      await wire.restore()
      await expect.poll(() => store.ping(), { timeout: 10_000 }).toBe(true)
    })

    test('that fell silent costs one query, not the connection of the next', async () => {
      const wire = await flakyWire(own.url)
      open.push(wire)
      const store = await opened(`${wire.url}?query_timeout=300`)
      await ask(store)
      wire.silence()
      expect(isConnectionError(await failureOf(ask(store)))).toBe(true)
      await wire.restore()
      expect((await ask(store)).rows).toEqual([{ n: 1 }])
    })

    test('whose connections are all in use still answers a ping', async () => {
      const store = await opened()
      const done = Promise.withResolvers<void>()
      const holding = Array.from({ length: 10 }, () =>
        store.db.transaction().execute(async (trx) => {
          await sql`select 1`.execute(trx)
          await done.promise
        }),
      )
      await turnOfTheLoop()
      expect(await store.ping()).toBe(true)
      done.resolve()
      await Promise.all(holding)
    })

    test('that drops a connection in the gap of a transaction ends the transaction, not the process', async () => {
      const { wire, store } = await wired()
      const stranded = store.db.transaction().execute(async (trx) => {
        await sql`select 1`.execute(trx)
        await wire.cut()
        await sleep(50)
        await wire.restore()
        await sql`select 1`.execute(trx)
      })
      expect(isConnectionError(await failureOf(stranded))).toBe(true)
      expect((await ask(store)).rows).toEqual([{ n: 1 }])
    })

    test('whose administrator ends every connection is used again at once', async () => {
      const store = await opened()
      await Promise.all(Array.from({ length: 5 }, () => ask(store)))
      const admin = new pg.Client(server)
      await admin.connect()
      await admin.query(
        'select pg_terminate_backend(pid) from pg_stat_activity where datname = $1',
        [new URL(own.url).pathname.slice(1)],
      )
      await admin.end()
      await expect.poll(() => ask(store).then(() => 'answered', isConnectionError)).toBe('answered')
    })

    test('is listened to again after a break, and the listeners learn of the gap', async () => {
      const { wire, store } = await wired()
      const elsewhere = await opened()
      const heard: string[] = []
      let gaps = 0
      const stop = await store.listen(
        'runs',
        (payload) => heard.push(payload),
        () => gaps++,
      )
      await elsewhere.notify('runs', 'before')
      await expect.poll(() => heard).toEqual(['before'])
      for (const round of [1, 2]) {
        await wire.cut()
        await elsewhere.notify('runs', 'missed')
        await wire.restore()
        await expect.poll(() => gaps, { timeout: 10_000 }).toBe(round)
        await elsewhere.notify('runs', `after ${round}`)
        await expect.poll(() => heard.at(-1)).toBe(`after ${round}`)
      }
      expect(heard).toEqual(['before', 'after 1', 'after 2'])
      await stop()
    })

    test('is listened to again after it fell silent', async () => {
      const wire = await flakyWire(own.url)
      open.push(wire)
      const { settings } = postgresSettings(`${wire.url}?query_timeout=200`)
      const pool = new Pool(settings, silent)
      const channels = new PostgresChannels({
        pool,
        settings,
        log: silent,
        heartbeatMs: 50,
        migrate: async () => {},
      })
      open.push(channels, { close: () => pool.close(0) })
      let gaps = 0
      await channels.listen(
        'runs',
        () => {},
        () => gaps++,
      )
      wire.silence()
      await sleep(100) // a heartbeat is lost, so that only its silence can tell
      await wire.restore()
      await expect.poll(() => gaps, { timeout: 10_000 }).toBe(1)
    })

    test('carries messages from one store to another', async () => {
      const [one, other] = [await opened(), await opened()]
      const heard: string[] = []
      await one.listen('runs', (payload) => heard.push(payload))
      for (let i = 0; i < 20; i++) await other.notify('runs', String(i))
      await expect.poll(() => heard).toEqual(Array.from({ length: 20 }, (_, i) => String(i)))
    })

    test('that is not there at the start is named, without the password', async () => {
      const wire = await flakyWire(own.url)
      await wire.cut()
      const url = new URL(wire.url)
      url.password = 'hush-hush'
      const error = await failureOf(
        openStore({ databaseUrl: url.href, log: silent, patienceMs: 0 }),
      )
      expect(error).toMatchObject({
        code: 'DATABASE_UNREACHABLE',
        message: expect.stringContaining(
          `PostgreSQL at 127.0.0.1:${url.port}${url.pathname} cannot be used: `,
        ),
        hint: expect.stringContaining('DATABASE_URL'),
      })
      expect(JSON.stringify(error) + String(error)).not.toContain('hush')
    })

    test('that starts later than the server is waited for', async () => {
      const wire = await flakyWire(own.url)
      open.push(wire)
      await wire.cut()
      const warnings: unknown[] = []
      const log = { ...silent, warn: (...line: unknown[]) => void warnings.push(line) }
      const opening = openStore({ databaseUrl: wire.url, log })
      await expect.poll(() => warnings).toHaveLength(1)
      await wire.restore()
      const store = await opening
      open.push(store)
      expect(await store.ping()).toBe(true)
    })

    test('that refuses is not waited for', async () => {
      const url = new URL(own.url)
      url.pathname = '/no_such_database'
      await expect(
        openStore({ databaseUrl: url.href, log: silent, patienceMs: 600_000 }),
      ).rejects.toMatchObject({
        code: 'DATABASE_UNREACHABLE',
        message: expect.stringContaining('database "no_such_database" does not exist'),
      })
    })

    test('keeps a fraction exact and leaves timestamps to pg', async () => {
      const { db } = await opened()
      const { rows } =
        await sql`select 0.10::numeric as price, 12::numeric as whole, 1.5::float8 as ratio,
        '2025-01-02T03:04:05Z'::timestamptz as at`.execute(db)
      expect(rows).toEqual([
        { price: '0.10', whole: 12, ratio: 1.5, at: new Date('2025-01-02T03:04:05Z') },
      ])
    })

    test('changes nothing for other users of pg in the process', async () => {
      const { db } = await opened()
      await sql`select count(*) from pg_class`.execute(db)
      const client = new pg.Client(own.url)
      await client.connect()
      expect((await client.query('select count(*) as n from (values (1)) as t')).rows).toEqual([
        { n: '1' },
      ])
      await client.end()
    })

    test('is closed even when it does not answer any more', async () => {
      const { wire, store } = await wired()
      await ask(store)
      await store.listen('runs', () => {})
      wire.silence()
      await store.close()
      expect(await store.ping()).toBe(false)
      expect(isConnectionError(await failureOf(ask(store)))).toBe(true)
    })
  })
})

describe('a DATABASE_URL that is none', () => {
  test.each([
    ['mysql://ann:hush@localhost/db', 'DATABASE_URL begins with "mysql:".'],
    ['hush-hush', 'DATABASE_URL is not a URL.'],
    ['postgres://ann:hush@[broken/db', 'DATABASE_URL cannot be read as a URL.'],
  ])('is refused without being repeated', async (databaseUrl, message) => {
    const error = await openStore({ databaseUrl, log: silent }).then(
      () => undefined,
      (error: unknown) => error,
    )
    expect(error).toMatchObject({ code: 'ENV_INVALID', message })
    expect(JSON.stringify(error)).not.toContain('hush')
    expect((error as Error).cause).toBeUndefined()
  })
})

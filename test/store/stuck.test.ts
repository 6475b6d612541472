import { setTimeout as sleep } from 'node:timers/promises'
import { Kysely, sql } from 'kysely'
import { expect, onTestFinished, test } from 'vitest'
import { openSqlite, sqliteDialect } from '../../core/runtime/store/sqlite.ts'

const shortMs = 60

async function open(idleMs = shortMs) {
  const ended: (Error | undefined)[] = []
  const dialect = sqliteDialect(openSqlite(':memory:'), {
    patienceMs: 30,
    idleMs,
    onEnded: (began) => void ended.push(began),
  })
  const db = new Kysely<{}>({ dialect })
  onTestFinished(() => db.destroy())
  await sql`create table t (a integer)`.execute(db)
  const rows = async () => (await sql<{ a: number }>`select a from t`.execute(db)).rows
  return { db, dialect, ended, rows }
}

/** What somebody hears who asks again and again, until the answer. */
async function askUntilAnswered<T>(ask: () => Promise<T>) {
  const refusals: Error[] = []
  for (let tries = 0; tries < 50; tries++)
    try {
      return { refusals, answer: await ask() }
    } catch (error) {
      refusals.push(error as Error)
    }
  throw new Error('The database never answered.')
}

test('a transaction that awaits something for ever is ended, and the log hears where it began', async () => {
  const { db, ended, rows } = await open()
  const goOn = Promise.withResolvers<void>()
  async function forgetful() {
    await db.transaction().execute(async (trx) => {
      await sql`insert into t values (1)`.execute(trx)
      await goOn.promise
      await sql`insert into t values (2)`.execute(trx)
    })
  }
  const late = forgetful()
  late.catch(() => {})
  const { refusals, answer } = await askUntilAnswered(rows)
  expect(answer).toEqual([])
  expect(refusals[0]).toMatchObject({
    code: 'UNAVAILABLE',
    cause: { cause: { stack: expect.stringContaining('forgetful') } },
  })
  expect(ended.map((began) => began?.stack)).toEqual([expect.stringContaining('forgetful')])

  // Others use the connection when the ended transaction goes on: it must not write among their rows.
  const other = Promise.withResolvers<void>()
  const writing = db.transaction().execute(async (trx) => {
    await sql`insert into t values (3)`.execute(trx)
    await other.promise
  })
  goOn.resolve()
  await expect(late).rejects.toThrow(
    'This transaction was rolled back: it had run no statement for long',
  )
  other.resolve()
  await writing
  expect(await rows()).toEqual([{ a: 3 }])
})

test('its end commits nothing, neither of its own nor of others', async () => {
  const { db, rows } = await open()
  const goOn = Promise.withResolvers<void>()
  const late = db.transaction().execute(async (trx) => {
    await sql`insert into t values (1)`.execute(trx)
    await goOn.promise
  })
  late.catch(() => {})
  await askUntilAnswered(rows)
  const other = Promise.withResolvers<void>()
  const writing = db.transaction().execute(async (trx) => {
    await sql`insert into t values (2)`.execute(trx)
    await other.promise
    throw new Error('changed my mind')
  })
  writing.catch(() => {})
  goOn.resolve()
  await expect(late).rejects.toThrow('This transaction was rolled back')
  other.resolve()
  await expect(writing).rejects.toThrow('changed my mind')
  expect(await rows()).toEqual([])
})

test('the short way to the connection ends with its transaction', async () => {
  const { db, dialect, rows } = await open()
  const goOn = Promise.withResolvers<void>()
  const late = db.transaction().execute(async () => {
    const direct = dialect.direct()
    await goOn.promise
    await direct(sql`insert into t values (1)`.compile(db))
  })
  late.catch(() => {})
  await askUntilAnswered(rows)
  goOn.resolve()
  await expect(late).rejects.toThrow('This transaction was rolled back')
  expect(await rows()).toEqual([])
})

test('a stream whose reader has stopped is ended', async () => {
  const { db, rows } = await open()
  await sql`insert into t values (1), (2), (3)`.execute(db)
  const goOn = Promise.withResolvers<void>()
  const read: unknown[] = []
  const reading = (async () => {
    const query = sql<{ a: number }>`select a from t`.compile(db)
    for await (const result of db.getExecutor().stream(query, 1)) {
      read.push(...result.rows)
      await goOn.promise
    }
  })()
  reading.catch(() => {})
  expect((await askUntilAnswered(rows)).answer).toHaveLength(3)
  goOn.resolve()
  await expect(reading).rejects.toThrow('it had run no statement for long')
  expect(read).toEqual([{ a: 1 }])
})

test('a transaction that goes on working keeps the database, however long others wait', async () => {
  const { db, ended, rows } = await open(1_000)
  const working = db.transaction().execute(async (trx) => {
    for (let i = 0; i < 12; i++) {
      await sql`insert into t values (${i})`.execute(trx)
      await sleep(100)
    }
  })
  expect((await askUntilAnswered(rows)).answer).toHaveLength(12)
  await working
  expect(ended).toEqual([])
})

test('a transaction for which nobody waits may take its time', async () => {
  const { db, ended, rows } = await open()
  await db.transaction().execute(async (trx) => {
    await sql`insert into t values (1)`.execute(trx)
    await sleep(3 * shortMs)
  })
  expect(await rows()).toEqual([{ a: 1 }])
  expect(ended).toEqual([])
})

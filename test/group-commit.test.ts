import { sql } from 'kysely'
import { afterEach, beforeEach, expect, it } from 'vitest'
import type { Kysely } from 'kysely'
import { groupCommit } from '../core/runtime/group-commit.ts'
import { sqliteDb } from './support/checkpoint-db.ts'

let db: Kysely<{}>
let groups: number[][]
let write: (item: number) => Promise<void>

beforeEach(async () => {
  db = sqliteDb()
  groups = []
  await sql`create table numbers (n integer primary key)`.execute(db)
  write = groupCommit<number>(db, async (transaction, items) => {
    groups.push([...items])
    for (const n of items) await sql`insert into numbers values (${n})`.execute(transaction)
  })
})
afterEach(() => db.destroy())

const stored = async () =>
  (await sql<{ n: number }>`select n from numbers order by n`.execute(db)).rows.map(({ n }) => n)

it('what is written in one turn of the event loop is one transaction, in order', async () => {
  await Promise.all([3, 1, 2].map(write))
  expect(groups).toEqual([[3, 1, 2]])
  expect(await stored()).toEqual([1, 2, 3])
})

it('a write is there when its promise resolves', async () => {
  await write(1)
  expect(await stored()).toEqual([1])
})

it('what comes while a transaction runs waits for the next', async () => {
  const first = write(1)
  await new Promise((resolve) => setImmediate(resolve))
  const more = [write(2), write(3)]
  await Promise.all([first, ...more])
  expect(groups).toEqual([[1], [2, 3]])
})

it('a write that fails fails alone', async () => {
  await write(2)
  const results = await Promise.allSettled([1, 2, 3].map(write))
  expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
  expect(await stored()).toEqual([1, 2, 3])
})

it('it goes on after a failure', async () => {
  await write(1)
  await expect(write(1)).rejects.toThrow('UNIQUE')
  await write(2)
  expect(await stored()).toEqual([1, 2])
})

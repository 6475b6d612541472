import { sql } from 'kysely'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { groupCommit, type GroupCommit, type Write } from '../core/runtime/store/group-commit.ts'
import { openStore, type Store } from '../core/runtime/store/store.ts'
import { silent } from './support/silent-log.ts'

let store: Store
let db: Store['db']
let commits: GroupCommit
let groups: number[][]
let write: Write<number>

beforeEach(async () => {
  store = await openStore({ log: silent })
  db = store.db
  groups = []
  await sql`create table numbers (n integer primary key)`.execute(db)
  commits = groupCommit(db)
  write = commits.writer<number>(async (transaction, items) => {
    groups.push([...items])
    for (const n of items) await sql`insert into numbers values (${n})`.execute(transaction)
  })
})
afterEach(() => store.close())

const stored = async () =>
  (await sql<{ n: number }>`select n from numbers order by n`.execute(db)).rows.map(({ n }) => n)
const nextTurn = () => new Promise((resolve) => setImmediate(resolve))

it('what is written in one turn of the event loop is one transaction, in order', async () => {
  await Promise.all([3, 1, 2].map((n) => write(n)))
  expect(groups).toEqual([[3, 1, 2]])
  expect(await stored()).toEqual([1, 2, 3])
})

it('a write is there when its promise resolves', async () => {
  await write(1)
  expect(await stored()).toEqual([1])
})

it('what comes while a transaction runs waits for the next', async () => {
  const first = write(1)
  await nextTurn()
  const more = [write(2), write(3)]
  await Promise.all([first, ...more])
  expect(groups).toEqual([[1], [2, 3]])
})

it('writers of different kinds share a transaction', async () => {
  const words: string[] = []
  const say = commits.writer<string>(async (transaction, items) => {
    words.push(...items)
    const { rows } = await sql<{ n: number }>`select count(*) as n from numbers`.execute(
      transaction,
    )
    words.push(`sees ${rows[0]?.n}`)
  })
  await Promise.all([write(1), say('a'), write(2), say('b')])
  expect(groups).toEqual([[1, 2]])
  expect(words).toEqual(['a', 'b', 'sees 2'])
})

it('a write that fails fails alone', async () => {
  await write(2)
  const results = await Promise.allSettled([1, 2, 3].map((n) => write(n)))
  expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
  expect(await stored()).toEqual([1, 2, 3])
})

it('it goes on after a failure', async () => {
  await write(1)
  await expect(write(1)).rejects.toThrow('UNIQUE')
  await write(2)
  expect(await stored()).toEqual([1, 2])
})

it('a write that may wait goes with the next that may not', async () => {
  const patient = write(1, 60_000)
  await nextTurn()
  expect(groups).toEqual([])
  await Promise.all([patient, write(2)])
  expect(groups).toEqual([[1, 2]])
})

it('a write that may wait is written in its time when nothing else comes', async () => {
  await Promise.all([write(1, 60_000), write(2, 20)])
  expect(groups).toEqual([[1, 2]])
})

it('a flush writes what waits, and what came in the meantime', async () => {
  const patient = write(1, 60_000)
  const flushed = commits.flush()
  const another = write(2, 60_000)
  await flushed
  expect(await stored()).toEqual([1, 2])
  await Promise.all([patient, another])
  await commits.flush()
})

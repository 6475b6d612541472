import { expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { sql } from 'kysely'
import { definePlugin } from '#core'
import { call, type TestUser } from '#core/testing'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { OpenMemory } from '../../../test/support/open-memory.ts'
import { watchStatements } from '../../../test/support/statements.ts'

const sky = definePlugin({
  name: 'sky',
  summary: 'Looks at the sky.',
  visibility: 'always',
  tools: {
    look: { description: 'Looks.', effect: 'read', input: z.object({}), run: () => 'blue' },
  },
})

/** What a statement does with tables of memory: `insert memory_passages`; undefined where it does nothing with them. */
function doingOf(text: string): string | undefined {
  const plain = text.replaceAll(/["\s]+/g, ' ').trim()
  const tables = plain.match(/\bmemory_(?!key)\w+/g)
  return tables ? `${plain.split(' ')[0]} ${[...new Set(tables)].join(' ')}` : undefined
}

const begins = 'select memory_people memory_sessions'
const notes = 'insert memory_used'
const ends = 'select memory_used memory_erased memory_passages memory_people memory_sessions'
const keeps = [
  'update memory_used',
  'update memory_memories',
  'insert memory_passages',
  'insert memory_spoken',
]
const at = '2026-01-01T00:00:00.000Z'
const exported = {
  kind: 'fact',
  about: 'me',
  value: '',
  by: 'person',
  validFrom: at,
  pinned: false,
  confirmedAt: at,
  createdAt: at,
  sources: [],
}

await onEachDatabase('the statements of a turn', ({ databaseUrl }) => {
  const open = new OpenMemory({}, databaseUrl, [sky])

  /** What the third turn of a session sends, which has three tools: those before have made the vectors and the index. */
  async function turn(user: TestUser, hasVectors = false): Promise<string[]> {
    const { sessionId } = (await user.post('/sessions')).body
    const say = async () => {
      open.replies.push(call('look'), call('look'), call('look'), 'Blue.')
      const { tools } = await user.say('What colour has the sky of my home?', { sessionId })
      expect(tools).toEqual(['look', 'look', 'look'])
      await settled(user, hasVectors)
    }
    await say()
    await say()
    const said: string[] = []
    const stop = watchStatements((text) => {
      const doing = doingOf(text)
      // The question whether each memory has its vector is this test's own.
      if (doing !== undefined && !text.includes('as many')) said.push(doing)
    })
    onTestFinished(stop)
    await say()
    stop()
    return said
  }
  /** Waits until everybody has heard of the ends, and each memory has its vector. */
  async function settled({ did }: TestUser, hasVectors: boolean) {
    const { db } = open.self
    const waiting = async () => {
      const { rows } = await sql<{
        many: number
      }>`select (select count(*) from kernel_unsettled) as many`.execute(db)
      return Number(rows[0]?.many)
    }
    await expect.poll(waiting, { timeout: 60_000 }).toBe(0)
    if (!hasVectors) return
    const lacking = async () => {
      const { rows } = await sql<{ many: number }>`select count(*) as many from memory_memories
        where did = ${did} and id not in (select memory_id from memory_vectors)`.execute(db)
      return Number(rows[0]?.many)
    }
    await expect.poll(lacking, { timeout: 60_000 }).toBe(0)
  }

  it.each(['ask', 'off'] as const)(
    'is one while memory is %s, whatever the turn does',
    async (mode) => {
      const user = await open.app.user()
      await user.put('/memory/settings', { mode })
      expect(await turn(user)).toEqual([begins])
    },
  )

  it('is seven with memory on, of which the first token waits for one, and no more for 300 memories than for one', async () => {
    const user = await open.user()
    await user.post('/memory', { text: 'lives in Lusaka', slot: 'home' })
    const few = await turn(user, true)
    // The model need not wait for the note of what it was shown: on PostgreSQL it may be written after the end was looked at.
    expect(few.filter((one) => one !== notes)).toEqual([begins, ends, ...keeps])
    expect(few.filter((one) => one === notes)).toHaveLength(1)
    const memories = Array.from({ length: 300 }, (_, i) => ({
      ...exported,
      text: `has sky number ${i}`,
    }))
    expect((await user.post('/memory/import', { version: 1, memories })).body.added).toBe(300)
    expect((await turn(user, true)).toSorted()).toEqual(few.toSorted())
  }, 120_000)
})

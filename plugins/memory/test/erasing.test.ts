import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import pg from 'pg'
import { afterAll, describe, expect, it } from 'vitest'
import { call, type TestUser } from '#core/testing'
import { onEachDatabase, onPostgres } from '../../../test/support/each-database.ts'
import { OpenMemory } from '../../../test/support/open-memory.ts'

const ways = {
  aardwolf: 'the tool',
  zebrafinch: 'the route',
  quokkatown: 'the end of the session',
  hedgehogia: 'everything at once',
} as const
type Word = keyof typeof ways

/** Has a word remembered that is said once, and erases it; resolves to the person, and the session where it was said. */
async function rememberedAndErased(open: OpenMemory, word: Word) {
  const user = await open.user()
  open.replies.push(
    call('remember', { text: `keeps the ${word}`, slot: 'pet', value: word }),
    'Yes.',
  )
  const { sessionId } = await user.say(`Please remember that I keeps the ${word}`)
  expect(await open.texts(user)).toEqual([`keeps the ${word}`])
  await open.quiet(user, sessionId)
  // It is found in what was said, and it is shown.
  expect(await spoken(open, user, word)).toHaveLength(1)
  await user.say('Which pet do I keep?')
  expect(asked(open)).toContain(word)
  const [{ id }] = (await user.get('/memory')).body.memories
  if (ways[word] === 'the tool') {
    open.replies.push(call('forget', { ids: ['m1'] }), 'Gone.')
    const waiting = await user.say('Forget which pet I keep', { approvals: true })
    expect(waiting.status).toBe('waiting')
    const question = `Shall I erase this for good: “keeps the ${word}”?`
    expect(waiting.of('interrupt')).toMatchObject([{ args: { ids: ['m1'] }, question }])
    expect((await waiting.approve()).status).toBe('finished')
  } else if (ways[word] === 'the route')
    expect((await user.delete(`/memory/${id}`)).body.sessions).toMatchObject([{ sessionId }])
  else if (ways[word] === 'everything at once') await user.delete('/memory?all=true')
  else await user.delete(`/sessions/${sessionId}`)
  return { user, sessionId }
}

const asked = ({ model }: OpenMemory) => JSON.stringify(model.requests.at(-1))
const spoken = (open: OpenMemory, { did }: TestUser, question: string) =>
  open.self.passages.find(open.self.db, did, { question, from: 0, to: Number.MAX_SAFE_INTEGER })

async function isGone(open: OpenMemory, user: TestUser, word: string): Promise<void> {
  expect(await open.texts(user, '?history=true')).toEqual([])
  expect(await open.texts(user, `?query=${word}&history=true`)).toEqual([])
  expect(JSON.stringify((await user.get('/memory/export')).body)).not.toContain(word)
  expect(await spoken(open, user, word)).toEqual([])
  await user.say('Which pet do I keep?')
  expect(asked(open)).not.toContain(word)
}

/** `files` is what the files of the database hold, where that can be told at any time. */
const suite = (open: OpenMemory, files?: () => string) => {
  for (const [word, way] of Object.entries(ways) as [Word, string][])
    it(`takes a word away by ${way}: from requests, lists, searches and the export${files ? ', and from the files' : ''}`, async () => {
      const { user, sessionId } = await rememberedAndErased(open, word)
      await isGone(open, user, word)
      // A job that comes late finds nothing to bring back; said again later it may be kept again.
      await open.app.clock.advance('5m')
      expect(await open.texts(user, '?history=true')).toEqual([])
      const { sessions } = (await user.get('/sessions')).body
      expect(sessions.map((one: { sessionId: string }) => one.sessionId)).toEqual(
        way === 'the end of the session'
          ? expect.not.arrayContaining([sessionId])
          : expect.arrayContaining([sessionId]),
      )
      // The conversations still hold the word until they are deleted, too.
      for (const session of sessions) await user.delete(`/sessions/${session.sessionId}`)
      if (files) await expect.poll(() => files().includes(word), { timeout: 30_000 }).toBe(false)
      const again = { text: `keeps the ${word}` }
      expect((await user.post('/memory', again)).status).toBe(201)
      expect(await open.texts(user)).toEqual([again.text])
      if (files) expect(files()).toContain(word)
      await user.delete('/memory?all=true')
    })
}

await onEachDatabase('memory that is on for everybody', ({ databaseUrl }) => {
  const open = new OpenMemory({ MEMORY_MODE: 'on' }, databaseUrl)

  it('forgets a deleted session of a person of whom nothing else is known yet', async () => {
    const user = await open.app.user()
    open.notices('I live in Lusaka', {
      ...{ message: 1, quote: 'I live in Lusaka', text: 'lives in Lusaka', kind: 'fact' },
      ...{ about: 'me', slot: 'home', value: 'Lusaka' },
    })
    const { sessionId } = await user.say('I live in Lusaka')
    await open.heard(user, sessionId)
    expect(await spoken(open, user, 'Lusaka')).toHaveLength(1)
    await user.delete(`/sessions/${sessionId}`)
    expect(await spoken(open, user, 'Lusaka')).toEqual([])
    expect(await open.self.unread(sessionId)).toBe(0)
    await open.app.clock.advance('5m')
    expect(await open.texts(user, '?history=true')).toEqual([])
  })
})

await onEachDatabase('a person who is erased', ({ databaseUrl }) => {
  const open = new OpenMemory({}, databaseUrl)

  it('leaves no job that names them', async () => {
    const user = await open.user()
    await user.post('/memory', { text: 'lives in Lusaka' })
    const { sessionId } = await user.say('Where do I live?')
    await open.heard(user, sessionId)
    const named = async () => {
      const { rows } = await sql<{ name: string }>`select name from kernel_jobs
        where key like ${`%${user.did}%`} or data like ${`%${user.did}%`}`.execute(open.self.db)
      return rows.map(({ name }) => name).toSorted()
    }
    expect(await named()).toEqual(['notice', 'vectors'])
    await user.erase()
    expect(await named()).toEqual([])
  })
})

describe('erasing is erasing, on SQLite', () => {
  const folder = mkdtempSync(join(tmpdir(), 'oracle-memory-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
  const open = new OpenMemory({ DATA_DIR: folder })
  suite(open, () =>
    readdirSync(folder)
      .filter((file) => file.startsWith('oracle.sqlite'))
      .map((file) => readFileSync(join(folder, file), 'latin1'))
      .join('\n'),
  )
})

await onPostgres('erasing is erasing, on PostgreSQL', ({ databaseUrl }) => {
  const open = new OpenMemory({}, databaseUrl)
  suite(open)

  it('leaves none of these words in any row after VACUUM, and in no byte of any file after VACUUM FULL', async () => {
    const user = await open.user()
    await user.post('/memory', { text: 'keeps the wombatina' })
    const client = new pg.Client(databaseUrl)
    await client.connect()
    try {
      await client.query('create extension pageinspect')
      await client.query('vacuum')
      // A row that was deleted and not freed yet would stand here, though no query shows it.
      const inRows = async (word: string) => {
        const { rows } = await client.query(
          `select distinct relname from pg_class, lateral generate_series(0, pg_relation_size(pg_class.oid) / 8192 - 1) as page,
            lateral heap_page_items(get_raw_page(pg_class.oid::regclass::text, page::int)) as item
            where relkind in ('r', 't') and (relname ~ '^(memory|kernel)_' or relkind = 't')
            and position($1::bytea in item.t_data) > 0`,
          [Buffer.from(word)],
        )
        return rows.map(({ relname }) => relname)
      }
      expect(await inRows('wombatina')).toEqual(['memory_memories', 'memory_sources'])
      for (const word of Object.keys(ways)) expect([word, await inRows(word)]).toEqual([word, []])
      await client.query('vacuum (full, analyze)')
      await client.query('checkpoint')
      const inFiles = async (word: string) => {
        const { rows } = await client.query(
          `select relname from pg_class where pg_relation_filepath(oid) is not null
            and position($1::bytea in pg_read_binary_file(pg_relation_filepath(oid), 0, 1000000000, true)) > 0`,
          [Buffer.from(word)],
        )
        return rows.map(({ relname }) => relname)
      }
      expect(await inFiles('wombatina')).toContain('memory_memories')
      for (const word of Object.keys(ways)) expect([word, await inFiles(word)]).toEqual([word, []])
    } finally {
      await client.end()
    }
  })
})

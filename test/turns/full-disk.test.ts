import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { sayingEngine } from '../support/fake-engines.ts'
import { type Replica, replica } from '../support/replica.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'full-disk-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

/** SQLite says that the disk is full where its file would have more pages than this. */
const pagesAtMost = (here: Replica, pages: number) =>
  sql`pragma max_page_count = ${sql.lit(pages)}`.execute(here.store.db)

const pagesOf = async (here: Replica) => {
  const { rows } = await sql<{ page_count: number }>`pragma page_count`.execute(here.store.db)
  return rows[0]?.page_count ?? NaN
}

const words = Array.from({ length: 30 }, (_, nth) => `word${nth} ${'x'.repeat(400)} `)
const answer = words.join('')
/** Longer than what may be free in the pages of the file. */
const longMessage = 'y'.repeat(30_000)

test('a disk that is full in the middle of many turns loses none of them, with a fake engine', async () => {
  const here = await replica({
    engine: sayingEngine(words, 20),
    dataDir: folder,
    leaseMs: 1_000,
  })
  const sessions = await Promise.all(Array.from({ length: 20 }, () => here.session()))
  const late = await here.session()
  const streams = await Promise.all(
    sessions.map((id) => here.stream(`/messages/${id}`, { message: 'Tell me all' })),
  )
  await pagesAtMost(here, await pagesOf(here))

  // Whoever comes now is told so.
  const refused = await here.call('POST', `/messages/${late}`, { message: longMessage })
  expect(refused.status).toBe(503)
  expect(refused.body).toMatchObject({ code: 'DATABASE_UNREACHABLE' })
  // The turns have said all that they have to say, and cannot be written.
  await new Promise((later) => setTimeout(later, 1_500))

  await pagesAtMost(here, 1_000_000)
  for (const stream of streams) await stream.rest().catch(() => undefined)
  for (const id of sessions)
    await vi.waitFor(
      async () => {
        const { messages } = (await here.call('GET', `/messages/${id}`)).body
        expect(messages).toMatchObject([
          { type: 'human', content: 'Tell me all' },
          { type: 'ai', content: answer },
        ])
      },
      { timeout: 30_000 },
    )
  // Nothing of what was refused is there, and the same words are taken now.
  expect((await here.call('GET', `/messages/${late}`)).body.messages).toEqual([])
  const again = await here.call('POST', `/messages/${late}`, {
    message: longMessage,
    stream: false,
  })
  expect(again.body.message).toMatchObject({ content: answer })
}, 120_000)

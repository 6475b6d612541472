import { sql } from 'kysely'
import { expect, it } from 'vitest'
import { call } from '#core/testing'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { OpenMemory } from '../../../test/support/open-memory.ts'
import { secrets } from './fixtures/wordings.ts'

const wordings = Object.values(secrets).flat()
const refused = [422, 'MEMORY_REFUSED', { reason: 'secret' }]

/** What is sensitive, in three languages; none of it is a secret. */
const sensitive: Readonly<Record<string, readonly string[]>> = {
  health: ['I have diabetes', 'Nina kisukari', 'J’ai le diabète'],
  religion: ['I go to church on Sundays', 'Mimi ni muislamu', 'Je suis catholique'],
  politics: ['I vote for the opposition', 'Napigia kura upinzani', 'Je vote pour la gauche'],
  origin: ['My tribe is Bemba', 'Kabila langu ni Wachaga', 'Mon ethnie est bemba'],
  'an exact address': [
    'I live at 7 Cairo Road',
    'Ninaishi nyumba namba 12',
    'J’habite au 12, rue de la Paix',
  ],
  sexuality: ['I am gay and happy', 'Mimi ni shoga', 'Je suis lesbienne'],
  crimes: ['I was in prison', 'Nilikuwa gerezani', 'J’étais en prison'],
}
const spoken = Object.entries(sensitive).flatMap(([what, said]) =>
  said.map((words) => [what, words] as const),
)

await onEachDatabase('secrets, and what is sensitive', ({ databaseUrl }) => {
  const open = new OpenMemory({}, databaseUrl)

  /** Every row that memory has of anybody, as text, but for the hashes. */
  async function everything(): Promise<string> {
    const { db } = open.self
    const tables = ['memories', 'sources', 'passages', 'vectors', 'used', 'counts', 'people']
    const texts: string[] = []
    for (const name of tables) {
      const { rows } = await sql`select * from ${sql.table(`memory_${name}`)}`.execute(db)
      texts.push(JSON.stringify(rows))
    }
    return texts.join('\n')
  }

  it(`keeps none of ${wordings.length} wordings: by hand, corrected, imported, asked for, or noticed`, async () => {
    const user = await open.user()
    const { id } = (await user.post('/memory', { text: 'likes tea' })).body
    const { body: exported } = await user.get('/memory/export')
    const [entry] = exported.memories
    const memories = wordings.map((text) => ({ ...entry, text }))
    const imported = await user.post('/memory/import', { version: 1, memories })
    expect(imported.body).toEqual({ added: 0, confirmed: 0, refused: { secret: wordings.length } })
    const quoted = wordings.map((quote) => ({
      ...entry,
      text: 'tells something else',
      sources: [{ sessionId: 's', runId: 'r', quote, at: entry.validFrom }],
    }))
    const second = await user.post('/memory/import', { version: 1, memories: quoted })
    expect(second.body).toEqual({ added: 0, confirmed: 0, refused: { secret: wordings.length } })
    for (const [i, text] of wordings.entries()) {
      // No more than 60 changes of a person are heard in a minute.
      if (i % 15 === 0) await open.app.clock.advance('2m')
      for (const answer of [
        await user.post('/memory', { text }),
        await user.patch(`/memory/${id}`, { text }),
        await user.post('/memory', { text: 'has it', about: text.slice(0, 80) }),
      ])
        expect([text, answer.status, answer.body.code, answer.body.details]).toEqual([
          text,
          ...refused,
        ])
    }
    expect(await open.texts(user, '?history=true')).toEqual(['likes tea'])
    const rows = await everything()
    for (const words of wordings) expect(rows).not.toContain(JSON.stringify(words).slice(1, -1))
  }, 300_000)

  it('keeps none of them where a model is asked to, and obeys, nor finds what was said', async () => {
    const users = await Promise.all(Array.from({ length: 10 }, () => open.user()))
    const sessions: [user: (typeof users)[number], sessionId: string][] = []
    // What a turn does with a sentence is the same on both databases: every third one there shows that.
    const told = databaseUrl === undefined ? wordings : wordings.filter((_, i) => i % 3 === 0)
    for (const [i, text] of told.entries()) {
      const user = users[i % users.length]
      if (!user) continue
      open.replies.push(call('remember', { text }), 'It is not kept.')
      const said = `Remember this (${i}): ${text}`
      open.notices(`(${i})`, {
        message: 1,
        quote: text,
        text,
        kind: 'fact',
      })
      const { sessionId, status } = await user.say(said)
      expect([text, status]).toEqual([text, 'finished'])
      sessions.push([user, sessionId])
    }
    for (const [user, sessionId] of sessions)
      await expect
        .poll(async () => (await user.get(`/memory/sessions/${sessionId}`)).body.pending, {
          timeout: 60_000,
        })
        .toBe(1)
    await open.app.clock.advance('5m')
    for (const [user, sessionId] of sessions)
      await expect
        .poll(async () => (await user.get(`/memory/sessions/${sessionId}`)).body.pending, {
          timeout: 60_000,
        })
        .toBe(0)
    for (const user of users) expect(await open.texts(user, '?history=true')).toEqual([])
    // What waited to be read was read, and is gone: nothing of it can be found again either.
    const rows = await everything()
    for (const words of wordings) expect(rows).not.toContain(JSON.stringify(words).slice(1, -1))
    open.forgetReadings()
  }, 300_000)

  it('keeps what is sensitive when it is asked for or written by hand, and never because it was noticed', async () => {
    for (const [what, words] of spoken) {
      const user = await open.user()
      open.notices(words, { message: 1, quote: words, text: words, kind: 'fact' })
      const before = (await open.counts())['refused:sensitive'] ?? 0
      await open.quiet(user, (await user.say(words)).sessionId)
      expect([what, words, await open.texts(user)]).toEqual([what, words, []])
      expect((await open.counts())['refused:sensitive']).toBe(before + 1)
      open.replies.push(call('remember', { text: words }), 'Kept.')
      await user.say(`Please remember: ${words}`)
      expect([what, words, await open.texts(user)]).toEqual([what, words, [words]])
      const other = await open.user()
      expect((await other.post('/memory', { text: words })).status).toBe(201)
      open.forgetReadings()
    }
  }, 300_000)
})

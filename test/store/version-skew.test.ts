import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { definePlugin, type Database } from '#core'
import type { Migrations } from '../../core/plugin.ts'
import { testApp } from '#core/testing'
import { AppFolder } from '../support/command-line.ts'
import { plannedDatabase } from '../support/database.ts'
import { onEachDatabase } from '../support/each-database.ts'
import { modelScript } from '../support/model-script.ts'
import { searchDatabase } from '../support/search-database.ts'

const first: Migrations = {
  '001-notes': (db) => db.schema.createTable('notebook_notes').addColumn('text', 'text').execute(),
}
const added: Migrations = {
  ...first,
  '002-stars': (db) =>
    db.schema
      .alterTable('notebook_notes')
      .addColumn('stars', 'integer', (column) => column.notNull().defaultTo(3))
      .execute(),
}
const broken: Migrations = {
  ...added,
  '003-words': {
    breaks: true,
    up: (db) => db.schema.alterTable('notebook_notes').renameColumn('text', 'words').execute(),
  },
}

/** A plugin of one version or another, with a tool that writes as the first version does. */
function notebook(migrations: Migrations, seen: { db?: Database } = {}) {
  return definePlugin({
    name: 'notebook',
    summary: 'Keeps notes.',
    visibility: 'always',
    migrations,
    setup({ db }) {
      seen.db = db
      return { db: db.withTables<{ notebook_notes: { text: string } }>() }
    },
    tools: {
      note: {
        description: 'Notes something.',
        input: z.object({ text: z.string() }),
        approve: false,
        async run({ text }, { self }) {
          await self.db.insertInto('notebook_notes').values({ text }).execute()
          return 'noted'
        },
      },
    },
  })
}

await onEachDatabase('an older version on the database of a newer one', ({ databaseUrl }) => {
  const model = modelScript(({ messages }) => {
    const last = messages.at(-1)
    return last?.role === 'user'
      ? { calls: [{ name: 'note', args: { text: String(last.content) } }] }
      : 'It is noted.'
  })
  const open = async (migrations: Migrations, env: Record<string, string>) => {
    const seen: { db?: Database } = {}
    const app = await testApp({ plugins: [notebook(migrations, seen)], model, env })
    onTestFinished(() => app.close())
    return { app, seen }
  }
  const place = async (): Promise<Record<string, string>> => {
    const DATA_DIR = mkdtempSync(join(tmpdir(), 'skew-'))
    onTestFinished(() => rmSync(DATA_DIR, { recursive: true, force: true }))
    if (databaseUrl === undefined) return { DATA_DIR }
    const own = plannedDatabase(databaseUrl)
    await own.create()
    onTestFinished(() => own.drop())
    return { DATABASE_URL: own.url, ORACLE_MNEMONIC: 'an oracle of two versions' }
  }

  it('boots with a warning that names what was added, serves, and finishes its turns', async () => {
    const env = await place()
    const newer = await open(added, env)
    // An addition of the kernel that this code does not know either.
    const { db } = newer.seen
    await sql`alter table kernel_sessions add column mood text`.execute(db!)
    await sql`insert into kernel_migrations (name, ran_at, breaks)
      values ('999-moods', '2027-01-01T00:00:00Z', 0)`.execute(db!)
    const user = await newer.app.user('somebody')
    const { sessionId } = await user.say('Of the newer')
    await newer.app.close()

    const older = await open(first, env)
    const warnings = older.app.log.filter((line) => line.includes('A newer version of'))
    expect(warnings).toHaveLength(2)
    expect(warnings.join()).toMatch(/kernel was here.*999-moods.*notebook was here.*002-stars/s)
    const same = await older.app.user('somebody')
    const said = await same.say('Of the older', { sessionId })
    expect(said).toMatchObject({ status: 'finished', text: 'It is noted.' })
    const { messages } = (await same.get(`/messages/${sessionId}`)).body
    expect(JSON.stringify(messages)).toContain('Of the newer')
    await older.app.close()

    const again = await open(added, env)
    const { rows } = await sql`select text, stars from notebook_notes order by text`.execute(
      again.seen.db!,
    )
    expect(rows).toEqual([
      { text: 'Of the newer', stars: 3 },
      { text: 'Of the older', stars: 3 },
    ])
  })

  it('refuses a migration that breaks, with its name and that of the last one of its own', async () => {
    const env = await place()
    await (await open(broken, env)).app.close()
    await expect(open(added, env)).rejects.toMatchObject({ code: 'MIGRATION_FAILED' })
    await expect(open(added, env)).rejects.toThrow(/"003-words" of notebook.*"002-stars"/)
  })

  it('is told what would run, and nothing of the database changes', async () => {
    using folder = new AppFolder(`import { defineApp, definePlugin } from 'oracle-runtime'
      const create = (db) => db.schema.createTable('notebook_notes').addColumn('text', 'text').execute()
      const more = (db) => db.schema.alterTable('notebook_notes').addColumn('stars', 'integer').execute()
      const migrations = process.env.NEWER ? { '001-notes': create, '002-stars': more } : { '001-notes': create }
      const app = defineApp({ plugins: [definePlugin({ name: 'notebook', summary: 'Notes.', migrations })] })
      export default app`)
    const env = await place()
    const file = env.DATABASE_URL ?? join(env.DATA_DIR ?? '', 'oracle.sqlite')
    expect((await folder.run(['migrate'], env)).code).toBe(0)
    const rows = () => searchDatabase(file, [''])
    const before = await rows()
    expect(before.length).toBeGreaterThan(10)
    const checked = await folder.run(['migrate', '--check'], { ...env, NEWER: '1' })
    expect(checked).toMatchObject({ code: 0, out: 'notebook: 002-stars\n1 migration would run.\n' })
    expect(await rows()).toEqual(before)
    expect((await folder.run(['migrate'], { ...env, NEWER: '1' })).out).toContain(
      '1 migration ran.',
    )
    expect(await rows()).not.toEqual(before)
  }, 120_000)
})

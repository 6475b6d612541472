import { createHash } from 'node:crypto'
import {
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  statSync,
  truncateSync,
} from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it } from 'vitest'
import { testApp } from '#core/testing'
import { AppFolder } from '../support/command-line.ts'

/** The notes of the users of a server whose data is in this folder. */
async function withServer(folder: string, work: (sessions: () => number) => Promise<void>) {
  const app = await testApp({ plugins: [], env: { DATA_DIR: join(folder, '.data') } })
  try {
    const user = await app.user('the same words')
    await user.say('Hello.')
    await work(() => countSessions(join(folder, '.data/oracle.sqlite')))
  } finally {
    await app.close()
  }
}

function countSessions(path: string): number {
  const database = new DatabaseSync(path, { readOnly: true })
  const row = database.prepare('select count(*) as n from kernel_sessions').get()
  database.close()
  return Number(row?.n)
}

describe('oracle-runtime backup and restore', () => {
  it('copy a database beside its running server, and put it back once the server is gone', async () => {
    using app = new AppFolder()
    let before = 0
    await withServer(app.path, async (sessions) => {
      before = sessions()
      const made = await app.run(['backup', 'copy.sqlite', '--keys'])
      expect(made.err).toBe('')
      const copy = join(app.path, 'copy.sqlite')
      const sum = createHash('sha256').update(readFileSync(copy)).digest('hex')
      expect(made.out).toContain(`sha256 ${sum}`)
      expect(statSync(copy).mode & 0o777).toBe(0o600)
      expect(readdirSync(`${copy}.keys`)).toContain('dev.env')
      expect(statSync(join(`${copy}.keys`, 'dev.env')).mode & 0o777).toBe(0o600)
      const busy = await app.run(['restore', 'copy.sqlite'])
      expect(busy.err).toContain('is in use by the server with pid')
      expect(busy.code).toBe(1)
    })
    await withServer(app.path, async (sessions) => expect(sessions()).toBeGreaterThan(before))
    const restored = await app.run(['restore', 'copy.sqlite'])
    expect(restored).toMatchObject({ code: 0, err: '' })
    expect(countSessions(join(app.path, '.data/oracle.sqlite'))).toBe(before)
    const [former = ''] = readdirSync(join(app.path, '.data')).filter((name) =>
      /before-/.test(name),
    )
    expect(countSessions(join(app.path, '.data', former))).toBeGreaterThan(before)
    await withServer(app.path, async (sessions) => expect(sessions()).toBeGreaterThan(before))
  }, 120_000)

  it('refuse what is there already, what is damaged and what is foreign, and leave all as it was', async () => {
    using app = new AppFolder()
    await withServer(app.path, async () => undefined)
    const path = join(app.path, '.data/oracle.sqlite')
    const bytes = () => readFileSync(path)
    const before = bytes()
    for (const target of ['.data/oracle.sqlite', 'none/copy.sqlite']) {
      const { code, err } = await app.run(['backup', target])
      expect(err).toContain('was not made')
      expect(code).toBe(1)
    }
    const damaged = join(app.path, 'damaged.sqlite')
    copyFileSync(path, damaged)
    truncateSync(damaged, Math.floor(statSync(damaged).size / 2))
    const foreign = join(app.path, 'foreign.sqlite')
    const other = new DatabaseSync(foreign)
    other.exec('create table mine (id integer)')
    other.close()
    const text = app.write('text.sqlite', 'hello')
    for (const file of [damaged, foreign, text]) {
      const { code, err } = await app.run(['restore', file])
      expect(err).toContain('is no backup of this runtime')
      expect(code).toBe(1)
    }
    expect(bytes().equals(before)).toBe(true)
    expect(readdirSync(join(app.path, '.data')).filter((name) => /before-/.test(name))).toEqual([])
    expect(existsSync(join(app.path, 'none'))).toBe(false)
    const nowhere = await app.run(['restore', 'nowhere'])
    expect(nowhere).toMatchObject({ code: 2, err: expect.stringMatching(/no file \/.*nowhere/) })
    const erase = await app.run(['erase', '--replay', 'nowhere'])
    expect(erase).toMatchObject({ code: 2, err: expect.stringMatching(/no file \/.*nowhere/) })
    const folder = await app.run(['erase', '--replay', '.data'])
    expect(folder).toMatchObject({ code: 2, err: expect.stringContaining('.data is a folder') })
    const postgres = { DATABASE_URL: 'postgres://127.0.0.1/none' }
    expect((await app.run(['backup'], postgres)).err).toContain('pg_dump')
  }, 120_000)
})

import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it } from 'vitest'
import { testApp } from '#core/testing'
import { AppFolder } from '../support/command-line.ts'
import { stallsDuring } from '../support/stalls.ts'

const copies = (folder: string) =>
  readdirSync(folder).filter((name) => /^oracle-.*Z\.sqlite$/.test(name))

const integrity = (path: string): unknown => {
  const database = new DatabaseSync(path, { readOnly: true })
  const row = database.prepare('pragma integrity_check').get()
  database.close()
  return row?.integrity_check
}

/** For how much longer than without a backup the event loop may stand still. */
const mostMs = 50
/** A busy machine holds a process for longer now and then; a backup that is in the way is so each time. */
const mostRounds = 5

describe('backups', () => {
  it('are made into BACKUP_DIR while the server runs, and only the newest stay', async () => {
    using folder = new AppFolder()
    const dir = join(folder.path, 'copies')
    mkdirSync(dir)
    const old = [1, 2, 3].map((day) => `oracle-2020-01-0${day}T00-00-00-000Z.sqlite`)
    const unfinished = '.oracle-8c4a8d09-ca37-4b62-8a6f-0f4f5f0b6a1c.sqlite'
    for (const name of [...old, 'mine.sqlite', unfinished]) writeFileSync(join(dir, name), 'x')
    const app = await testApp({
      plugins: [],
      env: { DATA_DIR: join(folder.path, '.data'), BACKUP_DIR: dir, BACKUP_KEEP: '2' },
    })
    try {
      await (await app.user('someone')).say('Hello.')
      const isDone = () => copies(dir).length === 2 && copies(dir).every((one) => one !== old[0])
      await expect.poll(isDone, { timeout: 60_000 }).toBe(true)
    } finally {
      await app.close()
    }
    const [before, made = ''] = copies(dir).toSorted()
    expect(before).toBe(old[2])
    expect(readdirSync(dir).toSorted()).toEqual([before, made, 'mine.sqlite'].toSorted())
    expect(statSync(join(dir, made)).mode & 0o777).toBe(0o600)
    expect(integrity(join(dir, made))).toBe('ok')
  }, 120_000)

  it('stop a boot whose BACKUP_DIR, BACKUP_EVERY or database cannot have them', async () => {
    using folder = new AppFolder()
    const DATA_DIR = join(folder.path, '.data')
    const boot = (env: Record<string, string>) => testApp({ plugins: [], env })
    const none = join(folder.path, 'none')
    await expect(boot({ DATA_DIR, BACKUP_DIR: none })).rejects.toThrow(/BACKUP_DIR is ".*none"/)
    await expect(boot({ DATA_DIR, BACKUP_DIR: folder.write('file', '') })).rejects.toThrow(/no dir/)
    for (const BACKUP_EVERY of ['soon', '0h', '24', '1.5h', '99999d'])
      await expect(boot({ DATA_DIR, BACKUP_EVERY })).rejects.toThrow(/BACKUP_EVERY/)
    await expect(boot({ DATA_DIR, BACKUP_KEEP: '0' })).rejects.toThrow(/BACKUP_KEEP/)
    await expect(boot({ DATA_DIR: ':memory:', BACKUP_DIR: folder.path })).rejects.toThrow(
      /no SQLite file/,
    )
    expect(existsSync(none)).toBe(false)
  }, 120_000)

  it('hold every message that had ended before, though 50 chats stream, and hold none of these up', async () => {
    using folder = new AppFolder()
    const dataDir = join(folder.path, '.data')
    // The chats come from one address, as fast as they can.
    const many = '1000000'
    const env = { DATA_DIR: dataDir, RATE_LIMIT_PER_MINUTE: many, TURNS_PER_DAY: many }
    const app = await testApp({ plugins: [], env })
    const ended: { words: string; sessionId: string; message: string }[] = []
    let before: readonly (typeof ended)[number][] = []
    let isOver = false
    const chat = async (number: number) => {
      const words = `chat ${number}`
      const user = await app.user(words)
      for (let turn = 0; turn < 2 || !isOver; turn++) {
        const message = `Message ${number}-${turn}.`
        const { sessionId } = await user.say(message)
        ended.push({ words, sessionId, message })
      }
    }
    try {
      const chats = Array.from({ length: 50 }, (_, number) => chat(number))
      await expect.poll(() => ended.length, { timeout: 60_000 }).toBeGreaterThanOrEqual(50)
      before = [...ended]
      // What 50 chats and their server do to one event loop is no fault of a backup.
      const quiet = await stallsDuring(() => sleep(2_000))
      let more = Infinity
      for (let round = 0; more > mostMs && round < mostRounds; round++) {
        rmSync(join(folder.path, 'copy.sqlite'), { force: true })
        const copying = async () => {
          const made = await folder.run(['backup', 'copy.sqlite'])
          expect(made).toMatchObject({ code: 0, err: '' })
        }
        more = Math.min(more, (await stallsDuring(copying)).clockMs - quiet.clockMs)
      }
      expect(more).toBeLessThanOrEqual(mostMs)
      isOver = true
      await Promise.all(chats)
    } finally {
      isOver = true
      await app.close()
    }
    expect(integrity(join(folder.path, 'copy.sqlite'))).toBe('ok')
    expect((await folder.run(['restore', 'copy.sqlite'])).code).toBe(0)
    const restored = await testApp({ plugins: [], env })
    try {
      for (const { words, sessionId, message } of before) {
        const user = await restored.user(words)
        const messages = await user.get(`/sessions/${sessionId}/messages`)
        expect(JSON.stringify(messages)).toContain(message)
      }
    } finally {
      await restored.close()
    }
  }, 180_000)

  it('are not restored while somebody writes the file, and vacuum shrinks a database that nobody holds', async () => {
    using folder = new AppFolder()
    const dataDir = join(folder.path, '.data')
    const app = await testApp({ plugins: [], env: { DATA_DIR: dataDir } })
    const held = await folder.run(['vacuum']).finally(() => app.close())
    expect(held).toMatchObject({ code: 1, err: expect.stringContaining('is in use') })
    const file = join(dataDir, 'oracle.sqlite')
    const growing = join(folder.path, 'growing.sqlite')
    copyFileSync(file, growing)
    const growsMeanwhile = `import fs from 'node:fs/promises'
      import { syncBuiltinESMExports } from 'node:module'
      const { copyFile } = fs
      fs.copyFile = async (from, to) => { await copyFile(from, to); await fs.appendFile(from, 'x') }
      syncBuiltinESMExports()`
    const refused = await folder.run(['restore', 'growing.sqlite'], {
      NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(growsMeanwhile)}`,
    })
    expect(refused).toMatchObject({ code: 1, err: expect.stringContaining('is being written') })
    expect(readdirSync(dataDir).filter((name) => /before-|^\..*sqlite/.test(name))).toEqual([])
    const database = new DatabaseSync(file)
    database.exec('create table big (a blob); insert into big values (zeroblob(2000000))')
    database.exec('drop table big; pragma wal_checkpoint(truncate)')
    database.close()
    const full = statSync(file).size
    expect((await folder.run(['vacuum'])).out).toContain(`${full} bytes before`)
    expect(statSync(file).size).toBeLessThan(full - 1_500_000)
    expect(integrity(file)).toBe('ok')
    expect((await folder.run(['vacuum'], { DATA_DIR: 'none' })).code).toBe(1)
  }, 120_000)
})

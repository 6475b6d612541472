import { existsSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { openDataDir } from '../../core/runtime/store/data-dir.ts'
import { killChildren, startChild } from '../support/child.ts'

let root: string
beforeEach(async () => void (root = await mkdtemp(join(tmpdir(), 'data-dir-'))))
afterEach(async () => {
  killChildren()
  await rm(root, { recursive: true, force: true })
})

const modeOf = async (path: string) => ((await stat(path)).mode & 0o777).toString(8)

describe('the data directory', () => {
  test('is made, with what leads to it, for its owner alone', async () => {
    const path = join(root, 'deep', 'data')
    await openDataDir(path)
    expect(await modeOf(path)).toBe('700')
    expect(await modeOf(join(root, 'deep'))).toBe('700')
  })

  test('that was open to others is closed to them', async () => {
    const path = join(root, 'data')
    await mkdir(path)
    await chmod(path, 0o755)
    await openDataDir(path)
    expect(await modeOf(path)).toBe('700')
  })

  test('that belongs to the whole machine is left as it is and refused', async () => {
    const path = join(root, 'shared')
    await mkdir(path)
    await chmod(path, 0o1777)
    await expect(openDataDir(path)).rejects.toMatchObject({ code: 'DATA_DIR_UNUSABLE' })
    expect(await modeOf(path)).toBe('777')
  })

  test('that cannot be made is named in a sentence with a hint', async () => {
    const file = join(root, 'file')
    await writeFile(file, '')
    // Linux makes no directory below /proc, and says that something is missing.
    const below = existsSync('/proc/self') ? ['/proc/self/data', '/proc/self/a/b'] : []
    for (const path of [file, join(file, 'below'), ...below])
      await expect(openDataDir(path)).rejects.toMatchObject({
        code: 'DATA_DIR_UNUSABLE',
        message: expect.stringContaining(`DATA_DIR ${path} cannot be used: E`),
        hint: expect.stringContaining('Set DATA_DIR'),
      })
  })

  test('knows only plain file names', async () => {
    const dataDir = await openDataDir(root)
    expect(dataDir.file('dev.env')).toBe(join(root, 'dev.env'))
    for (const name of ['', '.', '..', '../escape', 'a/b', '/etc/passwd', 'a\0b'])
      expect(() => dataDir.file(name)).toThrow(TypeError)
  })
})

describe('a file in it', () => {
  test('is read, or undefined when it is missing', async () => {
    const dataDir = await openDataDir(root)
    expect(await dataDir.read('none')).toBeUndefined()
    await dataDir.write('some', 'text ✓')
    expect(await dataDir.read('some')).toBe('text ✓')
  })

  test('is replaced whole, and readable to its owner alone', async () => {
    const dataDir = await openDataDir(root)
    await writeFile(join(root, 'some'), 'a much longer text than the next', { mode: 0o644 })
    await dataDir.write('some', 'short')
    expect(await dataDir.read('some')).toBe('short')
    expect(await modeOf(join(root, 'some'))).toBe('600')
  })

  test('that is written once keeps what the first of many writers gave', async () => {
    const dataDir = await openDataDir(root)
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        dataDir.writeOnce('identity', `writer ${i}`.repeat(500)),
      ),
    )
    const [first] = answers
    expect(new Set(answers)).toEqual(new Set([first]))
    expect(await dataDir.read('identity')).toBe(first)
    expect(await dataDir.writeOnce('identity', 'too late')).toBe(first)
    expect(await modeOf(join(root, 'identity'))).toBe('600')
  })

  test('leaves nothing temporary behind', async () => {
    const dataDir = await openDataDir(root)
    await Promise.all([
      dataDir.write('a', '1'),
      dataDir.writeOnce('b', '2'),
      dataDir.writeOnce('b', '3'),
    ])
    expect((await readdir(root)).sort()).toEqual(['a', 'b'])
  })

  test('that cannot be written is named', async () => {
    const dataDir = await openDataDir(root)
    await mkdir(join(root, 'taken'))
    for (const attempt of [() => dataDir.write('taken', ''), () => dataDir.read('taken')])
      await expect(attempt()).rejects.toMatchObject({
        code: 'DATA_DIR_UNUSABLE',
        message: expect.stringContaining('taken'),
      })
  })
})

describe('the lock', () => {
  test('stops a second server with a sentence that names the first', async () => {
    const first = startChild('lock-holder.ts', [root, 'http://127.0.0.1:3000'])
    await first.printed(1)
    const second = startChild('lock-holder.ts', [root])
    expect(await second.ended()).toBe(3)
    const error = JSON.parse(second.lines[0] ?? '')
    expect(error.code).toBe('DATA_DIR_IN_USE')
    expect(error.details).toMatchObject({
      pid: first.process.pid,
      address: 'http://127.0.0.1:3000',
    })
    expect(error.hint).toContain(`kill ${first.process.pid}`)

    const dataDir = await openDataDir(root)
    await expect(dataDir.lock({ pid: process.pid })).rejects.toThrow(
      new RegExp(
        `^DATA_DIR ${root} is in use by the server with pid ${first.process.pid} at http://127\\.0\\.0\\.1:3000, running since 20.+Z\\.$`,
      ),
    )
  })

  test('goes with its holder, killed without warning', async () => {
    for (let round = 0; round < 3; round++) {
      const holder = startChild('lock-holder.ts', [root])
      await holder.printed(1)
      expect(holder.lines).toEqual(['locked'])
      await holder.kill('SIGKILL')
    }
    const dataDir = await openDataDir(root)
    await (await dataDir.lock({ pid: process.pid })).release()
  })

  test('is one, however many start at once', async () => {
    const children = Array.from({ length: 6 }, () => startChild('lock-holder.ts', [root]))
    await Promise.all(children.map((child) => child.printed(1)))
    expect(children.filter((child) => child.lines[0] === 'locked')).toHaveLength(1)
  })

  test('holds against the same process, which does not lose it by trying', async () => {
    const dataDir = await openDataDir(root)
    const lock = await dataDir.lock({ pid: process.pid })
    await expect(dataDir.lock({ pid: process.pid })).rejects.toMatchObject({
      code: 'DATA_DIR_IN_USE',
    })
    const other = startChild('lock-holder.ts', [root])
    expect(await other.ended()).toBe(3)
    await lock.release()
    await (await dataDir.lock({ pid: process.pid })).release()
  })

  test('is free after release, and says so: nothing of the holder is left', async () => {
    const dataDir = await openDataDir(root)
    const lock = await dataDir.lock({ pid: process.pid, address: 'http://127.0.0.1:1' })
    expect(JSON.parse(await readFile(join(root, 'server.json'), 'utf8'))).toMatchObject({
      pid: process.pid,
      address: 'http://127.0.0.1:1',
    })
    for (const name of ['server.json', 'server.lock'])
      expect(await modeOf(join(root, name))).toBe('600')
    await lock.release()
    lock.describe({ address: 'http://127.0.0.1:2' })
    expect(await dataDir.read('server.json')).toBeUndefined()
    await lock.release()
  })

  test('is refused even while the holder has not said who it is', async () => {
    const dataDir = await openDataDir(root)
    const lock = await dataDir.lock({ pid: process.pid })
    await rm(join(root, 'server.json'))
    await expect(dataDir.lock({ pid: process.pid })).rejects.toThrow('is in use by another server.')
    await lock.release()
  })
})

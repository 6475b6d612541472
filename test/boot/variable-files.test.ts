import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { createApp, definePlugin } from '#core'
import { AppFolder, tidesServer } from '../support/command-line.ts'

const folder = mkdtempSync(join(tmpdir(), 'oracle-files-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
let nth = 0
const file = (text: string | Buffer) => {
  const path = join(folder, `secret-${nth++}`)
  writeFileSync(path, text, { mode: 0o600 })
  return path
}
const shelf = definePlugin({
  name: 'shelf',
  summary: 'Keeps books.',
  env: { SHELF_KEY: z.string().default('none').meta({ secret: true }) },
  setup: ({ env }) => ({ key: env.SHELF_KEY }),
  routes: {
    'GET /shelf': { auth: 'public', run: (_, { self }) => ({ key: self.key }) },
    'GET /guarded': { auth: 'bearer', run: () => ({ open: true }) },
  },
})

/** Boots an app and closes it again; resolves to what it told. */
async function booted(env: Record<string, string>) {
  const lines: string[] = []
  const app = createApp({
    plugins: [shelf],
    env: { NODE_ENV: 'test', DATA_DIR: ':memory:', ...env },
    log: (line) => lines.push(line),
  })
  try {
    const { url } = await app.listen({ port: 0, host: '127.0.0.1', signals: false })
    const guarded = async (key: string) =>
      (await fetch(`${url}/guarded`, { headers: { authorization: `Bearer ${key}` } })).status
    const shelved = await (await fetch(`${url}/shelf`)).json()
    return { shelved, opened: await guarded('of-the-kernel'), lines: lines.join('') }
  } finally {
    await app.close().catch(() => undefined)
  }
}

describe('a variable in a file', () => {
  it('is read, whether the kernel or a plugin declares it, without its last newline', async () => {
    const told = await booted({
      API_KEY_FILE: file('of-the-kernel\n'),
      SHELF_KEY_FILE: file('of the plugin\n\n'),
    })
    expect(told).toMatchObject({ opened: 200, shelved: { key: 'of the plugin\n' } })
    expect(told.lines).not.toContain('every user of this machine')
  })

  it('may be as large as 64 KiB', async () => {
    const path = file('x'.repeat(64 * 1024))
    expect((await booted({ SHELF_KEY_FILE: path })).shelved).toEqual({ key: 'x'.repeat(64 * 1024) })
  })

  it('that others may read brings a warning with its path, and never its value', async () => {
    const path = file('of the plugin')
    chmodSync(path, 0o644)
    const { lines } = await booted({ SHELF_KEY_FILE: path })
    expect(lines).toContain(`chmod o-r ${path}`)
    expect(lines).not.toContain('of the plugin')
  })

  const pipe = join(folder, 'pipe')
  execFileSync('mkfifo', [pipe])
  const directory = join(folder, 'directory')
  mkdirSync(directory)
  const large = file('')
  truncateSync(large, 1024 ** 3)
  it.each([
    ['missing', join(folder, 'none'), 'ENOENT'],
    ['a directory', directory, 'it is a directory'],
    ['a pipe', pipe, 'it is no file'],
    ['a gigabyte large', large, 'it has more than 64 KiB'],
    ['no text', file(Buffer.from([0xff, 0xfe, 0x80])), 'it is not text in UTF-8'],
    ['text with a zero byte', file('a\0b'), 'zero byte'],
    ['empty', file('\n'), 'it is empty'],
  ])('that is %s stops the boot and is named', async (_, path, why) => {
    const boot = booted({ SHELF_KEY_FILE: path })
    await expect(boot).rejects.toMatchObject({ code: 'BOOT_FAILED' })
    await expect(boot).rejects.toThrow(`SHELF_KEY_FILE is "${path}"`)
    await expect(boot).rejects.toThrow(why)
  })

  it('that is set itself too stops the boot', async () => {
    const both = booted({ SHELF_KEY: 'one', SHELF_KEY_FILE: file('two') })
    await expect(both).rejects.toThrow('Both SHELF_KEY and SHELF_KEY_FILE are set')
  })

  it('is read again at SIGHUP; while it cannot be read, the key of before stays', async () => {
    using app = new AppFolder(tidesServer)
    const key = app.write('key', 'first\n')
    const { PATH, HOME } = process.env
    const child = spawn(process.execPath, ['--conditions=oracle-runtime-source', 'server.ts'], {
      cwd: app.path,
      env: { PATH, HOME, PORT: '0', DATA_DIR: ':memory:', API_KEY_FILE: key },
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    const exited = once(child, 'exit')
    let printed = ''
    child.stdout.on('data', (chunk: Buffer) => (printed += chunk))
    try {
      await expect
        .poll(() => printed, { timeout: 60_000 })
        .toMatch(/listening on http:\/\/[\w.:]+ /)
      const [, url] = /listening on (http:\/\/[\w.:]+) /.exec(printed) ?? []
      const opens = async (bearer: string) =>
        (await fetch(`${url}/tides/guarded`, { headers: { authorization: `Bearer ${bearer}` } })).ok
      expect(await opens('first')).toBe(true)
      app.write('key', 'second\n')
      child.kill('SIGHUP')
      await expect.poll(() => opens('second'), { timeout: 60_000 }).toBe(true)
      expect(await opens('first')).toBe(false)
      rmSync(key)
      child.kill('SIGHUP')
      await expect.poll(() => printed, { timeout: 60_000 }).toContain('those of before stay')
      expect(await opens('second')).toBe(true)
    } finally {
      child.kill('SIGTERM')
      await exited
    }
  })
})

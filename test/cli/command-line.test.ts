import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { AddressInfo } from 'node:net'
import { describe, expect, it } from 'vitest'
import { commands } from '../../cli/commands.ts'
import { AppFolder, tidesServer } from '../support/command-line.ts'
import { root } from '../support/process.ts'

/** Starts a command that listens, and waits until it does. */
async function listening(app: AppFolder, args: readonly string[], env: Record<string, string>) {
  const { PATH, HOME } = process.env
  const child = spawn(process.execPath, args, {
    cwd: app.path,
    env: { PATH, HOME, PORT: '0', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let printed = ''
  const exited = once(child, 'exit')
  const url = await new Promise<string>((resolve, reject) => {
    const take = (chunk: Buffer) => {
      printed += chunk
      const at = /listening on (http:\/\/[\w.:]+) /.exec(printed)?.[1]
      if (at) resolve(at)
    }
    child.stdout.on('data', take)
    child.stderr.on('data', take)
    void exited.then(() => reject(new Error(printed)))
  })
  return {
    url,
    async stop() {
      child.kill('SIGTERM')
      const [code] = await exited
      return code as number | null
    },
  }
}

describe('oracle-runtime, the command line', () => {
  it('lists its commands, and shows each with an example', async () => {
    using app = new AppFolder()
    const all = await app.run(['--help'])
    expect(all.code).toBe(0)
    const helps = await Promise.all(
      Object.keys(commands).map(async (name) => ({ name, help: await app.run([name, '--help']) })),
    )
    for (const { name, help } of helps) {
      expect(all.out).toContain(`  ${name} `)
      expect(help).toMatchObject({ code: 0, err: '' })
      expect(help.out, name).toMatch(new RegExp(`^oracle-runtime ${name}`))
      expect(help.out, name).toMatch(/Example:\n\n {2}.*oracle-runtime /)
    }
  }, 120_000)

  it('asks whether another command was meant, or another option, and ends with 2', async () => {
    using app = new AppFolder()
    expect(await app.run(['inspcet'])).toMatchObject({
      code: 2,
      out: '',
      err: 'There is no command "inspcet". Did you mean "inspect"?\n',
    })
    expect((await app.run(['constructor'])).code).toBe(2)
    expect((await app.run(['x'.repeat(10_000)])).err.length).toBeLessThan(200)
    const option = await app.run(['token', '--jsno'])
    expect(option.err).toContain('Did you mean "--json"?')
    expect(option.code).toBe(2)
    expect(await app.run(['probe', 'http://127.0.0.1:1', 'more'])).toMatchObject({ code: 2 })
    expect(await app.run([])).toMatchObject({ code: 2 })
  })

  it('says how a folder without an app gets one, and starts nothing that is no defined app', async () => {
    using none = new AppFolder()
    const { code, err } = await none.run(['inspect'])
    expect(err).toContain('There is no server.ts or server.js')
    expect(err).toContain('oracle-runtime init')
    expect(code).toBe(2)
    using old = new AppFolder(
      `import { writeFileSync } from 'node:fs'\nwriteFileSync('started', '')\n`,
    )
    const refused = await old.run(['inspect'])
    expect(refused.err).toContain('has no app as its default export')
    expect(refused.code).toBe(2)
    expect(existsSync(join(old.path, 'started'))).toBe(false)
    using other = new AppFolder('export default { plugins: [] }')
    expect((await other.run(['env'])).err).toContain('has no app as its default export')
  })

  it('starts an app as node server.ts does, and both end with 0 on SIGTERM', async () => {
    using app = new AppFolder(tidesServer)
    const ways = [
      [join(root, 'cli/bin.js'), 'start'],
      ['--conditions=oracle-runtime-source', 'server.ts'],
    ]
    for (const way of ways) {
      const server = await listening(app, way, { TIDES_PORT: 'Tanga' })
      expect(await (await fetch(`${server.url}/tides`)).json()).toEqual({ port: 'Tanga' })
      expect(await server.stop()).toBe(0)
    }
  })

  it('prints a fault of the boot with what to do, and ends with 1', async () => {
    using app = new AppFolder(tidesServer)
    const { code, err } = await app.run(['start'], { PORT: 'many' })
    expect(err).toContain('PORT (the kernel)')
    expect(err).not.toMatch(/^\s+at /m)
    expect(code).toBe(1)
  })

  it('tells of the app of the folder: its report, its variables and its migrations', async () => {
    using app = new AppFolder(tidesServer)
    const report = JSON.parse((await app.run(['inspect', '--json'])).out)
    expect(report.plugins).toMatchObject([{ name: 'tides', state: 'available' }])
    expect((await app.run(['inspect'])).out).toContain('GET /tides')
    const env = await app.run(['env'], { TIDES_KEY: 'one' })
    expect(env.out).toMatch(/^TIDES_KEY +tides +set/m)
    expect(env.out).toMatch(/^OPENAI_API_KEY +unset/m)

    expect((await app.run(['migrate', '--check'])).out).toContain('tides: 001-tides\n')
    expect(existsSync(join(app.path, '.data'))).toBe(false)
    const ran = JSON.parse((await app.run(['migrate', '--json'])).out)
    expect(ran).toContainEqual({ owner: 'tides', migration: '001-tides' })
    expect((await app.run(['migrate', '--check'])).out).toBe('0 migrations would run.\n')
  })

  it('has headers, grants, jobs and a readiness of the running server', async () => {
    using app = new AppFolder(tidesServer)
    const server = await listening(app, [join(root, 'cli/bin.js'), 'start'], {})
    try {
      const env = { PUBLIC_URL: server.url }
      expect(await app.run(['probe', '--wait', '60'], env)).toMatchObject({ code: 0, err: '' })
      expect((await app.run(['token'], env)).out).toMatch(/^header = "authorization: /im)
      expect((await app.run(['jobs'], env)).out).toBe('0 of 0 jobs\n')
      const told = await app.run(['storage'], env)
      expect(told.out).toMatch(/^kernel_runs +runs +0 +\d+$/m)
      expect(told.out).toMatch(
        /\nsqlite: \d+ bytes, \d+ of them free\nGrowth is known after a day\.\n/,
      )
      const storage = JSON.parse((await app.run(['storage', '--json'], env)).out)
      const database = join(app.path, '.data/oracle.sqlite')
      expect(storage).toMatchObject({ database: 'sqlite', bytes: statSync(database).size })
      const gone = await app.run(['jobs', 'retry', 'none'], env)
      expect(gone.code).toBe(1)
      const { did } = JSON.parse((await app.run(['token', '--json'], env)).out)
      const grant = await app.run(['grant', did, 'tides/read', '--json'], env)
      expect(JSON.parse(grant.out)).toMatchObject({ did, capabilities: ['tides/read'] })
      const busy = await app.run(['migrate'], env)
      expect(busy.err).toContain('is in use by the server with pid')
      expect(busy.code).toBe(1)
    } finally {
      await server.stop()
    }
    expect(await app.run(['probe', server.url])).toMatchObject({ code: 1 })
  }, 120_000)

  it('probe takes no other server for one of ours, and no address that is none', async () => {
    using app = new AppFolder()
    const other = createServer((_, answer) => answer.end('hello')).listen(0, '127.0.0.1')
    await once(other, 'listening')
    try {
      const { port } = other.address() as AddressInfo
      const { code, err } = await app.run(['probe', `http://127.0.0.1:${port}`])
      expect(err).toContain('is no oracle runtime')
      expect(code).toBe(1)
    } finally {
      other.close()
    }
    expect(await app.run(['probe', 'nowhere'])).toMatchObject({ code: 2 })
    expect(await app.run(['probe', '--wait', 'long'])).toMatchObject({ code: 2 })
  })
})

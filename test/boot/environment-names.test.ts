import { spawn } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { createApp, definePlugin } from '#core'
import { testApp } from '#core/testing'
import { root, startServer } from '../support/process.ts'

const folders: string[] = []
function folder() {
  const path = mkdtempSync(join(tmpdir(), 'environment-'))
  folders.push(path)
  return path
}
afterAll(() => {
  for (const path of folders) rmSync(path, { recursive: true, force: true })
})

const boot = (env: Record<string, string>, log: string[] = []) =>
  createApp({ plugins: [], env, log: (line) => log.push(line) })

describe('NODE_ENV', () => {
  test.each(['staging', 'Production', 'PRODUCTION', 'prod', 'dev', 'production ', 'undefined'])(
    '"%s" stops the boot with the list, and nothing is written',
    async (NODE_ENV) => {
      const DATA_DIR = join(folder(), 'data')
      const fault = await boot({ NODE_ENV, DATA_DIR }).catch((error) => error)
      expect(fault).toMatchObject({ code: 'BOOT_FAILED' })
      expect(fault.details.faults).toEqual([
        expect.objectContaining({
          code: 'ENV_INVALID',
          message: `NODE_ENV (the kernel) is "${NODE_ENV}", which cannot be used: development, test or production.`,
        }),
      ])
      expect(() => readdirSync(DATA_DIR)).toThrow('ENOENT')
    },
  )

  test('that is wrong does not hide other faults, and makes nothing up', async () => {
    const wants = definePlugin({
      name: 'wants',
      summary: 'Wants a secret.',
      defaultState: 'development',
    })
    const fault = await createApp({
      plugins: [wants],
      features: { wonts: true },
      env: { NODE_ENV: 'staging', LOG_LEVEL: 'loud', DATA_DIR: ':memory:' },
      log: () => {},
    }).catch((error) => error)
    const codes = fault.details.faults.map(({ code }: { code: string }) => code)
    expect(codes).toEqual(['ENV_INVALID', 'ENV_INVALID', 'PLUGIN_UNKNOWN'])
  })

  test.each(['', 'development', 'test', 'production'])('"%s" boots', async (NODE_ENV) => {
    await using app = await testApp({ plugins: [], env: { NODE_ENV } })
    expect((await app.get('/health')).body.environment).toBe(NODE_ENV || 'development')
  })
})

describe('without NODE_ENV', () => {
  const asks = /HOST is ".*", .* NODE_ENV is unset/

  test.each(['0.0.0.0', '::', '192.0.2.7', 'example.org', '127.0.0.1.example.org'])(
    'HOST=%s stops the boot, which asks for the word and writes nothing',
    async (HOST) => {
      for (const NODE_ENV of [undefined, '']) {
        const DATA_DIR = join(folder(), 'data')
        const env = { HOST, DATA_DIR, ...(NODE_ENV !== undefined && { NODE_ENV }) }
        const fault = await boot(env).catch((error) => error)
        expect(fault.details.faults).toEqual([
          expect.objectContaining({
            code: 'ENV_MISSING',
            message: expect.stringMatching(asks),
            hint: expect.stringMatching(/NODE_ENV=production .* NODE_ENV=development/),
          }),
        ])
        expect(() => readdirSync(DATA_DIR)).toThrow('ENOENT')
      }
    },
  )

  test.each(['0.0.0.0', '::', ''])(
    'nor does it listen on "%s" when code asks for it',
    async (host) => {
      const app = await boot({ DATA_DIR: ':memory:' })
      await expect(app.listen({ port: 0, host })).rejects.toMatchObject({
        code: 'ENV_MISSING',
        message: expect.stringMatching(asks),
      })
      await app.close()
    },
  )

  test.each(['127.0.0.1', 'localhost', '127.9.8.7', ''])(
    'it serves this machine on "%s"',
    async (HOST) => {
      const app = await boot({ DATA_DIR: ':memory:', HOST, PORT: '0' })
      const { url } = await app.listen()
      expect((await fetch(`${url}/health`)).status).toBe(200)
      await app.close()
    },
  )

  test.each(['development', 'test', 'production'])(
    'a word for it lets others in: %s',
    async (NODE_ENV) => {
      const app = await boot({ DATA_DIR: ':memory:', NODE_ENV, HOST: '0.0.0.0', PORT: '0' })
      const { url } = await app.listen()
      expect((await fetch(`${url}/health`)).status).toBe(200)
      await app.close()
    },
  )
})

describe('npm start', () => {
  const env = { LOG_LEVEL: 'info' }

  test('answers on loopback and stops for others, without a terminal', async () => {
    const server = startServer('start.js', { ...env, DATA_DIR: folder() })
    expect(await server.url).toMatch(/^http:\/\/127\.0\.0\.1:/)
    await server.end()
    const open = startServer('start.js', { ...env, DATA_DIR: folder(), HOST: '0.0.0.0' })
    expect(await open.exited).toBe(1)
    expect(open.output()).toContain('NODE_ENV=production')
  })

  test.runIf(process.platform === 'linux')('does the same with a terminal', async () => {
    const inTerminal = (more: Record<string, string>) => {
      const command = `${process.execPath} --conditions=oracle-runtime-source start.js`
      const child = spawn('script', ['-qec', command, '/dev/null'], {
        cwd: root,
        env: { PATH: process.env.PATH, PORT: '0', DATA_DIR: folder(), ...env, ...more },
        stdio: ['pipe', 'pipe', 'pipe'],
      })
      let printed = ''
      return new Promise<string>((resolve, reject) => {
        child.stdout.on('data', (chunk) => {
          printed += chunk
          if (/listening on/.test(printed)) child.stdin.end('\x03')
        })
        child.stdin.on('error', () => {}) // it may be gone before it hears of Ctrl-C
        child.on('error', reject).on('close', () => resolve(printed))
      })
    }
    expect(await inTerminal({})).toMatch(/listening on http:\/\/127\.0\.0\.1:/)
    const stopped = await inTerminal({ HOST: '0.0.0.0' })
    expect(stopped).toContain('NODE_ENV=production')
    expect(stopped).not.toContain('listening on')
  })
})

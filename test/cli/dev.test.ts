import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, renameSync, unlinkSync } from 'node:fs'
import { get } from 'node:http'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, it } from 'vitest'
import { AppFolder } from '../support/command-line.ts'
import { root } from '../support/process.ts'

/** An app that says a word, which a save changes. */
const saying = (word: string) => `import { defineApp, definePlugin } from 'oracle-runtime'
import { more } from './more.ts'
const plugin = definePlugin({
  name: 'word',
  summary: 'Says a word.',
  routes: { 'GET /word': { auth: 'public', run: () => ({ word: ${JSON.stringify(word)}, more, pid: process.pid }) } },
})
const app = defineApp({ plugins: [plugin] })
export default app
if (import.meta.main) await app.listen()
`

const open: (() => unknown)[] = []
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close()
})

interface Dev {
  readonly app: AppFolder
  readonly child: ChildProcess
  readonly url: string
  output(): string
  /** Asks until the app says the word; resolves to the process that said it. */
  says(word: string): Promise<number>
}

async function dev(): Promise<Dev> {
  const app = new AppFolder(saying('first'))
  app.write('more.ts', 'export const more = 1')
  const child = spawn(process.execPath, [join(root, 'cli/bin.js'), 'dev'], {
    cwd: app.path,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, PORT: '0' },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const exited = once(child, 'exit')
  open.push(async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM')
    await exited
    app[Symbol.dispose]()
  })
  let printed = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (bytes: Buffer) => (printed += bytes.toString()))
  await expect.poll(() => printed, { timeout: 60_000 }).toContain('Watching. Open ')
  const url = /Open (http:\/\/127\.0\.0\.1:\d+)\n/.exec(printed)?.[1] ?? ''
  const says = async (word: string) => {
    for (;;) {
      const response = await fetch(`${url}/word`)
      const said = (await response.json()) as { word?: string; pid: number }
      if (said.word === word) return said.pid
      await sleep(20)
    }
  }
  return { app, child, url, output: () => printed, says }
}

const isAlive = (pid: number) => {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}
const untilGone = async (pid: number) => {
  while (isAlive(pid)) await sleep(20)
}

describe('oracle-runtime dev', () => {
  it('shows a fault in the terminal and to whoever asks, and the next save mends it', async () => {
    const { app, url, output, says } = await dev()
    const faults = [
      { says: 'SyntaxError', do: () => app.write('more.ts', 'export const more = (') },
      {
        says: 'as planned',
        do: () => app.write('more.ts', `throw new Error('as planned')\nexport const more = 1`),
      },
      { says: 'more.ts', do: () => unlinkSync(join(app.path, 'more.ts')) },
      {
        says: 'more.ts',
        do: () => (
          mkdirSync(join(app.path, 'away')),
          renameSync(join(app.path, 'more.ts'), join(app.path, 'away/more.ts'))
        ),
      },
    ]
    for (const [i, fault] of faults.entries()) {
      const before = output().length
      fault.do()
      await expect
        .poll(async () => (await fetch(`${url}/word`)).status, { timeout: 30_000 })
        .toBe(503)
      const told = await (await fetch(`${url}/word`)).json()
      expect(told).toMatchObject({
        code: 'UNAVAILABLE',
        details: expect.stringContaining(fault.says),
      })
      const page = await fetch(url, { headers: { accept: 'text/html' } })
      expect(page.headers.get('content-type')).toContain('text/html')
      expect(await page.text()).toContain(fault.says)
      expect(output().slice(before)).toContain(fault.says)
      app.write('more.ts', 'export const more = 2')
      app.write('server.ts', saying(`mended ${i}`))
      await says(`mended ${i}`)
    }
  }, 120_000)

  it('tells clients the address of the port that it holds, unless PUBLIC_URL names another', async () => {
    const { app, url, says } = await dev()
    const card = async () => (await fetch(`${url}/.well-known/oracle.json`)).text()
    expect(JSON.parse(await card())).toMatchObject({ apiUrl: url })
    app.write('.env', 'PUBLIC_URL=https://oracle.example')
    app.write('server.ts', saying('second'))
    await says('second')
    expect(JSON.parse(await card())).toMatchObject({ apiUrl: 'https://oracle.example' })
  }, 60_000)

  it('refuses no request while saves follow each other', async () => {
    const { app, url, output, says } = await dev()
    const statuses = new Map<unknown, number>()
    const asked: Promise<unknown>[] = []
    let isOver = false
    const asking = (async () => {
      while (!isOver) {
        // A connection for each: one that is kept may be closed just when the client says something, as by any server.
        const status = new Promise<unknown>((resolve) => {
          const request = get(`${url}/word`, { agent: false }, (response) => {
            response.resume().once('end', () => resolve(response.statusCode))
          })
          request.once('error', (error) => resolve(String(error)))
        })
        asked.push(status.then((code) => statuses.set(code, (statuses.get(code) ?? 0) + 1)))
        await sleep(25)
      }
    })()
    for (const word of ['second', 'third', 'fourth']) {
      app.write('server.ts', saying(word))
      await says(word)
    }
    isOver = true
    await asking
    await Promise.all(asked)
    expect([...statuses.keys()]).toEqual([200])
    expect(output()).not.toContain('MaxListeners')
  }, 120_000)

  it('starts nothing anew for what a build or the server writes', async () => {
    const { app, says } = await dev()
    const pid = await says('first')
    for (const folder of ['built', 'built-7', 'dist', '.data', 'page/built']) {
      mkdirSync(join(app.path, folder), { recursive: true })
      for (let i = 0; i < 5; i++) {
        app.write(`${folder}/page-${i}.js`, 'export {}')
        await sleep(30) // longer than the time in which saves are one
      }
    }
    expect(await says('first')).toBe(pid)
  }, 60_000)

  it('kills a server that does not end, and starts the next', async () => {
    const { app, says } = await dev()
    const pid = await says('first')
    process.kill(pid, 'SIGSTOP')
    app.write('server.ts', saying('second'))
    expect(await says('second')).not.toBe(pid)
    await untilGone(pid)
  }, 60_000)

  it.each(['SIGINT', 'SIGTERM', 'SIGKILL'] as const)(
    'leaves no server behind after %s',
    async (signal) => {
      const { child, says } = await dev()
      const pid = await says('first')
      const exited = once(child, 'exit')
      child.kill(signal)
      const [code] = (await exited) as [number | null]
      expect(code).toBe(signal === 'SIGKILL' ? null : 0)
      await untilGone(pid)
    },
  )
})

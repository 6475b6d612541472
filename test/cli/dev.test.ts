import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, renameSync, unlinkSync } from 'node:fs'
import { Agent, get } from 'node:http'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { callerOf } from '../support/caller.ts'
import { freePort } from '../support/cluster.ts'
import { AppFolder } from '../support/command-line.ts'
import { openStream, readOn, wordsOf } from '../support/event-stream.ts'
import { bareEnv, root } from '../support/process.ts'

/** How often the app is saved while clients ask. `DEV_SAVES=30` looks longer. */
const saves = Number(process.env.DEV_SAVES ?? 10)

/** A model of five words, which waits after the word `waitsAfter` until its server ends. */
const slowModel = (waitsAfter?: number) => `{
  id: 'slow/one',
  contextWindow: undefined,
  async *stream({ signal }) {
    for (let n = 0; n < 5; n++) {
      yield { type: 'text', text: 'word' + n + ' ' }
      await new Promise((resolve) => setTimeout(resolve, 50))
      while (n === ${waitsAfter} && !signal.aborted) await new Promise((resolve) => setTimeout(resolve, 20))
      signal.throwIfAborted()
    }
  },
}`

/** For how long a machine under load may start a server. */
const patience = { timeout: 60_000 }

const median = (figures: readonly number[]): number =>
  Math.round([...figures].sort((a, b) => a - b)[figures.length >> 1] ?? 0)

/** How long the app takes from its start without `dev` to its first answer. */
async function bareStart(app: AppFolder): Promise<number> {
  const port = await freePort()
  const began = performance.now()
  const child = spawn(process.execPath, [join(root, 'cli/bin.js'), 'start'], {
    cwd: app.path,
    env: { ...bareEnv(), PORT: `${port}`, DATA_DIR: ':memory:' },
    stdio: 'ignore',
  })
  const exited = once(child, 'exit')
  while (!(await fetch(`http://127.0.0.1:${port}/word`).catch(() => undefined))?.ok) await sleep(5)
  const took = performance.now() - began
  child.kill('SIGTERM')
  await exited
  return took
}

/** An app that says a word, which a save changes. */
const saying = (
  word: string,
  more = '',
) => `import { defineApp, definePlugin } from 'oracle-runtime'
import { more } from './more.ts'
const plugin = definePlugin({
  name: 'word',
  summary: 'Says a word.',
  routes: { 'GET /word': { auth: 'public', run: () => ({ word: ${JSON.stringify(word)}, more, pid: process.pid }) } },
})
const app = defineApp({ plugins: [plugin]${more} })
export default app
if (import.meta.main) await app.listen()
`

const open: (() => unknown)[] = []
const closeAll = async (closing: (() => unknown)[]) => {
  for (const close of closing.splice(0).reverse()) await close()
}
afterEach(() => closeAll(open))

interface Dev {
  readonly app: AppFolder
  readonly child: ChildProcess
  readonly url: string
  output(): string
  /** Asks until the app says the word; resolves to the process that said it. */
  says(word: string): Promise<number>
}

async function dev(closing = open): Promise<Dev> {
  const app = new AppFolder(saying('first'))
  app.write('more.ts', 'export const more = 1')
  const child = spawn(process.execPath, [join(root, 'cli/bin.js'), 'dev'], {
    cwd: app.path,
    env: { ...bareEnv(), PORT: '0' },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const exited = once(child, 'exit')
  closing.push(async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM')
    await exited
    app[Symbol.dispose]()
  })
  let printed = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (bytes: Buffer) => (printed += bytes.toString()))
  while (!printed.includes('Watching. Open ')) {
    if (child.exitCode !== null) throw new Error(`dev ended: ${printed}`)
    await sleep(20)
  }
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
  // An app that never listens is given up after half a minute, in which the other tests go on.
  const ofSilent: (() => unknown)[] = []
  let silent: Dev
  beforeAll(async () => {
    silent = await dev(ofSilent)
    silent.app.write(
      'more.ts',
      'export const more = 1\nawait new Promise((go) => setTimeout(go, 600_000))',
    )
  }, 120_000)
  afterAll(() => closeAll(ofSilent))

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
      await expect.poll(async () => (await fetch(`${url}/word`)).status, patience).toBe(503)
      const told = await (await fetch(`${url}/word`)).json()
      expect(told).toMatchObject({
        code: 'UNAVAILABLE',
        details: expect.stringContaining(fault.says),
      })
      const page = await fetch(url, { headers: { accept: 'text/html' } })
      expect(page.headers.get('content-type')).toContain('text/html')
      expect(await page.text()).toContain(fault.says)
      await expect.poll(() => output().slice(before), patience).toContain(fault.says)
      app.write('more.ts', 'export const more = 2')
      app.write('server.ts', saying(`mended ${i}`))
      await says(`mended ${i}`)
    }
  }, 300_000)

  it('tells clients the address of the port that it holds, unless PUBLIC_URL names another', async () => {
    const { app, url, says } = await dev()
    const card = async () => (await fetch(`${url}/.well-known/oracle.json`)).text()
    expect(JSON.parse(await card())).toMatchObject({ apiUrl: url })
    app.write('.env', 'PUBLIC_URL=https://oracle.example')
    app.write('server.ts', saying('second'))
    await says('second')
    expect(JSON.parse(await card())).toMatchObject({ apiUrl: 'https://oracle.example' })
  }, 120_000)

  it('loses no request from one save to the next, on connections that are kept and on new ones', async () => {
    const { app, url, output, says } = await dev()
    const agent = new Agent({ keepAlive: true, maxSockets: 4 })
    open.push(() => agent.destroy())
    const statuses = new Set<unknown>()
    let isOver = false
    const ask = (by: Agent | false) =>
      new Promise<void>((resolve) => {
        const request = get(`${url}/word`, { agent: by }, (response) => {
          statuses.add(response.statusCode)
          response.resume().once('end', resolve)
        })
        request.once('error', (error) => resolve(void statuses.add(String(error))))
      })
    const keeping = Array.from({ length: 4 }, async (_, nth) => {
      await sleep(nth * 3)
      while (!isOver) await Promise.all([ask(agent), sleep(10)])
    })
    const anew: Promise<void>[] = []
    const asking = (async () => {
      for (; !isOver; await sleep(25)) anew.push(ask(false))
      await Promise.all([...keeping, ...anew])
    })()
    const took: number[] = []
    for (let save = 0; save < saves; save++) {
      const began = performance.now()
      app.write('server.ts', saying(`save ${save}`))
      await says(`save ${save}`)
      took.push(performance.now() - began)
    }
    isOver = true
    await asking
    expect([...statuses]).toEqual([200])
    expect(output()).not.toContain('MaxListeners')
    const bare: number[] = []
    for (let start = 0; start < 3; start++) bare.push(await bareStart(app))
    // For information: other work on the machine decides about both. `npm run bench dev` compares them in alternation.
    const ratio = (median(took) / median(bare)).toFixed(2)
    process.stdout.write(
      `dev: ${saves} saves, ${median(took)} ms to the new answer; a bare start: ${median(bare)} ms; ratio ${ratio}\n`,
    )
  }, 600_000)

  it('goes on with an answer that streams, in its session, when a save replaces the server', async () => {
    const { app, url, says } = await dev()
    app.write('server.ts', saying('slow', `, model: ${slowModel(2)}`))
    await says('slow')
    const caller = await callerOf(url)
    const headers = async () => ({ ...(await caller.headers()) })
    const made = await fetch(`${url}/sessions`, { method: 'POST', headers: await headers() })
    const { sessionId } = (await made.json()) as { sessionId: string }
    const path = `${url}/messages/${sessionId}`
    const turn = await openStream(path, await headers(), { message: 'Talk' })
    const runId = turn.headers.get('x-run-id') ?? ''
    const events = await turn.until(({ event }) => event === 'message')
    app.write('server.ts', saying('slow again', `, model: ${slowModel()}`))
    events.push(...(await turn.rest()))
    expect(events.at(-1)).toMatchObject({ event: 'run', data: { handover: true } })
    await readOn(
      async (after) => openStream(`${url}/runs/${runId}?after=${after}`, await headers()),
      events,
    )
    expect(events.at(-1)).toMatchObject({ event: 'done', data: { status: 'finished' } })
    expect(wordsOf(events)).toBe('word0 word1 word2 word3 word4 ')
    const transcript = await fetch(path, { headers: await headers() })
    expect(await transcript.text()).toContain('word0 word1 word2 word3 word4')
  }, 120_000)

  it('shows an app that throws after it listened, and one that ends itself, until the next save', async () => {
    const { app, url, says } = await dev()
    for (const [nth, later] of [
      `setTimeout(() => { throw new Error('thrown later') }, 300)`,
      `setTimeout(() => { console.log('thrown later, it ends'); process.exit(3) }, 300)`,
    ].entries()) {
      app.write('more.ts', `export const more = 1\n${later}`)
      await expect.poll(async () => (await fetch(`${url}/word`)).status, patience).toBe(503)
      expect(await (await fetch(`${url}/word`)).text()).toContain('thrown later')
      app.write('more.ts', 'export const more = 1')
      app.write('server.ts', saying(`mended ${nth}`))
      await says(`mended ${nth}`)
    }
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
  }, 120_000)

  it('kills a server that stands still or minds no SIGTERM, and starts the next', async () => {
    const { app, says } = await dev()
    const first = await says('first')
    process.kill(first, 'SIGSTOP')
    app.write('more.ts', `process.on('SIGTERM', () => {})\nexport const more = 1`)
    app.write('server.ts', saying('second'))
    const second = await says('second')
    expect(second).not.toBe(first)
    await untilGone(first)
    app.write('more.ts', 'export const more = 1')
    app.write('server.ts', saying('third'))
    expect(await says('third')).not.toBe(second)
    await untilGone(second)
  }, 120_000)

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
    120_000,
  )

  it('says of an app that never listens that it does not, and the next save mends it', async () => {
    const { app, url, output, says } = silent
    const told = async () => (await fetch(`${url}/word`)).text()
    await expect.poll(output, { timeout: 120_000 }).toContain('does not listen after 30 seconds')
    expect(await told()).toContain('does not listen after 30 seconds')
    app.write('more.ts', 'export const more = 1')
    app.write('server.ts', saying('mended'))
    await says('mended')
  }, 240_000)
})

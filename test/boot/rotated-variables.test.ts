import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { createApp, definePlugin } from '#core'
import { AppFolder } from '../support/command-line.ts'

const folder = mkdtempSync(join(tmpdir(), 'oracle-rotated-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const write = (name: string, text: string) => {
  const path = join(folder, name)
  writeFileSync(path, text, { mode: 0o600 })
  return path
}

/** A plugin that says which key it has, and brings models that say with which key they were opened. */
const shelf = definePlugin({
  name: 'shelf',
  summary: 'Keeps books.',
  env: {
    SHELF_KEY: z.string().optional().meta({ secret: true }),
    SHELF_ROWS: z.coerce.number().int().min(1).default(1),
  },
  setup: ({ env, log }) => ({ env, log }),
  models: {
    books: {
      label: 'Books',
      open: (model, { env }) => ({
        id: `books/${model}`,
        label: 'Books',
        async *stream() {
          yield { type: 'text' as const, text: `opened with ${env.SHELF_KEY}` }
        },
      }),
    },
  },
  routes: {
    'GET /shelf': {
      auth: 'public',
      run: (_, { env, self }) => ({
        key: env.SHELF_KEY,
        ofSetup: self.env.SHELF_KEY,
        rows: env.SHELF_ROWS,
      }),
    },
    'GET /answer': { auth: 'public', run: (_, { model }) => model.text('Which key?') },
    'POST /say': {
      auth: 'public',
      input: z.object({ text: z.string() }),
      run({ text }, { self }) {
        self.log.info(text)
        return { ok: true }
      },
    },
  },
})

describe('a variable of a plugin in a file', () => {
  const open = async (files: Record<string, string>) => {
    const lines: string[] = []
    const app = await createApp({
      plugins: [shelf],
      log: (line) => lines.push(line),
      env: {
        ...{ NODE_ENV: 'test', DATA_DIR: ':memory:', MODEL: 'books/one' },
        ...{ API_KEY_FILE: files.api ?? '', SHELF_KEY_FILE: files.key ?? '' },
        ...(files.rows !== undefined && { SHELF_ROWS_FILE: files.rows }),
      },
    })
    onTestFinished(() => app.close())
    const { url } = await app.listen({ port: 0, host: '127.0.0.1', signals: false })
    const shelved = async () => (await fetch(`${url}/shelf`)).json()
    const say = (text: string) =>
      fetch(`${url}/say`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ text }),
      })
    const answer = async () => (await fetch(`${url}/answer`)).json()
    return { app, lines, shelved, say, answer }
  }

  it('is read anew: handlers and setups have the new value, and no line of the log has it', async () => {
    const files = {
      api: write('api', 'of-the-kernel'),
      key: write('key', 'the-first-key\n'),
      rows: write('rows', '3'),
    }
    const { app, lines, shelved, say } = await open(files)
    expect(await shelved()).toEqual({ key: 'the-first-key', ofSetup: 'the-first-key', rows: 3 })
    write('key', 'the-second-key\n')
    write('rows', '4')
    await app.reload()
    expect(await shelved()).toEqual({ key: 'the-second-key', ofSetup: 'the-second-key', rows: 4 })
    await say('the-first-key and the-second-key')
    const printed = lines.join('')
    expect(printed).toContain('[secret] and [secret]')
    expect(printed).not.toMatch(/the-(first|second)-key/)
    expect(printed).toMatch(/read anew .*SHELF_KEY","SHELF_ROWS/)
  })

  it('stays as it was, with all others, while one does not fit or cannot be read', async () => {
    const files = {
      api: write('api-2', 'of-the-kernel'),
      key: write('key-2', 'the-first-key'),
      rows: write('rows-2', '3'),
    }
    const { app, shelved } = await open(files)
    const before = await shelved()
    write('key-2', 'the-second-key')
    write('rows-2', 'many')
    await expect(app.reload()).rejects.toThrow(/SHELF_ROWS .*"many"/)
    expect(await shelved()).toEqual(before)
    rmSync(files.rows)
    await expect(app.reload()).rejects.toThrow('SHELF_ROWS_FILE')
    expect(await shelved()).toEqual(before)
    write('rows-2', '5')
    await app.reload()
    expect(await shelved()).toMatchObject({ key: 'the-second-key', rows: 5 })
  })

  it('opens models anew whose provider has another key', async () => {
    const files = { api: write('api-3', 'of-the-kernel'), key: write('key-3', 'the-first-key') }
    const { app, answer } = await open(files)
    expect(await answer()).toBe('opened with the-first-key')
    write('key-3', 'the-second-key')
    expect(await answer()).toBe('opened with the-first-key')
    await app.reload()
    expect(await answer()).toBe('opened with the-second-key')
  })

  it('follows SIGHUP in a server of its own', async () => {
    using app = new AppFolder(`import { defineApp, definePlugin } from 'oracle-runtime'
      import { z } from 'zod'
      const tides = definePlugin({
        name: 'tides',
        summary: 'Knows the tides.',
        env: { TIDES_KEY: z.string().optional().meta({ secret: true }) },
        routes: { 'GET /key': { auth: 'public', run: (_, { env }) => ({ key: env.TIDES_KEY }) } },
      })
      const app = defineApp({ plugins: [tides] })
      export default app
      if (import.meta.main) await app.listen()`)
    const file = app.write('key', 'first')
    const server = await app.serve({ DATA_DIR: ':memory:', TIDES_KEY_FILE: file })
    try {
      const key = async () =>
        ((await (await fetch(`${server.url}/key`)).json()) as { key: string }).key
      expect(await key()).toBe('first')
      app.write('key', 'second')
      server.signal('SIGHUP')
      await expect.poll(key, { timeout: 60_000 }).toBe('second')
      app.write('key', Buffer.from([0xff, 0xfe]).toString('latin1') + '\0')
      server.signal('SIGHUP')
      await server.said(/those of before stay/)
      expect(await key()).toBe('second')
    } finally {
      await server.stop()
    }
  })
})

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { fakeProvider } from '#core/testing'
import { callerOf } from '../support/caller.ts'
import { freshDatabase } from '../support/database.ts'
import { startServer } from '../support/process.ts'
import { chatEnv, conversationOf, isSummaryRequest, kilobyte } from '../support/reader.ts'
import { describeWith } from '../support/services.ts'

const mnemonic = 'legal winner thank year wave sausage worth useful legal winner thank yellow'
const patience = 120_000

/** Servers that ask one fake provider, and one user who calls them. */
async function world(databaseUrl: string | undefined) {
  const folder = mkdtempSync(join(tmpdir(), 'oracle-window-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const provider = await fakeProvider()
  onTestFinished(() => provider.close())
  const serve = async (name: string) => {
    const server = startServer('test/support/agent-server.ts', {
      ...chatEnv(provider, { MODEL_CONTEXT_WINDOW: '4000' }),
      DATA_DIR: join(folder, databaseUrl ? name : 'data'),
      ...(databaseUrl && { DATABASE_URL: databaseUrl }),
      ORACLE_MNEMONIC: mnemonic,
      RUN_LEASE_MS: '1000',
    })
    onTestFinished(async () => void (await server.end('SIGKILL')))
    return { server, url: await server.url }
  }
  const first = await serve('one')
  const caller = await callerOf(first.url)
  const call = async (url: string, path: string, body?: object) => {
    const { authorization, 'x-auth-type': type } = await caller.headers()
    const headers = { authorization, 'x-auth-type': type, 'content-type': 'application/json' }
    const method = body ? 'POST' : 'GET'
    return fetch(url + path, { method, headers, body: body && JSON.stringify(body) })
  }
  return { provider, serve, first, call }
}

/** A summary is made, its process dies before the model has answered with it, and another process goes on. */
async function diesAfterTheSummary(databaseUrl: string | undefined): Promise<void> {
  const { provider, serve, first, call } = await world(databaseUrl)
  const second = databaseUrl === undefined ? undefined : await serve('two')
  const { sessionId } = (await (await call(first.url, '/sessions', {})).json()) as {
    sessionId: string
  }
  let summaries = 0
  let isDead = false
  provider.otherwise = (request) => {
    if (isSummaryRequest(request)) {
      summaries++
      return `They talked, part ${summaries}.`
    }
    if (summaries > 0 && !isDead) {
      // The request holds the summary, so the journal has it: nothing is read before it is kept.
      isDead = true
      first.server.child.kill('SIGKILL')
      return 'silence'
    }
    return 'Yes.'
  }
  let said = 0
  while (!isDead && said < 40) {
    const message = kilobyte(++said)
    // The server may die before it has answered.
    const response = await call(first.url, `/messages/${sessionId}`, { message }).catch(() => null)
    await response?.text().catch(() => undefined)
  }
  expect(isDead).toBe(true)
  expect(await first.server.exited).toBe('SIGKILL')

  const { url } = second ?? (await serve('one'))
  const spoken = async () => {
    const { messages } = (await (await call(url, `/messages/${sessionId}`)).json()) as {
      messages: { type: string }[]
    }
    return messages.map(({ type }) => type)
  }
  await expect
    .poll(spoken, { timeout: patience / 2 })
    .toEqual(Array.from({ length: said }, () => ['human', 'ai']).flat())
  expect(summaries).toBe(1)
  const lines = conversationOf(provider.requests.at(-1)!)
  expect(lines[0]?.content).toContain('They talked, part 1.')
  expect(provider.requests.at(-1)!.tokens).toBeLessThan(4000)

  // The next turns load it, at whichever server they are.
  const next = await call(url, `/messages/${sessionId}`, { message: 'And now?' })
  expect(await next.text()).toContain('"status":"finished"')
  expect(summaries).toBe(1)
  expect(conversationOf(provider.requests.at(-1)!)[0]).toEqual(lines[0])
}

describe('a process that dies right after a summary', () => {
  test('leaves it to the next one, on SQLite', () => diesAfterTheSummary(undefined), patience)
})

await describeWith('postgres', 'two servers of which one dies right after a summary', (url) => {
  test(
    'make it once',
    async () => {
      const database = await freshDatabase(url)
      onTestFinished(() => database.drop())
      await diesAfterTheSummary(database.url)
    },
    patience,
  )

  test(
    'make it once where the turns of a session go to both in turn',
    async () => {
      const database = await freshDatabase(url)
      onTestFinished(() => database.drop())
      const { provider, serve, first, call } = await world(database.url)
      const second = await serve('two')
      const { sessionId } = (await (await call(first.url, '/sessions', {})).json()) as {
        sessionId: string
      }
      const asked: string[] = []
      provider.otherwise = (request) => {
        if (!isSummaryRequest(request)) return 'Yes.'
        asked.push(request.text)
        return `They talked, part ${asked.length}.`
      }
      for (let nth = 1; nth <= 24; nth++) {
        const { url } = nth % 2 ? first : second
        const response = await call(url, `/messages/${sessionId}`, { message: kilobyte(nth) })
        expect(await response.text()).toContain('"status":"finished"')
      }
      expect(asked.length).toBeGreaterThan(1)
      // No turn stands in two summaries, whichever server made them.
      for (let nth = 1; nth <= 24; nth++)
        expect(asked.filter((text) => text.includes(`User: Turn ${nth}: zz`)).length).toBeLessThan(
          2,
        )
    },
    patience,
  )
})

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { callApp } from '../../../../test/support/call-app.ts'
import { beeps } from '../../../../test/support/calling-voice.ts'
import { call, Page } from '../../../../test/support/call-page.ts'
import { callerOf } from '../../../../test/support/caller.ts'
import { onPostgres } from '../../../../test/support/each-database.ts'
import { fakeOpenAi } from '../../../../test/support/fake-openai.ts'
import { startServer } from '../../../../test/support/process.ts'

const patient = { timeout: 60_000, interval: 20 }
const mnemonic = 'legal winner thank year wave sausage worth useful legal winner thank yellow'
const sentences = Array.from({ length: 12 }, (_, i) => `Sentence ${i} is said only once.`)

/** Two processes on one database, and a person who talks with both. */
async function world(databaseUrl: string, { paceMs = 0 } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'calls-back-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const provider = await fakeOpenAi(() => ({ text: sentences.join(' '), paceMs }))
  onTestFinished(() => provider.close())
  const serve = async (name: string) => {
    const server = startServer('test/support/calls-server.ts', {
      ...{ DATA_DIR: join(folder, name), DATABASE_URL: databaseUrl },
      ...{ MODEL: 'openai/x', OPENAI_BASE_URL: provider.url, OPENAI_API_KEY: 'k' },
      ...{ ORACLE_MNEMONIC: mnemonic, NODE_ENV: 'development', RUN_LEASE_MS: '1000' },
      ...{ CALLS_VOICE: 'command', CALLS_VOICE_COMMAND: beeps() },
    })
    onTestFinished(() => server.end('SIGKILL').then(() => undefined))
    return { server, url: await server.url }
  }
  const [one, two] = await Promise.all([serve('one'), serve('two')])
  const caller = await callerOf(one.url)
  const ask = async (url: string, path: string, body?: object, method = body ? 'POST' : 'GET') => {
    const headers = { ...(await caller.headers()), 'content-type': 'application/json' }
    const response = await fetch(url + path, {
      ...{ method, headers },
      ...(body && { body: JSON.stringify(body) }),
    })
    return { status: response.status, body: (await response.json()) as Record<string, any> }
  }
  const { sessionId } = (await ask(one.url, '/sessions', {})).body
  const call = async (url: string, replaces?: string) => {
    const page = new Page()
    const sdp = await page.offer()
    const { status, body } = await ask(url, '/calls', {
      sessionId,
      callType: 'audio',
      sdp,
      replaces,
    })
    expect(body).toMatchObject({ callId: expect.any(String) })
    expect(status).toBe(201)
    await page.accept(body.sdp)
    return { page, callId: String(body.callId) }
  }
  return { one, two, ask, call, sessionId }
}

/** The numbers of the sentences that a page was told of, in their order. */
const numbersOf = (page: Page) =>
  page
    .of('caption')
    .flatMap(({ text }) => [...text.matchAll(/Sentence (\d+)/g)].map((m) => Number(m[1])))

/** What was heard at two replicas is the whole answer: nothing is missing, and the sentence under way alone may come again. */
function expectWhole(before: Page, after: Page, heardBefore: number) {
  const [first = 0, ...rest] = numbersOf(after)
  // Of the sentences that are told as text ahead of the voice, those were heard.
  const heard = Math.floor(heardBefore / 6)
  expect(first).toBeGreaterThanOrEqual(heard - 1)
  expect(first).toBeLessThanOrEqual(heard + 1)
  expect([first, ...rest]).toEqual(sentences.map((_, i) => i).slice(first))
  expect(numbersOf(before)[0]).toBe(0)
}

await onPostgres('a call whose process goes', (where) => {
  const databaseUrl = where.databaseUrl ?? ''

  test.each([
    ['while the model still speaks', 60],
    ['when the model has said all', 0],
  ])(
    'kill -9 %s: the other one says the rest',
    async (_, paceMs) => {
      const { one, two, ask, call, sessionId } = await world(databaseUrl, { paceMs })
      const { page, callId } = await call(one.url)
      page.send({ type: 'say', id: 'a', text: 'Tell me.' })
      await expect.poll(() => page.beeps, patient).toBeGreaterThanOrEqual(14)
      one.server.child.kill('SIGKILL')
      await one.server.exited
      const heard = page.beeps
      const next = await call(two.url, callId)
      await expect.poll(() => numbersOf(next.page).at(-1), patient).toBe(11)
      expectWhole(page, next.page, heard)
      const words = (12 - (numbersOf(next.page)[0] ?? 0)) * 6
      await expect.poll(() => next.page.beeps, patient).toBe(words)
      expect((await ask(two.url, `/calls/${callId}`)).body).toMatchObject({ endedBy: 'replaced' })
      const { messages } = (await ask(two.url, `/messages/${sessionId}`)).body
      expect(messages.map(({ content }: { content: string }) => content)).toEqual([
        'Tell me.',
        sentences.join(' '),
      ])
    },
    180_000,
  )

  test('SIGTERM: the page is told to call again, and hears the rest without a gap', async () => {
    const { one, two, call } = await world(databaseUrl)
    const { page, callId } = await call(one.url)
    page.send({ type: 'say', id: 'a', text: 'Tell me.' })
    await expect.poll(() => page.beeps, patient).toBeGreaterThanOrEqual(14)
    const ended = one.server.end('SIGTERM')
    await expect.poll(() => page.of('notice'), patient).toMatchObject([{ code: 'MOVING' }])
    expect(page.of('ended')).not.toContainEqual({ type: 'ended', by: 'session' })
    const heard = page.beeps
    const next = await call(two.url, callId)
    await expect.poll(() => numbersOf(next.page).at(-1), patient).toBe(11)
    expectWhole(page, next.page, heard)
    expect(await ended).toBe(0)
  }, 180_000)
})

test('a page that calls again hears the rest of what was being said, at the same process', async () => {
  const { user, sessionId } = await callApp([sentences.join(' ')])
  const { page, callId } = await call(user, sessionId)
  page.send({ type: 'say', id: 'a', text: 'Tell me.' })
  await expect.poll(() => page.beeps, patient).toBeGreaterThanOrEqual(14)
  const next = await call(user, sessionId, { replaces: callId })
  const heard = page.beeps
  await expect.poll(() => numbersOf(next.page).at(-1), patient).toBe(11)
  expectWhole(page, next.page, heard)
  expect(page.of('ended')).toEqual([{ type: 'ended', by: 'replaced' }])
})

test('a page that vanishes is lost, its silence is not counted, and what it did not hear is said when it is back', async () => {
  const { user, sessionId } = await callApp([sentences.join(' ')])
  const { page, callId } = await call(user, sessionId)
  page.send({ type: 'say', id: 'a', text: 'Tell me.' })
  await expect.poll(() => page.beeps, patient).toBeGreaterThanOrEqual(14)
  page.vanish()
  const heard = page.beeps
  const row = async () => (await user.get(`/calls/${callId}`)).body
  await expect.poll(async () => (await row()).endedBy, patient).toBe('lost')
  const { callEndedAt } = await row()
  expect(Date.now() - Date.parse(callEndedAt)).toBeGreaterThan(4_500)
  // Two seconds are said to a page that has gone; then the rest waits for it.
  expect(page.beeps).toBeLessThan(heard + 15)
  const next = await call(user, sessionId, { replaces: callId })
  await expect.poll(() => numbersOf(next.page).at(-1), patient).toBe(11)
  expectWhole(page, next.page, page.beeps)
  expect(await user.get('/calls')).toMatchObject({ body: { calls: [{ callId: next.callId }] } })
})

test('a page that never heard of the call by which it came back comes back once more', async () => {
  const { user, sessionId } = await callApp([sentences.join(' ')])
  const { page, callId } = await call(user, sessionId)
  page.send({ type: 'say', id: 'a', text: 'Tell me.' })
  await expect.poll(() => page.beeps, patient).toBeGreaterThanOrEqual(14)
  page.vanish()
  // The network is away: the answer to its second call never reaches it, and that of its third not in time.
  for (let tries = 0; tries < 2; tries++) {
    const sdp = await new Page().offer()
    const wanted = { sessionId, callType: 'audio', sdp, replaces: callId }
    expect((await user.post('/calls', wanted)).status).toBe(201)
  }
  const next = await call(user, sessionId, { replaces: callId })
  await expect.poll(() => numbersOf(next.page).at(-1), patient).toBe(11)
  expect(numbersOf(next.page)[0]).toBeGreaterThan(0)
  // Once a page is there, no other one takes its place by the name of a call that is over.
  const { body } = await user.get('/calls')
  expect(body.calls).toMatchObject([{ callId: next.callId, callStatus: 'active' }])
  const sdp = await new Page().offer()
  const late = { sessionId, callType: 'audio', sdp, replaces: callId }
  expect(await user.post('/calls', late)).toMatchObject({ status: 409, body: { code: 'CONFLICT' } })
})

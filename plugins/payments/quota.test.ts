import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type AnyPlugin, definePlugin } from '#core'
import { fakeFetch } from '#core/testing'
import { onEachDatabase } from '../../test/support/each-database.ts'
import { paidApp, pay, session, settledAccount } from '../../test/support/paid-app.ts'
import payments from './index.ts'

const root = resolve(import.meta.dirname, '../..')
const page = readFileSync(join(root, 'docs/write-a-plugin.md'), 'utf8')
/** The plugin as the page has it, without the test that follows there. */
const spelt = /<!-- file: plugins\/recipes\/quota\.test\.ts -->\n\n```ts\n(.*?)\nit\(/s.exec(
  page,
)?.[1]

const broken = definePlugin({
  name: 'broken-gate',
  summary: 'Never comes up.',
  // Its setup outlasts the wait of the boot and then fails: until then and after that the plugin is no open gate.
  async setup() {
    await new Promise((resolve) => setTimeout(resolve, 1_500))
    throw new Error('The books are gone.')
  },
  runs: { admit: () => undefined },
})

await onEachDatabase('payments beside the quota plugin of the documentation', (where) => {
  // Inside the project, so that #core and kysely resolve as they do for an author.
  const folder = mkdtempSync(join(root, '.quota-'))
  let quota: AnyPlugin
  beforeAll(async () => {
    const file = join(folder, 'quota.ts')
    const code = String(spelt).replace('const quota =', 'export const quota =')
    writeFileSync(file, code.replace("import { expect, it } from 'vitest'\n", ''))
    quota = (await import(pathToFileURL(file).href)).quota
  })
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  const open = async (tokens: number, env: Record<string, string> = {}) => {
    const usage = { inputTokens: tokens - 1, outputTokens: 1 }
    const fetch = fakeFetch({ 'https://billing.example/spent': { ok: true } })
    const app = await paidApp({
      where,
      plugins: [quota, payments],
      steps: [{ text: 'Yes.', usage }],
      fetch,
      env,
    })
    const user = await app.user()
    const sessionId = await session(user)
    const say = async () => {
      const answer = await user.post(`/messages/${sessionId}`, { message: 'Hello', stream: false })
      if (answer.status === 200) await settledAccount(user)
      return answer
    }
    const charges = async () => (await user.get('/payments/charges')).body.charges
    return { app, user, say, charges, fetch }
  }

  test('the page has the plugin', () => expect(spelt).toContain("name: 'quota'"))

  test('the quota refuses alone: who has money left meets its 429, and nothing is charged', async () => {
    const { app, user, say, charges } = await open(100_000)
    expect((await say()).status).toBe(200)
    await expect
      .poll(() => app.log.some((line) => line.includes('outcome=done')), { timeout: 20_000 })
      .toBe(true)
    expect(await say()).toMatchObject({ status: 429, body: { code: 'QUOTA_SPENT' } })
    expect(await charges()).toHaveLength(1)
    expect(await settledAccount(user)).toMatchObject({ owed: '5000', available: '5000' })
  })

  test('payments refuse alone: who has tokens left meets the 402, and goes on once it is paid', async () => {
    const { user, say, charges } = await open(10, { PAYMENTS_FIRST_CREDIT: '5000' })
    expect((await say()).status).toBe(200)
    expect(await say()).toMatchObject({ status: 402, body: { code: 'PAYMENT_REQUIRED' } })
    expect(await charges()).toHaveLength(1)
    expect((await pay(user)).settled?.status).toBe(200)
    expect((await say()).status).toBe(200)
    expect(await charges()).toHaveLength(2)
  })

  test('both hear of the end of each turn, once', async () => {
    const { say, charges, fetch } = await open(33_334)
    for (let turns = 0; turns < 2; turns++) expect((await say()).status).toBe(200)
    const own: string[] = (await charges()).map(({ runId }: { runId: string }) => runId)
    expect(own).toHaveLength(2)
    // The app also reports what an app of before it left in the database.
    const reported = async () => {
      const texts = await Promise.all(fetch.calls.map((request) => request.clone().text()))
      const runs = texts.map((text): string => JSON.parse(text).runId)
      return runs.filter((runId) => own.includes(runId))
    }
    await expect
      .poll(async () => (await reported()).sort(), { timeout: 20_000 })
      .toEqual(own.sort())
  })
})

test('a plugin whose setup failed refuses turns, is named, and nothing is charged meanwhile', async () => {
  const app = await paidApp({ plugins: [payments, broken] })
  const user = await app.user()
  const sessionId = await session(user)
  const say = () => user.post(`/messages/${sessionId}`, { message: 'Hello', stream: false })
  for (const state of ['pending', 'degraded']) {
    if (state === 'degraded')
      await expect
        .poll(async () => (await app.get('/health')).body.plugins['broken-gate'], {
          timeout: 20_000,
        })
        .not.toBe('pending')
    const refused = await say()
    expect(refused.status).toBe(503)
    expect(JSON.stringify(refused.body)).toContain('broken-gate')
  }
  expect((await user.get('/payments/charges')).body.charges).toEqual([])
  expect((await user.get('/payments/account')).body).toMatchObject({ held: '0', owed: '0' })
})

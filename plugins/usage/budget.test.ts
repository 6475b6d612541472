import { expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { scriptedModel, testApp, type TestAppOptions } from '#core/testing'
import { onEachDatabase, type Where } from '../../test/support/each-database.ts'
import usage from './index.ts'

const patient = { timeout: 60_000, interval: 50 }
const cost = { inputTokens: 900, outputTokens: 100 }
const says = (text: string) => ({ text, usage: cost })
const refusal = "Today's allowance of 1,000 tokens is used up; it begins anew at 00:00 UTC."

function talker(price?: { input: number; output: number }) {
  const model = scriptedModel(Array.from({ length: 20 }, (_, n) => says(`Answer ${n}.`)))
  return price ? Object.assign(model, { price }) : model
}

async function appOf(
  { databaseUrl }: Where,
  env: Record<string, string>,
  more: Partial<TestAppOptions> = {},
) {
  const app = await testApp({
    plugins: [usage],
    model: talker(),
    clock: true,
    env: { ...env, ...(databaseUrl !== undefined && { DATABASE_URL: databaseUrl }) },
    ...more,
  })
  onTestFinished(() => app.close())
  return app
}

type App = Awaited<ReturnType<typeof appOf>>
type User = Awaited<ReturnType<App['user']>>

async function send(user: User, sessionId: string) {
  return await user.post(`/messages/${sessionId}`, { message: 'And now?', stream: true })
}

const sessionOf = async (user: User): Promise<string> =>
  (await user.post('/sessions', {})).body.sessionId

await onEachDatabase('an allowance of tokens for a day', (where) => {
  const env = { USAGE_TOKENS_PER_USER_PER_DAY: '1000' }

  test(
    'refuses the next message before any stream, and no other user; the next day begins anew',
    { timeout: 120_000 },
    async () => {
      const app = await appOf(where, env)
      // Apps of one database have one clock, which only goes on.
      const began = Math.max(Date.now(), Date.parse('2027-03-01T12:00:00Z'))
      const noon = new Date(`${new Date(began + 86_400_000).toISOString().slice(0, 10)}T18:00:00Z`)
      await app.clock.set(noon)
      const user = await app.user()
      const said = await user.say('Hello')
      expect(said.of('done')[0]?.usage).toMatchObject({ ...cost, calls: 1, cost: null })
      const refused = await send(user, said.sessionId)
      expect(refused.status).toBe(429)
      expect(refused.headers.get('content-type')).toContain('application/json')
      expect(refused.headers.get('retry-after')).toBe(String(6 * 3600))
      const resetsAt = new Date(noon.getTime() + 6 * 3_600_000).toISOString()
      expect(refused.body).toMatchObject({
        code: 'BUDGET_SPENT',
        message: refusal,
        details: { limit: 1_000, used: 1_000, resetsAt },
      })
      expect((await (await app.user()).say('Hello')).status).toBe('finished')
      const { body } = await user.get(`/messages/${said.sessionId}`)
      expect(body.messages).toHaveLength(2)
      await expect
        .poll(async () => (await user.get('/usage')).body, patient)
        .toMatchObject({
          rows: [{ day: noon.toISOString().slice(0, 10), calls: 1, ...cost, cost: null }],
          total: { calls: 1, ...cost, cost: null },
          budget: { limit: 1_000, used: 1_000, resetsAt },
        })
      await app.clock.advance('6h')
      expect((await user.say('Good morning', { sessionId: said.sessionId })).status).toBe(
        'finished',
      )
      expect((await send(user, said.sessionId)).status).toBe(429)
    },
  )

  test('holds after a restart', { timeout: 120_000 }, async () => {
    const app = await appOf(where, env)
    const user = await app.user('the same words')
    const { sessionId } = await user.say('Hello')
    await expect.poll(async () => (await user.get('/usage')).body.total.calls, patient).toBe(1)
    const again = await app.again({ model: talker() })
    expect((await send(await again.user('the same words'), sessionId)).status).toBe(429)
  })
})

await onEachDatabase('what else holds a user back', (where) => {
  test('is an allowance of dollars, exact to the billionth', { timeout: 120_000 }, async () => {
    const env = { USAGE_COST_PER_USER_PER_DAY: '0.0042' }
    const app = await appOf(where, env, { model: talker({ input: 3, output: 15 }) })
    const user = await app.user()
    const said = await user.say('Hello')
    expect(said.of('done')[0]?.usage.cost).toBe(String(900 * 3_000 + 100 * 15_000))
    const refused = await send(user, said.sessionId)
    expect(refused).toMatchObject({
      status: 429,
      body: { message: "Today's allowance of $0.0042 is used up; it begins anew at 00:00 UTC." },
    })
    expect((await user.get('/usage')).body.costBudget).toMatchObject({
      limit: 0.0042,
      used: 0.0042,
    })
  })

  test(
    'is an allowance of tokens for a turn, which ends there and is counted',
    { timeout: 120_000 },
    async () => {
      const looker = definePlugin({
        name: 'looker',
        summary: 'Looks.',
        visibility: 'always',
        tools: {
          look: {
            description: 'Looks.',
            input: z.object({}),
            effect: 'read',
            run: () => 'a shelf',
          },
        },
      })
      const looks = { calls: [{ call: 'look', args: {} }], usage: cost }
      const model = scriptedModel([looks, looks, looks, 'Never said.'])
      const env = { USAGE_TOKENS_PER_TURN: '2000' }
      const app = await appOf(where, env, { plugins: [usage, looker], model })
      const user = await app.user()
      const said = await user.say('Look')
      expect(said.status).toBe('failed')
      expect(said.of('error')).toMatchObject([
        { code: 'BUDGET_SPENT', error: 'This turn has used up its allowance of 2,000 tokens.' },
      ])
      expect(said.of('done')[0]?.usage).toMatchObject({ calls: 2, inputTokens: 1_800 })
    },
  )
})

test('a cost budget with a model of unknown price stops the boot, and names the model', async () => {
  const env = { USAGE_COST_PER_USER_PER_DAY: '1' }
  await expect(testApp({ plugins: [usage], model: talker(), env })).rejects.toThrow(
    'USAGE_COST_PER_USER_PER_DAY is 1, but nobody knows what "scripted" costs.',
  )
  await expect(
    testApp({ plugins: [usage], model: talker(), env: { USAGE_TOKENS_PER_TURN: '-1' } }),
  ).rejects.toThrow('USAGE_TOKENS_PER_TURN')
})

test('the routes answer who may ask, for days that exist, and page by page', async () => {
  const operatorToken = 'an-operator-of-the-budget-tests'
  const headers = { authorization: `Bearer ${operatorToken}` }
  const app = await testApp({
    plugins: [usage],
    model: talker(),
    env: {
      OPERATOR_TOKEN: operatorToken,
      NODE_ENV: 'production',
      ORACLE_MNEMONIC: 'words of a test',
    },
  })
  onTestFinished(() => app.close())
  const users = await Promise.all([app.user(), app.user(), app.user()])
  for (const user of users) await user.say('Hello')
  const [first, other] = users
  const all = () => app.get('/usage/all', { headers })
  await expect.poll(async () => (await all()).body.total.calls, patient).toBe(3)
  expect((await all()).body.rows.map(({ did }: { did: string }) => did).toSorted()).toEqual(
    users.map(({ did }) => did).toSorted(),
  )
  const page = await app.get('/usage/all?limit=2', { headers })
  expect(page.body.rows).toHaveLength(2)
  const rest = await app.get(`/usage/all?limit=2&cursor=${page.body.cursor}`, { headers })
  expect(rest.body.rows).toHaveLength(1)
  expect(rest.body.cursor).toBeUndefined()
  expect((await app.get('/usage/all?by=model', { headers })).body.rows).toMatchObject([
    { model: 'scripted', calls: 3 },
  ])
  expect((await first!.get('/usage/all')).status).toBe(403)
  expect((await app.get('/usage')).status).toBe(401)
  expect((await other!.get('/usage?by=model')).body.rows).toMatchObject([{ calls: 1 }])
  expect((await other!.get('/usage?from=2020-01-01&to=2020-01-31')).body).toMatchObject({
    rows: [],
    total: { calls: 0, cost: '0' },
  })
  for (const query of [
    'from=yesterday',
    'from=2027-02-02&to=2027-01-01',
    'from=2020-01-01&to=2026-01-01',
    'by=did',
    'who=me',
  ])
    expect((await first!.get(`/usage?${query}`)).status, query).toBe(400)
})

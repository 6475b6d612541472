import { expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin, type AnyPlugin } from '#core'
import { testApp, type TestApp } from '#core/testing'
import { modelScript } from '../support/model-script.ts'
import { unquote } from '../support/quotation.ts'
import { describeWith } from '../support/services.ts'

let ran = 0
const searching = (name = 'search', limit: unknown = { max: 2, perMs: 60_000 }): AnyPlugin =>
  definePlugin({
    name: 'searching',
    summary: 'Searches.',
    visibility: 'always',
    tools: {
      [name]: {
        description: 'Searches.',
        effect: 'read',
        limit: limit as { max: number; perMs: number },
        input: z.object({}),
        run: () => `found ${++ran}`,
      },
    } as {},
  })

const model = (name = 'search', times = 3) =>
  modelScript(({ messages }) =>
    messages.at(-1)?.role === 'user'
      ? { calls: Array.from({ length: times }, () => ({ name })) }
      : 'Well.',
  )

/** What the model reads of the calls of one turn. */
async function readsOf(user: Awaited<ReturnType<TestApp['user']>>) {
  const said = await user.say('Search')
  return said
    .of('tool_call')
    .filter(({ status }) => status !== 'isRunning')
    .map(({ output, error }) => unquote(String(output ?? error)))
}

it('over the limit of a tool the model reads when to try again, and the tool does not run', async () => {
  ran = 0
  const script = model()
  await using app = await testApp({ plugins: [searching()], model: script })
  await (await app.user()).say('Search')
  const results = script.requests[1]?.messages.slice(-3).map(({ content }) => unquote(content))
  expect(results?.slice(0, 2).toSorted()).toEqual(['found 1', 'found 2'])
  expect(JSON.parse(results?.[2] ?? '')).toMatchObject({
    code: 'RATE_LIMITED',
    error: 'Too many calls of "search".',
    hint: expect.stringMatching(/^Try again in \d+ seconds\.$/),
  })
  expect(ran).toBe(2)
})

it('the limit is of each user', async () => {
  await using app = await testApp({ plugins: [searching()], model: model('search', 2) })
  const [one, two] = [await app.user(), await app.user('another')]
  for (const user of [one, two])
    expect((await readsOf(user)).join()).toMatch(/^found \d+,found \d+$/)
  expect((await readsOf(one)).join()).toMatch(/Too many calls.*Too many calls/)
})

it.each([
  null,
  3,
  {},
  { max: 0, perMs: 1000 },
  { max: 1 },
  { max: 1.5, perMs: 10 },
  { max: 1, perMs: -1 },
])('a limit of %j stops the boot', async (limit) => {
  await expect(testApp({ plugins: [searching('search', limit)] })).rejects.toMatchObject({
    code: 'BOOT_FAILED',
    message: expect.stringContaining('the tool "search" has a "limit" of'),
  })
})

await describeWith('redis', 'the limit of a tool in Redis', (url) => {
  it('is shared by two replicas', async () => {
    const name = `search_${process.pid}_${Date.now()}`
    const options = { plugins: [searching(name)], env: { REDIS_URL: url } }
    await using first = await testApp({ ...options, model: model(name, 2) })
    await using second = await testApp({ ...options, model: model(name, 1) })
    const did = (await first.user('the same words')).did
    expect((await second.user('the same words')).did).toBe(did)
    expect((await readsOf(await first.user('the same words'))).join()).toMatch(/^found \d+,found/)
    expect(await readsOf(await second.user('the same words'))).toEqual([
      'Too many calls of "' + name + '".',
    ])
  })
})

import { expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { definePlugin, type RunEnding } from '#core'
import { call, scriptedModel, testApp, type TestAppOptions } from '#core/testing'
import { onEachDatabase } from '../support/each-database.ts'
import { FakeChat } from '../support/fake-chat.ts'
import { type FakeAnswer, fakeOpenAi } from '../support/fake-openai.ts'

/** A shop, and a plugin that is told what turns cost. */
function counting() {
  const usages: RunEnding['usage'][] = []
  const plugin = definePlugin({
    name: 'counting',
    summary: 'Counts.',
    visibility: 'always',
    tools: { look: { description: 'Looks.', input: z.object({}), run: () => 'a shelf' } },
    runs: { end: ({ usage }) => void usages.push(usage) },
  })
  return { plugin, usages }
}

const looks = {
  content: '',
  tool_call_chunks: [
    { index: 0, id: 'c1', name: 'look', args: '{}', type: 'tool_call_chunk' as const },
  ],
}
const counted = (input_tokens: number, output_tokens: number) => ({
  content: '',
  usage_metadata: { input_tokens, output_tokens, total_tokens: input_tokens + output_tokens },
})

await onEachDatabase('what end is told of the cost of a turn', ({ databaseUrl }) => {
  const turnOf = async ({ model, env }: Pick<TestAppOptions, 'model' | 'env'>) => {
    const { plugin, usages } = counting()
    const app = await testApp({
      plugins: [plugin],
      model,
      env: { ...env, ...(databaseUrl && { DATABASE_URL: databaseUrl }) },
    })
    onTestFinished(() => app.close())
    const user = await app.user()
    const said = await user.say('What is on the shelf?')
    await expect.poll(() => usages.length).toBe(1)
    return { status: said.status, text: said.text, usage: usages[0] }
  }
  const overTheWire = async (answers: readonly FakeAnswer[]) => {
    const provider = await fakeOpenAi(answers)
    onTestFinished(() => provider.close())
    return turnOf({ env: { MODEL: 'openai/small-1', OPENAI_BASE_URL: provider.url } })
  }

  test('is the sum of what a provider on the OpenAI wire counted, to the token', async () => {
    const { usage, status } = await overTheWire([
      { toolCalls: [{ name: 'look' }], usage: { prompt_tokens: 1_234, completion_tokens: 17 } },
      { text: 'A shelf.', usage: { prompt_tokens: 1_301, completion_tokens: 5 } },
    ])
    expect(status).toBe('finished')
    expect(usage).toEqual([
      { model: 'openai/small-1', calls: 2, inputTokens: 2_535, outputTokens: 22, cost: null },
    ])
  })

  test('stands in the history as well, after an approval as one sum of all that followed', async () => {
    const shop = definePlugin({
      name: 'shop',
      summary: 'Sells.',
      visibility: 'always',
      tools: {
        buy: { description: 'Buys.', input: z.object({}), approve: true, run: () => 'bought' },
      },
    })
    const usage = { inputTokens: 10, outputTokens: 2 }
    const model = scriptedModel([
      { calls: [call('buy')], usage },
      { text: 'Bought.', usage },
    ])
    const env = databaseUrl ? { DATABASE_URL: databaseUrl } : {}
    const app = await testApp({ plugins: [shop], model, env })
    onTestFinished(() => app.close())
    const user = await app.user()
    const asked = await user.say('Buy', { approvals: true })
    const historyOf = async () => (await user.get(`/messages/${asked.sessionId}`)).body.messages
    const told = { calls: 1, inputTokens: 10, outputTokens: 2 }
    expect((await historyOf())[0].run).toMatchObject({ status: 'waiting', usage: told })
    const done = await asked.approve()
    const [spent] = done.of('done').map((data) => data.usage)
    expect(spent).toMatchObject({ calls: 2, inputTokens: 20, outputTokens: 4 })
    const history = await historyOf()
    expect(history[0].run).toEqual({ runId: asked.runId, status: 'finished', usage: spent })
    expect(history.at(-1).run).toEqual({ runId: done.runId, status: 'finished', usage: spent })
    const page = (await user.get(`/sessions/${asked.sessionId}/messages?limit=1`)).body.messages
    expect(page[0].run).toEqual(history.at(-1).run)
  })

  test('is an estimate of an answer on that wire that was cut off', async () => {
    const { usage, status, text } = await overTheWire([
      { toolCalls: [{ name: 'look' }], usage: { prompt_tokens: 1_234, completion_tokens: 17 } },
      { text: 'There is a long shelf with', then: 'cut' },
    ])
    expect(status).toBe('failed')
    expect(text).toBe('There is a long shelf with')
    expect(usage).toMatchObject([{ model: 'openai/small-1', estimated: true }])
    expect(usage?.[0]?.inputTokens).toBeGreaterThan(1_234)
    expect(usage?.[0]?.outputTokens).toBeGreaterThan(17)
  })

  test('is the sum of what a chat model of LangChain counted, to the token', async () => {
    let calls = 0
    const model = new FakeChat(() =>
      calls++ === 0
        ? [looks, counted(812, 0), counted(0, 9)]
        : [{ content: 'A shelf.' }, counted(840, 4)],
    )
    const { usage, text } = await turnOf({ model })
    expect(text).toBe('A shelf.')
    expect(usage).toEqual([
      { model: expect.any(String), calls: 2, inputTokens: 1_652, outputTokens: 13, cost: null },
    ])
  })

  test('is an estimate of an answer of such a model that broke off', async () => {
    const model = new FakeChat(async function* () {
      yield { content: 'There is a long ' }
      yield { content: 'shelf with' }
      throw new Error('The line broke.')
    })
    const { usage, status } = await turnOf({ model })
    expect(status).toBe('failed')
    expect(usage).toMatchObject([{ estimated: true }])
    expect(usage?.[0]?.inputTokens).toBeGreaterThan(10)
    expect(usage?.[0]?.outputTokens).toBeGreaterThan(3)
  })
})

import { describe, expect, it, onTestFinished } from 'vitest'
import { fakeProvider, testApp, type FakeProvider } from '#core/testing'

const wires = [
  { id: 'anthropic/fake-large', env: ['ANTHROPIC_API_KEY', 'ANTHROPIC_BASE_URL'] },
  { id: 'google/fake-large', env: ['GEMINI_API_KEY', 'GOOGLE_BASE_URL'] },
  { id: 'mistral/fake-large', env: ['MISTRAL_API_KEY', 'MISTRAL_BASE_URL'] },
  { id: 'ollama/fake-large', env: ['', 'OLLAMA_HOST'] },
] as const

async function started({ id, env: [key, address] }: (typeof wires)[number]) {
  const provider = await fakeProvider()
  onTestFinished(() => provider.close())
  const app = await testApp({
    plugins: [],
    env: {
      MODEL: id,
      MODEL_SETTINGS: JSON.stringify({ '*': { reasoning: 'low' } }),
      ...(key && { [key]: provider.key }),
      [address]: provider.url,
    },
  })
  onTestFinished(() => app.close())
  return { provider, user: await app.user() }
}

const onlyThinks = { reasoning: 'What could I say?' }

/** The text of the newest request, where nothing may be left of an answer without a word. */
const newest = (provider: FakeProvider) => provider.requests.at(-1)?.text

describe.each(wires)('an answer without a word from $id', (wire) => {
  it('is asked for once more', async () => {
    const { provider, user } = await started(wire)
    provider.answer(onlyThinks, 'Now I know.')
    const said = await user.say('Hello')
    expect(said).toMatchObject({ status: 'finished', text: 'Now I know.' })
    expect(newest(provider)).not.toContain('What could I say')
    expect(provider.remaining).toBe(0)
    const { usage } = said.of('done')[0] as unknown as { usage: { calls: number } }
    expect(usage.calls).toBe(2)
  })

  it('fails its turn the second time, and leaves the session as it was', async () => {
    const { provider, user } = await started(wire)
    provider.answer(onlyThinks, onlyThinks, 'Here I am.', 'Still here.')
    const first = await user.say('Hello')
    expect(first).toMatchObject({ status: 'failed' })
    expect(first.of('error')).toMatchObject([{ code: 'MODEL_ANSWER_INVALID' }])
    const { sessionId } = first
    for (const text of ['Here I am.', 'Still here.'])
      expect(await user.say('Are you there?', { sessionId })).toMatchObject({ text })
    expect(provider.refusals).toEqual([])
    expect(newest(provider)).not.toContain('What could I say')
  })
})

it('an answer that reached its length before the first word is asked for once', async () => {
  const { provider, user } = await started(wires[0])
  provider.answer({ ...onlyThinks, finish: 'length' })
  const said = await user.say('Hello')
  expect(said).toMatchObject({ status: 'failed' })
  const error = 'The model reached its longest answer before the first word.'
  expect(said.of('error')).toMatchObject([{ code: 'MODEL_ANSWER_INVALID', error }])
  expect(provider.remaining).toBe(0)
})

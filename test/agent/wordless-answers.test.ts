import { describe, expect, it, onTestFinished } from 'vitest'
import { fakeProvider, testApp, type FakeProvider } from '#core/testing'
import { dialects, envOf, type Dialect } from '../support/dialects.ts'

const wires: readonly Dialect[] = [
  ...dialects,
  {
    name: 'chat completions of mistral',
    id: 'mistral/fake',
    key: 'MISTRAL_API_KEY',
    address: 'MISTRAL_BASE_URL',
  },
  { name: 'lines of ollama', id: 'ollama/fake', key: 'OLLAMA_API_KEY', address: 'OLLAMA_HOST' },
]

async function started(dialect: Dialect) {
  const provider = await fakeProvider(dialect.rules)
  onTestFinished(() => provider.close())
  const app = await testApp({ plugins: [], env: envOf([{ dialect, provider }]) })
  onTestFinished(() => app.close())
  return { provider, user: await app.user() }
}

const onlyThinks = { reasoning: 'What could I say?' }

/** The text of the newest request, where nothing may be left of an answer without a word. */
const newest = (provider: FakeProvider) => provider.requests.at(-1)?.text

describe.each(wires)('an answer without a word: $name', (wire) => {
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
    const { sessionId } = (await user.post('/sessions')).body
    // A stream that has shown no thought either is none: its fault is a plain answer.
    const first = await user.post(`/messages/${sessionId}`, { message: 'Hello' })
    expect(JSON.stringify(first)).toContain('The model ended its answer without a word.')
    for (const text of ['Here I am.', 'Still here.'])
      expect(await user.say('Are you there?', { sessionId })).toMatchObject({ text })
    expect(provider.refusals).toEqual([])
    expect(newest(provider)).not.toContain('What could I say')
  })
})

it('an answer that reached its length before the first word is asked for once', async () => {
  const { provider, user } = await started(dialects[0]!)
  provider.answer({ ...onlyThinks, finish: 'length' })
  const said = await user.say('Hello')
  expect(said).toMatchObject({ status: 'failed' })
  const error = 'The model reached its longest answer before the first word.'
  expect(said.of('error')).toMatchObject([{ code: 'MODEL_ANSWER_INVALID', error }])
  expect(provider.remaining).toBe(0)
})

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { testApp } from '#core/testing'
import { fakeOpenAi, type FakeAnswer, type FakeRequest } from '../support/fake-openai.ts'
import { unquote } from '../support/quotation.ts'

const sky = definePlugin({
  name: 'sky',
  summary: 'Weather.',
  visibility: 'always',
  tools: {
    get_weather: {
      description: 'Weather in a city.',
      effect: 'read',
      input: z.object({ city: z.string() }),
      run: ({ city }) => `Sun in ${city}.`,
    },
  },
})

type Script = Parameters<typeof fakeOpenAi>[0]

/** The app as an operator has it: MODEL and OPENAI_BASE_URL, and an endpoint on a real wire. */
async function wired(script: Script, env: Record<string, string> = {}) {
  const provider = await fakeOpenAi(script)
  const app = await testApp({
    plugins: [sky],
    env: { MODEL: 'openai/x', OPENAI_BASE_URL: provider.url, ...env },
  })
  return {
    app,
    provider,
    user: await app.user('same words'),
    async [Symbol.asyncDispose]() {
      await app.close()
      await provider.close()
    },
  }
}

const lastOf = ({ body }: FakeRequest) => body.messages.at(-1)!

describe('an app with MODEL=openai/x', () => {
  it('runs parallel tool calls, whatever bytes their deltas are split at', async () => {
    const cities = ['Lusaka', 'Zürich', '東京']
    const toolCalls = cities.map((city) => ({ name: 'get_weather', args: { city } }))
    for (const bytesPerWrite of [1, 2, 3, 5, 7]) {
      await using wire = await wired([
        { toolCalls, bytesPerWrite, argsPerChunk: 3, id: 'same' },
        { text: 'Sonne überall ☀️, wirklich.', bytesPerWrite, id: 'same' },
      ])
      const said = await wire.user.say('Wetter?')
      expect(said.status).toBe('finished')
      expect(said.text).toBe('Sonne überall ☀️, wirklich.')
      const results = wire.provider.requests[1]!.body.messages.slice(-3)
      expect(results.map(({ content }) => unquote(String(content)))).toEqual(
        cities.map((city) => `Sun in ${city}.`),
      )
      const { messages } = (await wire.user.get(`/messages/${said.sessionId}`)).body
      expect(messages.map(({ content }: { content: string }) => content)).toEqual([
        'Wetter?',
        '',
        said.text,
      ])
      expect(messages[1].toolCalls).toMatchObject(
        cities.map((city) => ({ name: 'get_weather', args: { city }, status: 'done' })),
      )
    }
  }, 60_000)

  it('keeps every message of a provider that repeats ids, sends empty deltas and invents tools', async () => {
    const call = { name: 'get_moon', args: {}, id: 'call_1' }
    const answers: FakeAnswer[] = [
      { toolCalls: [call], id: 'same' },
      { toolCalls: [{ ...call, name: 'get_weather', args: { city: 'Oslo' } }], id: 'same' },
      { text: ['', 'Sun', '', ' there', ''], id: 'same' },
      { text: 'Again.', id: 'same' },
    ]
    await using wire = await wired(answers)
    const said = await wire.user.say('Moon?')
    expect(said.text).toBe('Sun there')
    expect(String(lastOf(wire.provider.requests[1]!).content)).toMatch(
      /get_moon.*list_capabilities/s,
    )
    await wire.user.say('And now?', { sessionId: said.sessionId })
    const { messages } = (await wire.user.get(`/messages/${said.sessionId}`)).body
    expect(messages.map(({ content }: { content: string }) => content)).toEqual([
      'Moon?',
      '',
      '',
      'Sun there',
      'And now?',
      'Again.',
    ])
    expect(new Set(messages.map(({ id }: { id: string }) => id)).size).toBe(6)
  })

  it('tells an error of the provider with its status before the first word, and as an event after it', async () => {
    await using wire = await wired((_, nth) =>
      nth === 0
        ? { status: 401, body: { error: { message: 'no such key sk-secret' } } }
        : { text: 'Well, ', then: { error: { message: 'the engine broke' } } },
    )
    const { sessionId } = (await wire.user.post('/sessions')).body
    const refused = await wire.user.post(`/messages/${sessionId}`, { message: 'Hi' })
    expect(refused.status).toBeGreaterThanOrEqual(500)
    expect(refused.body.code).toMatch(/^MODEL_/)
    expect(JSON.stringify(refused.body)).not.toContain('sk-secret')
    const broken = await wire.user.say('Hi again', { sessionId })
    expect(broken.text).toBe('Well, ')
    expect(broken.of('error')).toMatchObject([{ code: expect.stringMatching(/^MODEL_/) }])
    expect(broken.status).toBe('failed')
    const { messages } = (await wire.user.get(`/messages/${sessionId}`)).body
    expect(messages.at(-1)).toMatchObject({ content: 'Well, ', isComplete: false })
  })

  it('stops an answer that never ends, at the provider too', async () => {
    await using wire = await wired([{ text: 'I think', then: 'words', paceMs: 1 }])
    const { sessionId } = (await wire.user.post('/sessions')).body
    const turn = wire.user.say('Go on', { sessionId })
    while (wire.provider.requests.length === 0)
      await new Promise((resolve) => setTimeout(resolve, 5))
    const hungUp = new Promise((resolve) =>
      wire.provider.requests[0]!.gone.addEventListener('abort', resolve, { once: true }),
    )
    await wire.user.post('/messages/abort', { sessionId })
    await hungUp
    expect((await turn).status).toBe('aborted')
  })

  it('tells the model what is attached, in this turn and in the history', async () => {
    await using wire = await wired((_, nth) => `Answer ${nth}.`)
    const attachments = [
      { name: 'roof.jpg', mimetype: 'image/jpeg', url: 'mxc://files.example/roof.jpg', size: 9 },
      {
        filename: 'a\n"b".pdf',
        type: 'application/pdf',
        href: 7,
      },
      7,
    ]
    const first = await wire.user.say('What is this?', { body: { attachments } })
    const told = lastOf(wire.provider.requests[0]!).content
    expect(told).toBe(
      `What is this?\n\n[Attached to this message; you see what they are called, not what is in them:
- "roof.jpg" (image/jpeg) at mxc://files.example/roof.jpg
- "a \\"b\\".pdf" (application/pdf)
- without a name]`,
    )
    await wire.user.say('And now?', { sessionId: first.sessionId })
    expect(wire.provider.requests[1]!.body.messages[1]!.content).toBe(told)
    const { messages } = (await wire.user.get(`/messages/${first.sessionId}`)).body
    expect(messages[0]).toMatchObject({ content: 'What is this?', attachments })
  })

  it('tells it the same after a restart', async () => {
    const DATA_DIR = mkdtempSync(join(tmpdir(), 'oracle-wire-'))
    try {
      let sessionId = ''
      const attachments = [{ name: 'a.txt' }]
      {
        await using wire = await wired(['Seen.'], { DATA_DIR })
        ;({ sessionId } = await wire.user.say('Look', { body: { attachments } }))
      }
      await using wire = await wired(['Still seen.'], { DATA_DIR })
      await wire.user.say('Wait', { sessionId })
      expect(wire.provider.requests[0]!.body.messages[1]!.content).toContain('- "a.txt"')
    } finally {
      rmSync(DATA_DIR, { recursive: true, force: true })
    }
  })

  it('names the models when one is asked for that is not there, and ignores keys it does not know', async () => {
    await using wire = await wired(['Fine.'])
    const { sessionId } = (await wire.user.post('/sessions')).body
    const path = `/messages/${sessionId}`
    const refused = await wire.user.post(path, { message: 'Hi', model: 'y' })
    expect(refused).toMatchObject({ status: 400, body: { code: 'MODEL_UNKNOWN' } })
    expect(JSON.stringify(refused.body)).toContain('openai/x')
    const said = await wire.user.say('Hi', { sessionId, body: { model: 'openai/x', shoes: 44 } })
    expect(said.text).toBe('Fine.')
    expect(wire.provider.requests).toHaveLength(1)
  })
})

import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin, type Model } from '#core'
import { fakeFetch, readEvents, scriptedModel, testApp } from '#core/testing'
import preferences from '../../plugins/preferences/index.ts'
import weather from '../../plugins/weather/index.ts'

const network = () =>
  fakeFetch({
    'https://geocoding-api.open-meteo.com/v1/search': {
      results: [{ name: 'Lusaka', country: 'Zambia', latitude: -15.4, longitude: 28.3 }],
    },
    'https://api.open-meteo.com/v1/forecast': {
      current: { temperature_2m: 24.5, weather_code: 1 },
    },
  })

describe('the demonstration model, without a key', () => {
  it('finds the capability, loads it, calls its tool and answers in words', async () => {
    await using app = await testApp({ plugins: [weather, preferences], fetch: network() })
    const user = await app.user()
    const said = await user.say('What is the weather in Lusaka?')
    expect(said.tools).toEqual(['list_capabilities', 'load_capability', 'get_current_weather'])
    expect(
      said
        .of('tool_call')
        .find(
          ({ toolName, status }) => toolName === 'get_current_weather' && status === 'isRunning',
        ).args,
    ).toMatchObject({ city: 'Lusaka' })
    expect(said.status).toBe('finished')
    expect(said.text).toMatch(/24\.5/)
    expect(said.text).not.toMatch(/[{}]/)
    expect(said.events[0]!.event).toBe('run')
    expect(said.events.at(-1)!.event).toBe('done')
    expect(said.of('render_component')).toMatchObject([
      { componentName: 'WeatherCard', args: { city: 'Lusaka', temp_c: 24.5 } },
    ])

    // What was streamed is what the transcript says, components included.
    const { messages } = (await user.get(`/messages/${said.sessionId}`)).body
    expect(messages.map(({ type }: { type: string }) => type)[0]).toBe('human')
    expect(messages.at(-1)).toMatchObject({ type: 'ai', content: said.text, isComplete: true })
    const calls = messages.flatMap(({ toolCalls = [] }: { toolCalls?: { name: string }[] }) =>
      toolCalls.map(({ name }) => name),
    )
    expect(calls).toEqual(
      expect.arrayContaining([
        'list_capabilities',
        'load_capability',
        'get_current_weather',
        'WeatherCard',
      ]),
    )

    // A second question needs no loading any more.
    const again = await user.say('And what is the weather in Lusaka now?', {
      sessionId: said.sessionId,
    })
    expect(again.tools).toEqual(['get_current_weather'])
    const { plugins } = (await user.get(`/capabilities?sessionId=${said.sessionId}`)).body
    expect(plugins.find(({ name }: { name: string }) => name === 'weather')).toMatchObject({
      loaded: true,
    })
    const other = await user.say('What is the weather in Lusaka?')
    expect(other.tools).toContain('load_capability')
  }, 60_000)

  it('says in a sentence what a person understands when there is no network', async () => {
    await using app = await testApp({ plugins: [weather] })
    const said = await (await app.user()).say('What is the weather in Lusaka?')
    expect(said.status).toBe('finished')
    expect(said.of('tool_call').at(-1)).toMatchObject({
      toolName: 'get_current_weather',
      status: 'error',
    })
    expect(said.text).toMatch(/weather service cannot be reached/i)
    expect(said.text).not.toMatch(/UPSTREAM|[{}]|undefined/)
  }, 60_000)
})

describe('preferences', () => {
  it('are in force in the first turn of the next session, for their user alone', async () => {
    const model = scriptedModel([
      { call: 'set_user_preferences', args: { userName: 'Amina', language: 'Swahili' } },
      'Sawa.',
      'Habari.',
      'Hello.',
    ])
    await using app = await testApp({ plugins: [preferences], model })
    const amina = await app.user()
    await amina.say('Call me Amina and answer in Swahili.')
    expect((await amina.get('/user-preferences')).body).toEqual({
      userPreferences: { userName: 'Amina', language: 'Swahili' },
    })
    await amina.say('Good morning')
    await (await app.user()).say('Good morning')
    const [, after, next, stranger] = model.requests.map(({ messages }) => messages[0]!.content)
    expect(after).toContain('Call them Amina.')
    expect(next).toContain('Answer in Swahili.')
    expect(stranger).not.toContain('Amina')
  })

  it('survive a restart, and what a route sets is in the next turn', async () => {
    const DATA_DIR = mkdtempSync(join(tmpdir(), 'oracle-turns-'))
    try {
      const first = await testApp({
        plugins: [preferences],
        env: { DATA_DIR },
        model: scriptedModel([]),
      })
      await (await first.user('same words')).patch('/user-preferences', { tone: 'warm' })
      await first.close()
      const model = scriptedModel(['Hello.'])
      await using second = await testApp({ plugins: [preferences], env: { DATA_DIR }, model })
      await (await second.user('same words')).say('Hello')
      expect(model.requests[0]!.messages[0]!.content).toContain('Tone: warm.')
    } finally {
      rmSync(DATA_DIR, { recursive: true, force: true })
    }
  })
})

describe('a turn over HTTP', () => {
  const notes = (seen: string[] = []) =>
    definePlugin({
      name: 'notes',
      summary: 'Keeps notes.',
      tools: {
        write_note: {
          description: 'Writes a note down.',
          input: z.object({ text: z.string() }),
          can: { can: 'notes/write' },
          run: ({ text }, { user }) => (seen.push(`${user.did}: ${text}`), { kept: text }),
        },
        burn_notes: {
          description: 'Burns every note.',
          input: z.object({ why: z.string() }),
          approve: true,
          run: ({ why }) => (seen.push(`burnt: ${why}`), { burnt: true }),
        },
        wait_long: {
          description: 'Waits until it is stopped.',
          effect: 'read',
          input: z.object({}),
          run: (_, { signal }) =>
            new Promise((_, reject) => {
              seen.push('waiting')
              signal.addEventListener(
                'abort',
                () => (seen.push('stopped'), reject(signal.reason)),
                { once: true },
              )
            }),
        },
      },
    })
  const load = { call: 'load_capability', args: { names: ['notes'] } }

  it('gives the tools to the model’s next call of the same turn', async () => {
    const seen: string[] = []
    const model = scriptedModel([load, { call: 'write_note', args: { text: 'rain' } }, 'Noted.'])
    await using app = await testApp({ plugins: [notes(seen)], model })
    const user = await app.user()
    const said = await user.say('Note: rain')
    expect(said.tools).toEqual(['load_capability', 'write_note'])
    expect(seen).toEqual([`${user.did}: rain`])
    const offered = model.requests.map(({ tools }) => tools.map(({ name }) => name))
    expect(offered[0]).not.toContain('write_note')
    expect(offered[1]).toContain('write_note')
  })

  it('refuses a capability that the delegation lacks, in words the model can pass on', async () => {
    const seen: string[] = []
    const model = scriptedModel([
      load,
      { call: 'write_note', args: { text: 'rain' } },
      'You have not allowed that.',
    ])
    await using app = await testApp({ plugins: [notes(seen)], model })
    const user = await app.user()
    const narrow = await user.wallet.delegate({
      audience: app.oracleDid,
      capabilities: [{ can: '*', with: 'ixo:oracle' }],
    })
    const { sessionId } = (await user.post('/sessions')).body
    const response = await fetch(`${app.url}/messages/${sessionId}`, {
      method: 'POST',
      headers: {
        ...(await user.wallet.headers(app.oracleDid)),
        'x-ucan-delegation': narrow.text,
        'content-type': 'application/json',
      },
      body: JSON.stringify({ message: 'Note: rain' }),
    })
    const events = await readEvents(response)
    expect(seen).toEqual([])
    expect(
      events.find(({ data }) => data.toolName === 'write_note' && data.status === 'error'),
    ).toBeDefined()
    const toolMessage = model.requests.at(-1)!.messages.at(-1)!
    expect(toolMessage.content).toContain('notes/write')
  })

  it('asks a person first, and goes on with the answer', async () => {
    const seen: string[] = []
    const model = scriptedModel([
      load,
      { call: 'burn_notes', args: { why: 'cold' } },
      'They are ashes.',
    ])
    await using app = await testApp({ plugins: [notes(seen)], model })
    const user = await app.user()
    const said = await user.say('Burn my notes')
    expect(said.status).toBe('waiting')
    const [asked] = said.of('interrupt')
    expect(asked).toMatchObject({ kind: 'approval', toolName: 'burn_notes', args: { why: 'cold' } })
    expect(seen).toEqual([])
    const other = await app.user()
    expect((await other.post(`/runs/${asked.runId}/resume`, { decision: 'approve' })).status).toBe(
      404,
    )
    const response = await fetch(`${app.url}/runs/${asked.runId}/resume`, {
      method: 'POST',
      headers: {
        ...(await user.wallet.headers(app.oracleDid)),
        'content-type': 'application/json',
      },
      body: JSON.stringify({ decision: 'approve' }),
    })
    const events = await readEvents(response)
    expect(events[0]).toMatchObject({ event: 'run', data: { continues: asked.runId } })
    expect(events.at(-1)).toMatchObject({ event: 'done', data: { status: 'finished' } })
    expect(seen).toEqual(['burnt: cold'])
    expect(
      (await user.post(`/runs/${asked.runId}/resume`, { decision: 'approve' })).status,
    ).toBeGreaterThanOrEqual(400)
  })

  it('is stopped in the model and in a running tool, and keeps what was said', async () => {
    const seen: string[] = []
    const model = scriptedModel([load, [{ call: 'wait_long' }], 'never said'])
    await using app = await testApp({ plugins: [notes(seen)], model })
    const user = await app.user()
    const { sessionId } = (await user.post('/sessions')).body
    const turn = user.say('Wait', { sessionId })
    while (!seen.includes('waiting')) await sleep(10)
    expect((await user.post('/messages/abort', { sessionId })).body).toMatchObject({
      success: true,
    })
    const said = await turn
    expect(said.status).toBe('aborted')
    expect(seen).toEqual(['waiting', 'stopped'])
    const { messages } = (await user.get(`/messages/${sessionId}`)).body
    expect(messages.at(-1)).toMatchObject({ type: 'ai', isComplete: false })
  })

  it('resumes at every event boundary: each event once, in order', async () => {
    const seen: string[] = []
    const model = scriptedModel([
      load,
      { call: 'write_note', args: { text: 'a' } },
      'One two three four five six.',
    ])
    await using app = await testApp({ plugins: [notes(seen)], model })
    const user = await app.user()
    const said = await user.say('Note a')
    for (let i = 0; i <= said.events.length; i++) {
      const after = said.events[i - 1]?.id ?? 0
      const headers = {
        ...(await user.wallet.headers(app.oracleDid)),
        'last-event-id': String(after),
      }
      const rest = await readEvents(await fetch(`${app.url}/runs/${said.runId}`, { headers }))
      // Whoever asks from the end is told the end again.
      expect(rest.map(({ id }) => id)).toEqual(
        said.events.slice(Math.min(i, said.events.length - 1)).map(({ id }) => id),
      )
    }
  })

  it('answers at once without a stream, and finds a repeated request’s run', async () => {
    const model = scriptedModel(['Good day.', 'never said'])
    await using app = await testApp({ plugins: [], model })
    const user = await app.user()
    const { sessionId } = (await user.post('/sessions')).body
    const requestId = randomUUID()
    const send = () =>
      user.post(`/messages/${sessionId}`, { message: 'Hello', requestId, stream: false })
    const [first, second] = [await send(), await send()]
    expect(first).toMatchObject({
      status: 200,
      body: { sessionId, message: { type: 'ai', content: 'Good day.' } },
    })
    expect(second.body).toEqual(first.body)
    expect(model.requests).toHaveLength(1)
    expect(first.headers.get('x-request-id')).toBe(requestId)
  })

  it('says what is wrong with a message, and keeps none of it', async () => {
    const model = scriptedModel([])
    await using app = await testApp({ plugins: [notes()], model })
    const user = await app.user()
    const { sessionId } = (await user.post('/sessions')).body
    const wrong: [object, string][] = [
      [{}, 'message'],
      [{ message: '' }, 'message'],
      [{ message: '  \n' }, 'message'],
      [{ message: 7 }, 'message'],
      [{ message: 'x'.repeat(256 * 1024 + 1) }, 'message'],
      [{ message: 'x', metadata: [] }, 'metadata'],
      [{ message: 'x', requestId: 'no-uuid' }, 'requestId'],
      [{ message: 'x', model: 'gpt-nonsense' }, 'gpt-nonsense'],
      [{ message: 'x', tools: [{ name: 'a tool', description: '', schema: {} }] }, 'tools.0.name'],
      [
        { message: 'x', tools: [{ name: 'a', description: '', schema: { type: 'nonsense' } }] },
        'tools.0.schema',
      ],
      [
        {
          message: 'x',
          tools: Array.from({ length: 201 }, (_, i) => ({
            name: `t${i}`,
            description: '',
            schema: {},
          })),
        },
        'tools',
      ],
      [
        { message: 'x', tools: [{ name: 'write_note', description: '', schema: {} }] },
        'write_note',
      ],
    ]
    for (const [body, part] of wrong) {
      const answer = await user.post(`/messages/${sessionId}`, body)
      expect(answer.status, JSON.stringify(body).slice(0, 80)).toBe(400)
      expect(JSON.stringify(answer.body)).toContain(part)
    }
    expect((await user.get(`/messages/${sessionId}`)).body).toEqual({ messages: [] })
    const other = await app.user()
    for (const path of [
      `/messages/${sessionId}`,
      `/sessions/${sessionId}/messages`,
      `/sessions/${sessionId}/run`,
    ])
      expect((await other.get(path)).status, path).toBe(404)
    expect((await other.post(`/messages/${sessionId}`, { message: 'x' })).status).toBe(404)
    expect((await other.post('/messages/abort', { sessionId })).status).toBe(404)
    expect((await other.delete(`/sessions/${sessionId}`)).status).toBe(404)
  })

  it('lets capabilities be loaded by hand, also before the first turn', async () => {
    const model = scriptedModel([{ call: 'write_note', args: { text: 'by hand' } }, 'Noted.'])
    const seen: string[] = []
    await using app = await testApp({ plugins: [notes(seen)], model })
    const user = await app.user()
    const { sessionId } = (await user.post('/sessions')).body
    const loaded = await user.post(`/sessions/${sessionId}/capabilities`, {
      names: ['notes', 'notse'],
    })
    expect(loaded.body).toMatchObject({
      loaded: [{ name: 'notes' }],
      unknown: [{ name: 'notse', didYouMean: 'notes' }],
    })
    await user.say('Note', { sessionId })
    expect(seen).toHaveLength(1)
  })

  it('lists, pages and deletes sessions', async () => {
    const model = scriptedModel(Array.from({ length: 6 }, (_, i) => `answer ${i}`))
    await using app = await testApp({ plugins: [], model })
    const user = await app.user()
    const { sessionId } = await user.say('first words of all')
    for (let i = 1; i < 4; i++) await user.say(`message ${i}`, { sessionId })
    const list = (await user.get('/sessions')).body
    expect(list).toMatchObject({
      total: 1,
      sessions: [
        { sessionId, title: expect.stringContaining('first words'), oracleDid: app.oracleDid },
      ],
    })
    const newest = (await user.get(`/sessions/${sessionId}/messages?limit=3`)).body
    expect(newest).toMatchObject({ hasOlder: true, hasNewer: false })
    const older = (
      await user.get(
        `/sessions/${sessionId}/messages?limit=100&before=${encodeURIComponent(newest.prevCursor)}`,
      )
    ).body
    expect(
      [...older.messages, ...newest.messages].map(({ content }: { content: string }) => content),
    ).toEqual([
      'first words of all',
      'answer 0',
      'message 1',
      'answer 1',
      'message 2',
      'answer 2',
      'message 3',
      'answer 3',
    ])
    expect((await user.delete(`/sessions/${sessionId}`)).body).toEqual({
      message: expect.any(String),
    })
    expect((await user.get(`/messages/${sessionId}`)).status).toBe(404)
    expect((await user.get('/sessions')).body.total).toBe(0)
  })

  it('ends clearly when the model fails, and says whether to try again', async () => {
    const failing: Model = {
      id: 'failing',
      async *stream() {
        yield { type: 'text', text: 'I was about to ' }
        throw new Error('the cable was cut')
      },
    }
    await using app = await testApp({ plugins: [], model: failing })
    const user = await app.user()
    const said = await user.say('Hello')
    expect(said.status).toBe('failed')
    expect(said.of('error')).toMatchObject([
      { code: expect.any(String), retryable: expect.any(Boolean), error: expect.any(String) },
    ])
    expect(JSON.stringify(said.events)).not.toContain('cable')
    expect((await user.get(`/messages/${said.sessionId}`)).body.messages.at(-1)).toMatchObject({
      content: 'I was about to ',
      isComplete: false,
    })
  })
})

import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { z } from 'zod'
import { definePlugin, RuntimeError } from '#core'
import { call, scriptedModel, testApp, type ScriptedStep, type TestApp } from '#core/testing'
import { fakeOpenAi } from '../support/fake-openai.ts'
import { otlpReceiver } from '../support/otlp-receiver.ts'
import { readMetrics } from '../support/prometheus-text.ts'

const shop = definePlugin({
  name: 'shop',
  summary: 'Tools of every kind.',
  visibility: 'always',
  routes: {
    'GET /keyed': { auth: 'bearer', run: () => ({ ok: true }) },
    'POST /tidy': { run: async (_, { jobs }) => ({ id: await jobs.later('tidy', {}) }) },
  },
  jobs: { tidy: { input: z.object({}), run: () => undefined } },
  tools: {
    plan: {
      description: 'Plans.',
      effect: 'write',
      input: z.object({ what: z.string(), pin: z.string() }),
      redact: ['pin'],
      run: async ({ what }, { jobs }) => {
        await jobs.later('tidy', {})
        return `planned ${what}`
      },
    },
    refuse: {
      description: 'Refuses.',
      effect: 'read',
      foreign: false,
      input: z.object({}),
      run() {
        throw new RuntimeError('CONFLICT', 'It is taken.', { status: 409 })
      },
    },
    look: {
      description: 'Looks.',
      effect: 'read',
      foreign: false,
      input: z.object({ ms: z.number().optional() }),
      run: async ({ ms = 0 }) => {
        await pause(ms)
        return 'the secret'
      },
    },
  },
  subAgents: { clerk: { description: 'Looks up.', prompt: 'You look up.', tools: ['look'] } },
})

const apps = (script: readonly ScriptedStep[], url: string, env: Record<string, string> = {}) => ({
  plugins: [shop],
  model: scriptedModel(script, { id: 'scripted/one' }),
  env: {
    OTEL_EXPORTER_OTLP_ENDPOINT: url,
    API_KEY: 'till:abcdefghijkl',
    OPERATOR_TOKEN: 'night:mnopqrstuvwx',
    ...env,
  },
})

async function start(script: readonly ScriptedStep[], url: string, env?: Record<string, string>) {
  const app = await testApp(apps(script, url, env))
  onTestFinished(() => app.close())
  return app
}

const counted = { inputTokens: 40, outputTokens: 4, cachedTokens: 30, cacheWriteTokens: 5 }
const patience = { timeout: 30_000 }
const later = (res: ServerResponse) => setTimeout(() => res.writeHead(200).end('{}'), 3_000)

/** How many spans ended, were exported or were lost, as the metrics of an app have it. */
async function spansOf(app: TestApp, outcome: string): Promise<number | undefined> {
  const headers = { Authorization: 'Bearer mnopqrstuvwx' }
  const text = await (await fetch(`${app.url}/metrics`, { headers })).text()
  return readMetrics(text).value('oracle_spans_total', { outcome })
}

const trace = '0af7651916cd43dd8448eb211c80319c'
const parent = `00-${trace}-b7ad6b7169203331-01`

describe('with OTEL_EXPORTER_OTLP_ENDPOINT', () => {
  it('a turn is one trace: request, turn, models, tools, sub-agent', async () => {
    const receiver = await otlpReceiver()
    const app = await start(
      [
        { calls: [call('look', {})], usage: counted },
        call('call_clerk', { task: 'Look.' }),
        call('look', {}),
        'Looked.',
        { text: 'The secret is out.', ended: 'length' },
      ],
      receiver.url,
      { OTEL_SERVICE_NAME: 'the-oracle', ORACLE_NAME: 'Oracle' },
    )
    const user = await app.user('somebody')
    const said = await user.say('Tell me the secret.')
    await app.close()
    const { spans } = receiver
    const turn = spans.find(({ name }) => name === 'invoke_agent Oracle')!
    const request = spans.find(({ name }) => name === 'POST /messages/:sessionId')!
    expect(turn).toMatchObject({
      kind: 1,
      traceId: request.traceId,
      parentSpanId: request.spanId,
      service: 'the-oracle',
    })
    expect(request).toMatchObject({
      kind: 2,
      attributes: {
        'http.request.method': 'POST',
        'http.route': '/messages/:sessionId',
        'http.response.status_code': 200,
        'url.scheme': 'http',
        'oracle.plugin': 'the kernel',
      },
    })
    expect(turn.attributes).toMatchObject({
      'gen_ai.operation.name': 'invoke_agent',
      'gen_ai.agent.name': 'Oracle',
      'gen_ai.conversation.id': said.sessionId,
      'oracle.run.id': said.runId,
      'oracle.run.status': 'finished',
    })
    const ofTurn = spans.filter(({ traceId }) => traceId === turn.traceId)
    const models = ofTurn.filter(({ name }) => name === 'chat scripted/one')
    expect(models).toHaveLength(5)
    expect(models[0]).toMatchObject({
      kind: 3,
      parentSpanId: turn.spanId,
      attributes: {
        'gen_ai.operation.name': 'chat',
        'gen_ai.provider.name': 'scripted',
        'gen_ai.request.model': 'scripted/one',
        'gen_ai.response.model': 'scripted/one',
        'gen_ai.response.finish_reasons': ['tool_calls'],
        'gen_ai.usage.input_tokens': 40,
        'gen_ai.usage.output_tokens': 4,
        'gen_ai.usage.cache_read.input_tokens': 30,
        'gen_ai.usage.cache_creation.input_tokens': 5,
      },
    })
    expect(models.at(-2)!.attributes).toMatchObject({ 'gen_ai.response.finish_reasons': ['stop'] })
    expect(models.at(-1)!.attributes).toMatchObject({
      'gen_ai.response.finish_reasons': ['length'],
    })
    const clerk = ofTurn.find(({ name }) => name === 'invoke_agent clerk')!
    expect(clerk).toMatchObject({
      kind: 1,
      parentSpanId: turn.spanId,
      attributes: {
        'gen_ai.operation.name': 'invoke_agent',
        'gen_ai.agent.name': 'clerk',
        'gen_ai.tool.name': 'call_clerk',
      },
    })
    expect(models.filter(({ parentSpanId }) => parentSpanId === clerk.spanId)).toHaveLength(2)
    const tools = ofTurn.filter(({ name }) => name === 'execute_tool look')
    expect(tools.map(({ parentSpanId }) => parentSpanId).sort()).toEqual(
      [turn.spanId, clerk.spanId].sort(),
    )
    expect(tools[0]!.attributes).toMatchObject({
      'gen_ai.tool.name': 'look',
      'gen_ai.tool.call.id': expect.stringMatching(/./),
      'gen_ai.tool.type': 'function',
      'oracle.plugin': 'shop',
    })
    for (const name of ['db begin', 'db steps'])
      expect(ofTurn.find((span) => span.name === name)).toMatchObject({
        kind: 3,
        parentSpanId: turn.spanId,
        attributes: { 'db.system.name': 'sqlite' },
      })
    expect(JSON.stringify(spans)).not.toContain('secret')
    expect(JSON.stringify(spans)).not.toContain(user.did)
  })

  it('names the host of a model, the faults of tools and models, and attempts of jobs', async () => {
    const receiver = await otlpReceiver()
    const provider = await fakeOpenAi(['Good day.'])
    onTestFinished(() => provider.close())
    const env = { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url }
    const asking = await testApp({
      plugins: [shop],
      env: { ...env, MODEL: 'openai/gpt-5', OPENAI_API_KEY: 'k', OPENAI_BASE_URL: provider.url },
    })
    onTestFinished(() => asking.close())
    await (await asking.user('somebody')).say('hello')
    await asking.close()
    const asked = receiver.spans.find(({ name }) => name === 'chat openai/gpt-5')!
    expect(asked).toMatchObject({ kind: 3, attributes: { 'server.address': '127.0.0.1' } })

    const app = await start([call('refuse', {}), new Error('broken')], receiver.url)
    const user = await app.user('somebody')
    await user.say('hello').catch(() => undefined)
    expect((await user.post('/tidy', {})).status).toBe(200)
    const of = (name: string) => receiver.spans.find((span) => span.name === name)
    await expect.poll(() => of('job shop.tidy'), { timeout: 30_000 }).toBeDefined()
    await app.close()
    expect(of('job shop.tidy')).toMatchObject({
      kind: 5,
      attributes: { 'oracle.plugin': 'shop', 'oracle.job.attempt': 1 },
    })
    expect(of('execute_tool refuse')!.attributes).toMatchObject({ 'error.type': 'CONFLICT' })
    const failed = receiver.spans.filter(({ name, isFault }) => isFault && name.startsWith('chat'))
    expect(failed.map(({ attributes }) => attributes['error.type'])).toEqual(['MODEL_FAILED'])
  })

  it('a job belongs to the trace of the turn whose tool asked for it', async () => {
    const receiver = await otlpReceiver()
    const plan = call('plan', { what: 'the garden', pin: '4711' })
    const app = await start([plan, 'Done.'], receiver.url)
    await (await app.user('somebody')).say('Plan the garden.')
    const of = (name: string) => receiver.spans.find((span) => span.name === name)
    await expect.poll(() => of('job shop.tidy'), { timeout: 30_000 }).toBeDefined()
    const tool = of('execute_tool plan')!
    expect(of('job shop.tidy')).toMatchObject({
      traceId: tool.traceId,
      parentSpanId: tool.spanId,
    })
    expect(JSON.stringify(receiver.spans)).not.toContain('garden')
  })

  it('words stand in spans where OTEL_CAPTURE_CONTENT is on, without what a tool hides', async () => {
    const receiver = await otlpReceiver()
    const plan = call('plan', { what: 'the garden', pin: '4711' })
    const app = await start([plan, 'All is planned.'], receiver.url, { OTEL_CAPTURE_CONTENT: 'on' })
    await (await app.user('somebody')).say('Plan the garden.')
    await app.close()
    const chats = receiver.spans.filter(({ name }) => name === 'chat scripted/one')
    const read = (value: unknown) => JSON.parse(String(value))
    const asked = chats.map(({ attributes }) => read(attributes['gen_ai.input.messages']))
    expect(asked[0].at(-1)).toEqual({
      role: 'user',
      parts: [{ type: 'text', content: expect.stringContaining('Plan the garden.') }],
    })
    expect(asked[1].at(-1)).toMatchObject({
      role: 'tool',
      parts: [{ type: 'tool_call_response', response: 'planned the garden' }],
    })
    const answered = chats.map(({ attributes }) => read(attributes['gen_ai.output.messages']))
    expect(answered).toMatchObject([
      [{ parts: [{ type: 'tool_call', name: 'plan' }], finish_reason: 'tool_calls' }],
      [{ parts: [{ type: 'text', content: 'All is planned.' }], finish_reason: 'stop' }],
    ])
    const tool = receiver.spans.find(({ name }) => name === 'execute_tool plan')!
    expect(read(tool.attributes['gen_ai.tool.call.arguments'])).toEqual({
      what: 'the garden',
      pin: expect.not.stringContaining('4711'),
    })
    expect(tool.attributes['gen_ai.tool.call.result']).toBe('planned the garden')
    expect(JSON.stringify(receiver.spans)).not.toContain('4711')
  })

  it('a trace goes on after a takeover, and the new span links to the one that was cut', async () => {
    const receiver = await otlpReceiver()
    const app: TestApp = await start([call('look', { ms: 20_000 })], receiver.url, {
      RUN_LEASE_MS: '300',
    })
    const user = await app.user('somebody')
    const { sessionId } = (await user.post('/sessions', {})).body as { sessionId: string }
    void user.say('Do it.', { sessionId }).catch(() => undefined)
    await expect
      .poll(async () => (await user.get(`/sessions/${sessionId}/run`)).body)
      .toMatchObject({ run: { status: 'running' } })
    const ofModel = () => receiver.spans.some(({ name }) => name === 'chat scripted/one')
    await expect.poll(ofModel, { timeout: 20_000 }).toBe(true)
    await app.crash()
    const model = scriptedModel([call('look', {}), 'Done.'], { id: 'scripted/one' })
    const again = await app.again({ model, plugins: [quick] })
    onTestFinished(() => again.close())
    const back = await again.user('somebody')
    await expect
      .poll(async () => (await back.get(`/sessions/${sessionId}/run`)).body, { timeout: 20_000 })
      .toMatchObject({ run: null })
    await again.close()
    const cut = receiver.spans.find(({ name }) => name === 'chat scripted/one')!
    const turn = receiver.spans.find(({ name }) => name.startsWith('invoke_agent'))!
    expect(turn.traceId).toBe(cut.traceId)
    expect(turn.parentSpanId).toBe(cut.parentSpanId)
    expect(turn.links).toMatchObject([{ traceId: cut.traceId, spanId: cut.parentSpanId }])
    const claimed = receiver.spans.find(({ name }) => name === 'db claim')
    expect(claimed).toMatchObject({ traceId: cut.traceId, parentSpanId: cut.parentSpanId })
  })

  it('the holder of a key goes on with a trace of its own; a stranger’s is linked', async () => {
    const receiver = await otlpReceiver()
    const app = await start(['Good day.'], receiver.url)
    const user = await app.user('somebody')
    const get = async (path: string, headers: Record<string, string>) =>
      (await fetch(app.url + path, { headers: { traceparent: parent, ...headers } })).status
    expect(await get('/keyed', { Authorization: 'Bearer abcdefghijkl' })).toBe(200)
    expect(await get('/metrics', { Authorization: 'Bearer mnopqrstuvwx' })).toBe(200)
    expect(await get('/keyed', { Authorization: 'Bearer wrong' })).toBe(401)
    expect(await get('/health', {})).toBe(200)
    await user.say('hello')
    await app.close()
    const of = (name: string) => receiver.spans.filter((span) => span.name === name)
    const [keyed, refused] = of('GET /keyed')
    expect(keyed).toMatchObject({ traceId: trace, parentSpanId: 'b7ad6b7169203331', links: [] })
    expect(of('GET /metrics')[0]).toMatchObject({ traceId: trace })
    for (const span of [refused!, of('GET /health')[0]!]) {
      expect(span.traceId).not.toBe(trace)
      expect(span.links).toMatchObject([{ traceId: trace, spanId: 'b7ad6b7169203331' }])
    }
  })

  it.each([
    ['of zeros', `00-${'0'.repeat(32)}-b7ad6b7169203331-01`],
    ['with a span of zeros', `00-${trace}-${'0'.repeat(16)}-01`],
    ['of version ff', parent.replace(/^00/, 'ff')],
    ['of 12,000 letters', `${parent}-${'x'.repeat(12_000)}`],
    ['in capitals', parent.toUpperCase()],
    ['of version 00 with more behind', `${parent}-more`],
    ['that is none', 'hello'],
  ])('a traceparent %s is as none', async (_, traceparent) => {
    const receiver = await otlpReceiver()
    const app = await start([], receiver.url)
    const headers = { traceparent, Authorization: 'Bearer abcdefghijkl' }
    expect((await fetch(`${app.url}/keyed`, { headers })).status).toBe(200)
    await app.close()
    const [span] = receiver.spans
    expect(span).toMatchObject({ name: 'GET /keyed', links: [] })
    expect(span!.parentSpanId).toBeUndefined()
    expect(span!.traceId).not.toBe(trace)
  })

  it('a plugin’s request in a turn names its span to hosts in OTEL_PROPAGATE_TO alone', async () => {
    const receiver = await otlpReceiver()
    const heard: (string | undefined)[] = []
    const peer = createServer((req, res) => {
      heard.push(req.headers.traceparent?.toString())
      res.end('{}')
    }).listen(0, '127.0.0.1')
    onTestFinished(() => void peer.close())
    await once(peer, 'listening')
    const { port } = peer.address() as { port: number }
    const caller = definePlugin({
      name: 'caller',
      summary: 'Calls.',
      visibility: 'always',
      tools: {
        call_host: {
          description: 'Calls a host.',
          effect: 'read',
          foreign: false,
          input: z.object({ host: z.string() }),
          run: async ({ host }, { fetch }) =>
            (await fetch(`http://${host}:${port}/`, { headers: { 'x-own': 'kept' } })).status,
        },
      },
    })
    const script = [
      call('call_host', { host: '127.0.0.1' }),
      call('call_host', { host: 'localhost' }),
      'Done.',
    ]
    const app = await testApp({
      ...apps(script, receiver.url, { OTEL_PROPAGATE_TO: `127.0.0.1:${port}` }),
      plugins: [caller],
      fetch: (...request) => fetch(...request),
    })
    onTestFinished(() => app.close())
    await (await app.user('somebody')).say('Call.')
    await app.close()
    const turn = receiver.spans.find(({ name }) => name.startsWith('invoke_agent'))!
    expect(heard).toEqual([`00-${turn.traceId}-${turn.spanId}-01`, undefined])
  })

  it('a traceparent of 1 MB is refused with the other headers', async () => {
    const receiver = await otlpReceiver()
    const app = await start([], receiver.url)
    const headers = { traceparent: 'x'.repeat(1_000_000) }
    const answer = await fetch(`${app.url}/health`, { headers }).catch(() => undefined)
    expect([431, undefined]).toContain(answer?.status)
    expect((await fetch(`${app.url}/health`)).status).toBe(200)
  })

  it('a receiver that answers 500 costs no turn anything; the loss is counted, and one line says so', async () => {
    const faulty = { isUp: false }
    const receiver = await otlpReceiver((res) => res.writeHead(faulty.isUp ? 200 : 500).end('{}'))
    const app = await start(Array(4).fill('Good day.'), receiver.url)
    const user = await app.user('somebody')
    for (let n = 0; n < 3; n++) expect((await user.say('hello')).status).toBe('finished')
    await expect.poll(() => spansOf(app, 'lost'), patience).toBeGreaterThan(5)
    expect(await spansOf(app, 'ended')).toBeGreaterThan(5)
    expect(await spansOf(app, 'exported')).toBeUndefined()
    faulty.isUp = true
    expect((await user.say('hello')).status).toBe('finished')
    await expect.poll(() => spansOf(app, 'exported'), patience).toBeGreaterThan(0)
    for (const words of ['takes no spans', 'takes spans again'])
      expect(app.log.filter((line) => line.includes(words))).toHaveLength(1)
  })

  it.each([
    ['never answers', async () => (await otlpReceiver(() => undefined)).url],
    ['answers when nobody waits any more', async () => (await otlpReceiver(later)).url],
    ['is down', async () => 'http://127.0.0.1:1'],
  ])('no turn waits for a receiver that %s, and the loss is counted', async (_, receiver) => {
    vi.stubEnv('OTEL_EXPORTER_OTLP_TIMEOUT', '1000')
    vi.stubEnv('OTEL_BSP_SCHEDULE_DELAY', '20')
    onTestFinished(() => void vi.unstubAllEnvs())
    const app = await start(Array(10).fill('Good day.'), await receiver())
    const user = await app.user('somebody')
    // A turn that waited for its spans would end after the exporter has given some of them up.
    let isWaitedFor = true
    for (let n = 0; n < 10 && isWaitedFor; n++) {
      const before = await spansOf(app, 'lost')
      expect((await user.say('hello')).status).toBe('finished')
      isWaitedFor = (await spansOf(app, 'lost')) !== before
    }
    expect(isWaitedFor).toBe(false)
    await expect.poll(() => spansOf(app, 'lost'), patience).toBeGreaterThan(3)
    expect(await spansOf(app, 'exported')).toBeUndefined()
  })
})

describe('without it', () => {
  it('nothing of OpenTelemetry is imported', async () => {
    const program = `
      import { register } from 'node:module'
      const { testApp, scriptedModel } = await import('#core/testing')
      const app = await testApp({ plugins: [], model: scriptedModel(['Good day.']) })
      await (await app.user('somebody')).say('hello')
      await app.close()
      const loaded = process.moduleLoadList.concat(Object.keys((await import('node:module')).createRequire(import.meta.url).cache))
      console.log(loaded.filter((name) => name.includes('opentelemetry')).length, Symbol.for('opentelemetry.js.api.1') in globalThis)`
    const { execFile } = await import('node:child_process')
    const { promisify } = await import('node:util')
    const env = { ...process.env, OTEL_EXPORTER_OTLP_ENDPOINT: '' }
    const flags = ['--conditions=oracle-runtime-source', '--input-type=module', '-e', program]
    const { stdout } = await promisify(execFile)(process.execPath, flags, { env })
    expect(stdout.trim()).toBe('0 false')
  })
})

/** The same plugin with a tool that takes no time, for the process that takes over. */
const quick = definePlugin({
  name: 'shop',
  summary: 'Tools of every kind.',
  visibility: 'always',
  tools: {
    look: {
      description: 'Looks.',
      effect: 'read',
      foreign: false,
      input: z.object({ ms: z.number().optional() }),
      run: () => 'looked',
    },
  },
})

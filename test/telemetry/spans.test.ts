import { once } from 'node:events'
import { createServer } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { call, scriptedModel, testApp, type ScriptedStep, type TestApp } from '#core/testing'
import { otlpReceiver } from '../support/otlp-receiver.ts'
import { readMetrics } from '../support/prometheus-text.ts'

const shop = definePlugin({
  name: 'shop',
  summary: 'Tools of every kind.',
  visibility: 'always',
  routes: { 'GET /keyed': { auth: 'bearer', run: () => ({ ok: true }) } },
  tools: {
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

const trace = '0af7651916cd43dd8448eb211c80319c'
const parent = `00-${trace}-b7ad6b7169203331-01`

describe('with OTEL_EXPORTER_OTLP_ENDPOINT', () => {
  it('a turn is one trace: request, turn, models, tools, sub-agent', async () => {
    const receiver = await otlpReceiver()
    const app = await start(
      [
        { calls: [call('look', {})], usage: { inputTokens: 40, outputTokens: 4 } },
        call('call_clerk', { task: 'Look.' }),
        call('look', {}),
        'Looked.',
        'The secret is out.',
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
        'gen_ai.usage.input_tokens': 40,
        'gen_ai.usage.output_tokens': 4,
      },
    })
    const clerk = ofTurn.find(({ name }) => name === 'execute_tool call_clerk')!
    expect(clerk).toMatchObject({ kind: 1, parentSpanId: turn.spanId })
    expect(models.filter(({ parentSpanId }) => parentSpanId === clerk.spanId)).toHaveLength(2)
    const tools = ofTurn.filter(({ name }) => name === 'execute_tool look')
    expect(tools.map(({ parentSpanId }) => parentSpanId).sort()).toEqual(
      [turn.spanId, clerk.spanId].sort(),
    )
    expect(tools[0]!.attributes).toMatchObject({
      'gen_ai.tool.name': 'look',
      'gen_ai.tool.type': 'function',
      'oracle.plugin': 'shop',
    })
    expect(ofTurn.find(({ name }) => name === 'db begin')).toMatchObject({
      kind: 3,
      parentSpanId: turn.spanId,
    })
    expect(JSON.stringify(spans)).not.toContain('secret')
    expect(JSON.stringify(spans)).not.toContain(user.did)
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
    const count = async (outcome: string) => {
      const headers = { Authorization: 'Bearer mnopqrstuvwx' }
      const text = await (await fetch(`${app.url}/metrics`, { headers })).text()
      return readMetrics(text).value('oracle_spans_total', { outcome })
    }
    const patience = { timeout: 30_000 }
    await expect.poll(() => count('lost'), patience).toBeGreaterThan(5)
    expect(await count('ended')).toBeGreaterThan(5)
    expect(await count('exported')).toBeUndefined()
    faulty.isUp = true
    expect((await user.say('hello')).status).toBe('finished')
    await expect.poll(() => count('exported'), patience).toBeGreaterThan(0)
    for (const words of ['takes no spans', 'takes spans again'])
      expect(app.log.filter((line) => line.includes(words))).toHaveLength(1)
  })

  it('a receiver that never answers costs no turn anything', async () => {
    const receiver = await otlpReceiver(() => undefined)
    const app = await start(Array(3).fill('Good day.'), receiver.url)
    const user = await app.user('somebody')
    for (let n = 0; n < 3; n++) expect((await user.say('hello')).status).toBe('finished')
  })

  it('a receiver that is down costs nothing either', async () => {
    const app = await start(['Good day.'], 'http://127.0.0.1:1')
    expect((await (await app.user('somebody')).say('hello')).status).toBe('finished')
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

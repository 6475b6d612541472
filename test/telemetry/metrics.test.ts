import { spawnSync } from 'node:child_process'
import { createServer } from 'node:net'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { definePlugin, type Metrics } from '#core'
import { call, scriptedModel, testApp } from '#core/testing'
import { onEachDatabase } from '../support/each-database.ts'
import { readMetrics } from '../support/prometheus-text.ts'

const shop = definePlugin({
  name: 'the-shop',
  summary: 'Sells.',
  visibility: 'always',
  setup({ metrics }) {
    const sold = metrics.counter('sold_total', 'Things that were "sold",\nso far.', ['kind'])
    const stock = metrics.gauge('stock', 'Things that are there.')
    const took = metrics.histogram('sale_seconds', 'How long a sale took.', [], [0.1, 1])
    stock.set(7)
    return { sold, took }
  },
  jobs: {
    sell: {
      input: z.object({ kind: z.string() }),
      attempts: 1,
      run({ kind }) {
        if (kind === 'bad') throw new Error('Nobody buys this.')
      },
    },
  },
  routes: {
    'GET /open/:id': {
      auth: 'public',
      input: z.object({ id: z.string() }),
      run: ({ id }) => ({ id }),
    },
    'GET /sell/:kind': {
      auth: 'public',
      input: z.object({ kind: z.string() }),
      run({ kind }, { self }) {
        self.sold.add({ kind })
        self.took.observe(0.5)
        return { ok: true }
      },
    },
    'GET /mine': { run: () => ({ ok: true }) },
    'GET /seldom': {
      auth: 'public',
      limit: { max: 3, perMs: 3_600_000 },
      run: () => ({ ok: true }),
    },
    'GET /later/:kind': {
      auth: 'public',
      input: z.object({ kind: z.string() }),
      run: async ({ kind }, { jobs }) => ({ id: await jobs.later('sell', { kind }) }),
    },
    'GET /many': {
      auth: 'public',
      run(_, { self }) {
        for (let n = 0; n < 10_000; n++) self.sold.add({ kind: `kind-${n}` })
        return { ok: true }
      },
    },
  },
  tools: {
    look: { description: 'Looks.', foreign: false, input: z.object({}), run: () => 'nothing' },
  },
})

const token = 'mnopqrstuvwx'

async function start(
  script: Parameters<typeof scriptedModel>[0] = [],
  env: Record<string, string> = {},
) {
  const app = await testApp({
    plugins: [shop],
    model: scriptedModel(script, { id: 'scripted/one' }),
    env: { OPERATOR_TOKEN: token, NODE_ENV: 'production', ORACLE_MNEMONIC: 'an oracle', ...env },
  })
  onTestFinished(() => app.close())
  const text = async () => {
    const answer = await fetch(`${app.url}/metrics`, {
      headers: { Authorization: `Bearer ${token}` },
    })
    expect(answer.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
    return await answer.text()
  }
  const read = async () => readMetrics(await text())
  return { app, text, read }
}

describe('GET /metrics', () => {
  it('tells exactly what was done', async () => {
    const usage = { inputTokens: 40, outputTokens: 4 }
    const { app, read } = await start([
      { calls: [call('look', {}), call('nothing', {})], usage },
      { text: 'Good day.', usage },
      { text: 'Good day.', usage },
    ])
    const get = async (path: string) => (await fetch(app.url + path)).arrayBuffer()
    for (let n = 0; n < 17; n++) await get(`/open/${n}`)
    for (let n = 0; n < 5; n++) await get(`/nowhere/${n}`)
    for (let n = 0; n < 3; n++) await get('/readyz')
    for (const kind of ['tea', 'tea', 'a "cup"\\\n']) await get(`/sell/${encodeURIComponent(kind)}`)
    const user = await app.user('somebody')
    const { sessionId } = await user.say('hello')
    await user.say('hello again', { sessionId })
    const at = (metrics: Awaited<ReturnType<typeof read>>, name: string, labels = {}) =>
      metrics.value(name, labels)
    await expect
      .poll(async () => at(await read(), 'oracle_turns_total', { status: 'finished' }))
      .toBe(2)
    const metrics = await read()
    const requests = (route: string, status: string) =>
      at(metrics, 'oracle_http_requests_total', { route, status })
    expect(requests('/open/:id', '200')).toBe(17)
    expect(requests('none', '404')).toBe(5)
    expect(requests('/readyz', '200')).toBeUndefined()
    expect(requests('/messages/:sessionId', '200')).toBe(2)
    expect(at(metrics, 'oracle_turn_seconds_count')).toBe(2)
    expect(at(metrics, 'oracle_model_calls_total', { model: 'scripted/one', code: 'none' })).toBe(3)
    expect(at(metrics, 'oracle_model_tokens_total', { kind: 'input' })).toBe(120)
    expect(at(metrics, 'oracle_model_tokens_total', { kind: 'output' })).toBe(12)
    expect(
      at(metrics, 'oracle_tool_calls_total', { tool: 'look', plugin: 'the-shop', outcome: 'done' }),
    ).toBe(1)
    expect(
      at(metrics, 'oracle_tool_calls_total', { tool: 'other', plugin: 'none', outcome: 'refused' }),
    ).toBe(1)
    expect(at(metrics, 'oracle_runs_open', { status: 'running' })).toBe(0)
    expect(at(metrics, 'oracle_waiting_turns')).toBe(0)
    expect(at(metrics, 'oracle_plugin_state', { plugin: 'the-shop', state: 'loaded' })).toBe(1)
    expect(at(metrics, 'the_shop_sold_total', { kind: 'tea' })).toBe(2)
    expect(at(metrics, 'the_shop_sold_total', { kind: 'a "cup"\\\n' })).toBe(1)
    expect(at(metrics, 'the_shop_stock')).toBe(7)
    expect(at(metrics, 'the_shop_sale_seconds_bucket', { le: '0.1' })).toBe(0)
    expect(at(metrics, 'the_shop_sale_seconds_bucket', { le: '1' })).toBe(3)
    expect(at(metrics, 'the_shop_sale_seconds_sum')).toBe(1.5)
    expect(at(metrics, 'process_cpu_seconds_total')).toBeGreaterThan(0)
    expect(at(metrics, 'process_start_time_seconds')).toBeGreaterThan(1.7e9)
  })

  it('counts what limits refuse and what jobs do, and how often each took its time', async () => {
    const { app, read } = await start([], { RATE_LIMIT_PER_MINUTE: '1000000' })
    const get = async (path: string) => {
      const answer = await fetch(app.url + path)
      await answer.arrayBuffer()
      return answer.status
    }
    const statuses: number[] = []
    for (let n = 0; n < 7; n++) statuses.push(await get('/seldom'))
    expect(statuses).toEqual([200, 200, 200, 429, 429, 429, 429])
    for (const kind of ['good', 'good', 'bad']) await get(`/later/${kind}`)
    const ended = async (outcome: string) =>
      (await read()).value('oracle_job_attempts_total', { plugin: 'the-shop', outcome })
    await expect.poll(() => ended('done'), { timeout: 30_000 }).toBe(2)
    await expect.poll(() => ended('dead'), { timeout: 30_000 }).toBe(1)
    const metrics = await read()
    expect(metrics.value('oracle_refused_total')).toBe(4)
    expect(metrics.value('oracle_job_seconds_count')).toBe(3)
    expect(metrics.value('oracle_jobs', { state: 'dead' })).toBe(1)
    const route = { route: '/seldom', plugin: 'the-shop', method: 'GET' }
    expect(metrics.value('oracle_http_requests_total', { ...route, status: '200' })).toBe(3)
    expect(metrics.value('oracle_http_requests_total', { ...route, status: '429' })).toBe(4)
    expect(metrics.value('oracle_streams_open', { kind: 'sse' })).toBe(0)
  })

  it('is the operator’s alone', async () => {
    const { app } = await start()
    const user = await app.user('somebody')
    expect((await fetch(`${app.url}/metrics`)).status).toBe(401)
    const wrong = { headers: { Authorization: 'Bearer nothing' } }
    expect((await fetch(`${app.url}/metrics`, wrong)).status).toBe(401)
    expect((await user.get('/metrics')).status).toBe(403)
  })

  it('gains no series by unknown paths, methods and users', async () => {
    const { app, read } = await start()
    await (await fetch(`${app.url}/nowhere`)).arrayBuffer()
    await (await app.user('the first')).get('/mine')
    await read()
    const before = (await read()).series
    const some = async (from: number) => {
      for (let n = from; n < from + 500; n++)
        await (await fetch(`${app.url}/nowhere/${n}`)).arrayBuffer()
    }
    await Promise.all(Array.from({ length: 20 }, (_, n) => some(n * 500)))
    const users = async (from: number) => {
      for (let n = from; n < from + 50; n++) await (await app.user(`user ${n}`)).get('/mine')
    }
    await Promise.all(Array.from({ length: 20 }, (_, n) => users(n * 50)))
    const after = await read()
    expect(after.series.filter((name) => !before.includes(name))).toEqual([])
    expect(after.value('oracle_http_requests_total', { route: 'none' })).toBe(10_001)
    expect(after.value('oracle_http_requests_total', { route: '/mine', status: '200' })).toBe(1_001)
  }, 180_000)

  it('has a label of 10,000 values stand as 2,000 and as "other"', async () => {
    const { app, read } = await start()
    await (await fetch(`${app.url}/many`)).arrayBuffer()
    const metrics = await read()
    const kinds = metrics.series.filter((name) => name.startsWith('the_shop_sold_total'))
    expect(kinds).toHaveLength(2_001)
    expect(metrics.value('the_shop_sold_total', { kind: 'other' })).toBe(8_000)
  })

  const hasPromtool = spawnSync('promtool', ['--version']).status === 0
  if (!hasPromtool && process.env.REQUIRE_ALL === '1')
    it('needs promtool', () =>
      expect.fail('Install Debian’s package "prometheus": promtool is not here.'))
  it.skipIf(!hasPromtool)(
    'is read by promtool without a complaint (install Debian’s package "prometheus" to run this)',
    async () => {
      const { app, text } = await start([call('look', {}), 'Good day.'])
      await (await fetch(`${app.url}/sell/tea`)).arrayBuffer()
      await (await app.user('somebody')).say('hello')
      const checked = spawnSync('promtool', ['check', 'metrics'], {
        input: await text(),
        encoding: 'utf8',
      })
      expect(checked.stderr + checked.stdout).toBe('')
      expect(checked.status).toBe(0)
    },
  )
})

await onEachDatabase('the metrics of the database', ({ databaseUrl }) => {
  it('tell of connections, of the way of notifications, and of each table', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'metrics-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const where: Record<string, string> = databaseUrl
      ? { DATABASE_URL: databaseUrl, DATABASE_POOL: '3' }
      : { DATA_DIR: folder }
    const { app, read } = await start([], where)
    await read()
    await expect
      .poll(async () => (await read()).value('oracle_storage_bytes', { table: 'kernel_runs' }))
      .toBeGreaterThan(0)
    const metrics = await read()
    const { body } = await app.get('/storage', { headers: { Authorization: `Bearer ${token}` } })
    const tables = body.tables.map(({ name }: { name: string }) => name)
    const told = metrics.series.filter((name) => name.startsWith('oracle_storage_bytes'))
    expect(told).toHaveLength(tables.length)
    const pool = ['used', 'idle', 'waiting'].map((state) =>
      metrics.value('oracle_db_pool', { state }),
    )
    const way = metrics.value('oracle_bus_seconds', { way: 'direct' })
    if (databaseUrl) {
      expect(pool[0]! + pool[1]!).toBeLessThanOrEqual(3)
      expect(pool[2]).toBe(0)
      expect(way).toBeGreaterThan(0)
      expect(way).toBeLessThan(2)
    } else expect([...pool, way]).toEqual([undefined, undefined, undefined, undefined])
    expect(metrics.value('oracle_backup_age_seconds')).toBeUndefined()
  })
})

describe('METRICS_PORT', () => {
  it('serves the same without a token on a port of its own', async () => {
    const { app } = await start([], { METRICS_PORT: '0' })
    const line = app.log.find((said) => said.includes('metrics on http'))!
    const url = /http:\/\/127\.0\.0\.1:\d+\/metrics/.exec(line)![0]
    const answer = await fetch(url)
    expect(readMetrics(await answer.text()).value('oracle_takeovers_total')).toBe(0)
    expect((await fetch(new URL('/', url))).status).toBe(404)
    expect((await fetch(url, { method: 'POST' })).status).toBe(404)
  })

  it('stops the boot where it is PORT, or no port', async () => {
    const at = (env: Record<string, string>) => testApp({ plugins: [], env })
    await expect(at({ PORT: '4711', METRICS_PORT: '4711' })).rejects.toThrow('METRICS_PORT is 4711')
    await expect(at({ METRICS_PORT: '70000' })).rejects.toThrow('METRICS_PORT')
  })

  it('stops the server where somebody else has it', async () => {
    const other = createServer().listen(0, '127.0.0.1')
    onTestFinished(() => void other.close())
    await once(other, 'listening')
    const { port } = other.address() as { port: number }
    await expect(testApp({ plugins: [], env: { METRICS_PORT: String(port) } })).rejects.toThrow(
      'The metrics cannot be served',
    )
  })
})

describe('a metric that cannot be', () => {
  const boots = (setup: (metrics: Metrics) => void, name = 'maker') =>
    testApp({
      plugins: [definePlugin({ name, summary: 'Makes.', setup: ({ metrics }) => setup(metrics) })],
    })
  const cases: [string, (metrics: Metrics) => void][] = [
    ['a name with a dash', (m) => m.gauge('in-stock', 'Stock.')],
    ['capitals', (m) => m.gauge('Stock', 'Stock.')],
    ['a counter that is not called one', (m) => m.counter('sold', 'Sold.')],
    ['a gauge that is called a counter', (m) => m.gauge('sold_total', 'Sold.')],
    ['a name of a histogram', (m) => m.gauge('sold_bucket', 'Sold.')],
    ['no help', (m) => m.gauge('stock', ' ')],
    ['a name twice', (m) => [m.gauge('stock', 'Stock.'), m.gauge('stock', 'Stock.')]],
    ['a label of the format', (m) => m.gauge('stock', 'Stock.', ['le'])],
    ['labels twice', (m) => m.gauge('stock', 'Stock.', ['a', 'a'])],
    ['bounds that fall', (m) => m.histogram('sale_seconds', 'Sales.', [], [2, 1])],
    ['a name of 200 letters', (m) => m.gauge('x'.repeat(200), 'Stock.')],
  ]
  it.each(cases)('stops the boot: %s', async (_, setup) => {
    await expect(boots(setup)).rejects.toThrow('cannot be')
  })

  it('stops the boot: the name of the kernel’s', async () => {
    const setup = (m: Metrics) => void m.counter('takeovers_total', 'Mine.')
    await expect(boots(setup, 'oracle')).rejects.toThrow('there is one of that name already')
  })

  it('stops the boot: the name of another plugin’s', async () => {
    const made = (name: string, metric: string) =>
      definePlugin({
        name,
        summary: 'Makes.',
        setup: ({ metrics }) => void metrics.counter(metric, 'Mine.'),
      })
    const plugins = [made('tea', 'pot_sold_total'), made('tea-pot', 'sold_total')]
    await expect(testApp({ plugins })).rejects.toThrow('there is one of that name already')
  })
})

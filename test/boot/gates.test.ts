import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin, type WebModule } from '#core'
import { scriptedModel, testApp } from '#core/testing'

const what = 'It loads its index; check INDEX_URL'

/** A search whose index loads until the test says how the load ended. */
function search(options?: { readonly gates?: boolean }) {
  const load = Promise.withResolvers<void>()
  const seen: string[] = []
  const note = async <T>(layer: string, next: () => Promise<T>): Promise<T> => {
    seen.push(layer)
    return await next()
  }
  const plugin = definePlugin({
    name: 'search',
    summary: 'Finds documents.',
    visibility: 'always',
    setup({ pending }) {
      pending(load.promise, what, options)
      return { hits: 3 }
    },
    prompt: () => 'Search before you answer.',
    tools: {
      find: {
        description: 'Finds.',
        effect: 'read',
        input: z.object({}),
        run: (_, { self }) => self.hits,
      },
    },
    subAgents: { reader: { description: 'Reads.', prompt: 'Read.', tools: ['find'] } },
    middleware: {
      http: (_, next) => note('http', next),
      turn: (_, next) => note('turn', next),
      model: (_, next) => note('model', next),
      tool: (_, __, next) => note('tool', next),
    },
    routes: { 'GET /hits': { auth: 'public', run: (_, { self }) => self.hits } },
    web: {
      '/search-page': async (ctx) => {
        ctx.body = 'the page'
      },
    },
  })
  return { plugin, load, seen }
}

const served: WebModule = async (ctx) => {
  ctx.body = 'served'
}

const later = definePlugin({
  name: 'later',
  summary: 'Stands beside the search.',
  visibility: 'always',
  tools: { nothing: { description: 'Nothing.', input: z.object({}), run: () => 'done' } },
})

describe('a plugin whose pending work is not done', () => {
  it('answers 503 with Retry-After and the sentence, and serves once the work is done', async () => {
    const { plugin, load } = search()
    await using app = await testApp({ plugins: [plugin] })
    for (const path of ['/hits', '/search-page']) {
      const { status, body, headers } = await app.get(path)
      expect({ path, status, body }).toMatchObject({
        path,
        status: 503,
        body: { code: 'PLUGIN_PENDING', message: expect.stringContaining('search'), hint: what },
      })
      expect(headers.get('retry-after')).toBe('2')
    }
    expect((await app.get('/health')).body).toMatchObject({
      status: 'ok',
      plugins: { search: 'pending' },
      notes: [{ plugin: 'search', state: 'pending', check: what }],
    })
    load.resolve()
    await expect.poll(async () => (await app.get('/hits')).status).toBe(200)
    expect((await app.get('/search-page')).body).toBe('the page')
    expect((await app.get('/health')).body.plugins).toEqual({ search: 'loaded' })
  })

  it('is no fault of the server: the log has no stack of the answers, however often clients ask', async () => {
    const { plugin, load } = search()
    const loud = { plugins: [plugin], env: { LOG_LEVEL: 'debug' } }
    await using app = await testApp(loud)
    const told = (code: string) => app.log.filter((line) => line.includes(`code=${code}`))
    for (let n = 0; n < 3; n++) expect((await app.get('/hits')).status).toBe(503)
    load.reject(new Error('No index.'))
    await expect.poll(async () => (await app.get('/hits')).body.code).toBe('PLUGIN_FAILED')
    expect(told('PLUGIN_PENDING').length).toBeGreaterThanOrEqual(3)
    expect(told('PLUGIN_FAILED').length).toBeGreaterThanOrEqual(1)
    for (const line of [...told('PLUGIN_PENDING'), ...told('PLUGIN_FAILED')])
      expect(line).toMatch(
        / debug \[search\] search .* code=\S+ method=GET requestId=\S+ route=GET \/hits\n$/,
      )
  })

  it('lets a preflight of its page pass, so that a browser may read the 503', async () => {
    const { plugin } = search()
    await using app = await testApp({ plugins: [plugin] })
    const headers = { origin: 'https://a.example', 'access-control-request-method': 'GET' }
    const answer = await fetch(`${app.url}/search-page`, { method: 'OPTIONS', headers })
    expect(answer.status).toBe(204)
  })

  it('shows the model nothing of itself, passes turns by, and says what it waits for', async () => {
    const { plugin, load, seen } = search()
    const model = scriptedModel([
      { calls: [{ call: 'load_capability', args: { names: ['search'] } }, { call: 'nothing' }] },
      'Not yet.',
      { calls: [{ call: 'find' }] },
      'Three.',
    ])
    await using app = await testApp({ plugins: [plugin, later], model })
    const user = await app.user()
    const first = await user.say('Find it')
    expect(first.status).toBe('finished')
    expect(seen).toEqual([])
    const [asked] = model.requests
    expect(asked!.messages[0]!.content).not.toContain('Search before you answer.')
    const names = asked!.tools.map(({ name }) => name)
    expect(names).toContain('nothing')
    expect(names).not.toContain('find')
    expect(names).not.toContain('call_reader')
    const [answered] = first
      .of('tool_call')
      .filter(({ toolName, status }) => toolName === 'load_capability' && status === 'done')
    expect(answered).toMatchObject({ output: expect.stringContaining(`not ready: ${what}`) })
    expect(answered).not.toHaveProperty('error')
    await expect(app.thread().call('find')).rejects.toThrow('which is pending')

    load.resolve()
    await expect.poll(() => app.report.plugins[0]!.state).toBe('loaded')
    const second = await user.say('Find it now')
    expect(second.text).toBe('Three.')
    const now = model.requests.at(-1)!
    expect(now.messages[0]!.content).toContain('Search before you answer.')
    expect(now.tools.map(({ name }) => name)).toEqual(
      expect.arrayContaining(['find', 'call_reader']),
    )
    expect(new Set(seen)).toEqual(new Set(['http', 'turn', 'model', 'tool']))
  })

  it('gives its self to a peer all the while', async () => {
    const { plugin } = search()
    const peer = definePlugin({
      name: 'peer',
      summary: 'Asks the search.',
      requires: [plugin],
      routes: { 'GET /peer': { auth: 'public', run: (_, { plugins }) => plugins.search.hits } },
    })
    await using app = await testApp({ plugins: [plugin, peer] })
    expect(await app.get('/peer')).toMatchObject({ status: 200, body: 3 })
  })
})

it('a plugin whose pending work failed answers 503 without Retry-After, and its tools are gone', async () => {
  const { plugin, load, seen } = search()
  await using app = await testApp({ plugins: [plugin] })
  load.reject(new Error('the index is torn'))
  await expect.poll(() => app.report.plugins[0]!.state).toBe('failed')
  for (const path of ['/hits', '/search-page']) {
    const { status, body, headers } = await app.get(path)
    expect({ path, status, body }).toMatchObject({
      path,
      status: 503,
      body: { code: 'PLUGIN_FAILED', hint: expect.stringContaining('the index is torn') },
    })
    expect(headers.get('retry-after')).toBeNull()
  }
  expect(app.thread().tools).not.toContain('find')
  expect(() => app.thread().load('search')).toThrow('the index is torn')
  await expect(app.thread().call('find')).rejects.toThrow('which is failed')
  expect(seen).toEqual([])
})

it('a plugin serves all the while when its pending work says gates: false, also when that work failed', async () => {
  const { plugin, load, seen } = search({ gates: false })
  await using app = await testApp({ plugins: [plugin] })
  const serves = async () => {
    expect((await app.get('/hits')).body).toBe(3)
    expect((await app.get('/search-page')).body).toBe('the page')
    expect(app.thread().tools).toContain('find')
    expect(await app.thread().call('find')).toBe(3)
  }
  await serves()
  expect(app.report.plugins[0]).toMatchObject({ state: 'pending', reason: what })
  load.reject(new Error('the page cannot be built'))
  await expect.poll(() => app.report.plugins[0]!.state).toBe('failed')
  await serves()
  expect(seen).toContain('http')
})

it('a plugin with several pending works serves when the last of them is done, and never after one failed', async () => {
  const works = Array.from({ length: 4 }, () => Promise.withResolvers<void>())
  const waiting = (name: string, [first, second]: typeof works) =>
    definePlugin({
      name,
      summary: 'Waits twice.',
      setup({ pending }) {
        pending(first!.promise, 'the first')
        pending(second!.promise, 'the second')
      },
      web: { [`/${name}`]: served },
    })
  const plugins = [waiting('good', works.slice(0, 2)), waiting('bad', works.slice(2))]
  await using app = await testApp({ plugins })
  works[1]!.resolve()
  works[3]!.reject(new Error('no answer'))
  await expect.poll(() => app.report.plugins[1]!.state).toBe('failed')
  works[2]!.resolve()
  expect((await app.get('/good')).body).toMatchObject({ code: 'PLUGIN_PENDING', hint: 'the first' })
  expect((await app.get('/bad')).body).toMatchObject({
    code: 'PLUGIN_FAILED',
    hint: 'the second: no answer',
  })
  works[0]!.resolve()
  await expect.poll(async () => (await app.get('/good')).body).toBe('served')
  expect((await app.get('/bad')).body).toMatchObject({ code: 'PLUGIN_FAILED' })
})

describe('work that tells what it waits for now', () => {
  it('is named by the sentence of the moment, wherever the plugin is asked for', async () => {
    const load = Promise.withResolvers<void>()
    const cause = { now: 'connection refused' }
    const plugin = definePlugin({
      name: 'bridge',
      summary: 'Brings messages.',
      visibility: 'silent',
      setup: ({ pending }) => pending(load.promise, () => `waits for the server: ${cause.now}`),
      routes: { 'GET /rooms': { auth: 'public', run: () => [] } },
    })
    await using app = await testApp({ plugins: [plugin], model: scriptedModel([]) })
    const hint = async () => (await app.get('/rooms')).body.hint
    expect(await hint()).toBe('waits for the server: connection refused')
    cause.now = 'it answers 502'
    await expect.poll(hint, { timeout: 10_000 }).toBe('waits for the server: it answers 502')
    expect((await app.get('/health')).body.plugins.bridge).toContain('pending')
    load.resolve()
    await expect.poll(async () => (await app.get('/rooms')).status).toBe(200)
  })
})

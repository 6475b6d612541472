import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { createApp, definePlugin, RuntimeError } from '#core'
import { testApp } from '#core/testing'
import { onEachDatabase } from '../support/each-database.ts'
import { say, sayingEngine, toolEngine } from '../support/fake-engines.ts'
import { type Replica, replica } from '../support/replica.ts'

const other = 'did:key:zOther'

async function talk(here: Replica, sessionId: string, count: number, from = 1): Promise<void> {
  for (let i = from; i < from + count; i++)
    await (await here.stream(`/messages/${sessionId}`, { message: `question ${i}` })).rest()
}

await onEachDatabase('sessions, with a fake engine', (where) => {
  test('are made, listed with their total, and titled by the first message', async () => {
    const did = `did:key:z${randomUUID()}`
    const here = await replica({
      engine: sayingEngine(['Hello.']),
      oracle: { name: 'Rain', did: 'did:key:zRain', entityDid: 'did:ixo:entity:1' },
      ...where,
    })
    const made = await here.call('POST', '/sessions', undefined, did)
    expect(made.status).toBe(201)
    expect(made.body).toMatchObject({
      sessionId: expect.any(String),
      oracleName: 'Rain',
      oracleDid: 'did:key:zRain',
      oracleEntityDid: 'did:ixo:entity:1',
    })
    expect(made.body.createdAt).toBe(new Date(made.body.createdAt).toISOString())
    for (let i = 0; i < 4; i++) await here.call('POST', '/sessions', undefined, did)
    const { sessionId } = made.body
    const long = 'Tell me, please, everything that there is to know about the rain in Lusaka'
    const body = { message: long, stream: false }
    await here.call('POST', `/messages/${sessionId}`, body, did)
    const page = await here.call('GET', '/sessions?limit=2', undefined, did)
    expect(page.body.total).toBe(5)
    expect(page.body.sessions).toHaveLength(2)
    expect(page.body.sessions[0]).toMatchObject({
      sessionId,
      title: 'Tell me, please, everything that there is to know about the…',
    })
    const last = await here.call('GET', '/sessions?limit=2&offset=4', undefined, did)
    expect(last.body.sessions).toHaveLength(1)
    expect((await here.call('GET', '/sessions', undefined, other)).body).toEqual({
      sessions: [],
      total: 0,
      nextCursor: null,
    })
    for (const query of ['limit=0', 'limit=101', 'limit=x', 'offset=-1'])
      expect((await here.call('GET', `/sessions?${query}`)).status).toBe(400)
  })

  test('begin with their first message under an id of the client, once, and never with that of another user', async () => {
    const here = await replica({ engine: sayingEngine(['Hello.']), ...where })
    const id = randomUUID()
    const post = (path: string, body: object, did?: string) =>
      here.call('POST', `/messages/${path}`, { stream: false, ...body }, did)
    expect((await post(id, { message: 'Hi' })).status).toBe(404)
    const first = { message: 'Hi', newSession: true, requestId: randomUUID() }
    const both = await Promise.all([post(id, first), post(id, first)])
    expect(both.map(({ status }) => status)).toEqual([200, 200])
    expect((await post(id, { message: 'And on', newSession: true })).status).toBe(200)
    const { messages } = (await here.call('GET', `/messages/${id}`)).body
    expect(messages.map(({ content }: { content: string }) => content)).toEqual([
      ...['Hi', 'Hello.', 'And on', 'Hello.'],
    ])
    const foreign = await post(id, { message: 'Mine?', newSession: true }, other)
    expect(foreign).toMatchObject({ status: 404, body: { code: 'NOT_FOUND' } })
    expect((await here.call('GET', `/messages/${id}`)).body.messages).toHaveLength(4)
    for (const name of ['short', 'x'.repeat(36)])
      expect((await post(name, { message: 'Hi', newSession: true })).status).toBe(400)
  })

  test('that a refused message would begin are not there', async () => {
    const limits = { atOnce: 5, perDay: 1, addressFactor: 5, atOnceTotal: 100 }
    const here = await replica({ engine: sayingEngine(['Hello.']), limits, ...where })
    const did = `did:key:z${randomUUID()}`
    const say = (id: string) =>
      here.call('POST', `/messages/${id}`, { message: 'Hi', newSession: true, stream: false }, did)
    const kept = randomUUID()
    expect((await say(kept)).status).toBe(200)
    expect((await say(randomUUID())).status).toBe(429)
    const { sessions } = (await here.call('GET', '/sessions', undefined, did)).body
    expect(sessions.map(({ sessionId }: { sessionId: string }) => sessionId)).toEqual([kept])
  })

  test('do not exist for anybody but their user', async () => {
    const here = await replica({
      engine: sayingEngine(['Hello.']),
      loadCapabilities: () => ({ loaded: [] }),
      ...where,
    })
    const sessionId = await here.session()
    await talk(here, sessionId, 1)
    const asks: [string, string, unknown?][] = [
      ['GET', `/messages/${sessionId}`],
      ['GET', `/sessions/${sessionId}/messages`],
      ['GET', `/sessions/${sessionId}/run`],
      ['POST', `/messages/${sessionId}`, { message: 'Hi' }],
      ['POST', `/sessions/${sessionId}/capabilities`, { names: ['x'] }],
      ['POST', '/messages/abort', { sessionId }],
      ['DELETE', `/sessions/${sessionId}`],
    ]
    for (const [method, path, body] of asks) {
      const foreign = await here.call(method, path, body, other)
      const missing = await here.call(
        method,
        path.replace(sessionId, randomUUID()),
        path.includes(sessionId) ? body : { sessionId: randomUUID() },
      )
      expect([path, foreign.status, foreign.body.code]).toEqual([path, 404, 'NOT_FOUND'])
      expect([path, missing.status, missing.body.code]).toEqual([path, 404, 'NOT_FOUND'])
    }
    expect((await here.call('GET', `/messages/${sessionId}`)).body.messages).toHaveLength(2)
  })

  test('are deleted with everything in them, a run under way included', async () => {
    const deleted: string[] = []
    const stopped = Promise.withResolvers<unknown>()
    const here = await replica({
      engine: async (run) => {
        if (run.request.message !== 'wait') return sayingEngine(['Hello.'])(run)
        run.emit('message', { content: 'I wait' })
        await new Promise((resolve) => run.signal.addEventListener('abort', resolve))
        stopped.resolve(run.signal.reason)
        throw run.signal.reason
      },
      onSessionDeleted: async (id) => void deleted.push(id),
      ...where,
    })
    const sessionId = await here.session()
    await talk(here, sessionId, 2)
    const turn = await here.stream(`/messages/${sessionId}`, { message: 'wait' })
    await turn.until(({ event }) => event === 'message')
    const { status, body } = await here.call('DELETE', `/sessions/${sessionId}`)
    expect(status).toBe(200)
    expect(body.message).toEqual(expect.any(String))
    expect((await turn.rest()).at(-1)).toMatchObject({ event: 'done', data: { status: 'aborted' } })
    expect(await stopped.promise).toMatchObject({ name: 'RunLost' })
    expect(deleted).toEqual([sessionId])
    expect((await here.call('GET', `/messages/${sessionId}`)).status).toBe(404)
    expect((await here.call('GET', `/runs/${turn.headers.get('x-run-id')}`)).status).toBe(404)
    const tables = {
      kernel_runs: 'session_id',
      kernel_steps: 'session_id',
      kernel_effects: 'session_id',
      kernel_results: 'session_id',
    } as const
    const db = here.store.db.withTables<Record<keyof typeof tables, { session_id: string }>>()
    for (const table of Object.keys(tables) as (keyof typeof tables)[]) {
      const rows = await db
        .selectFrom(table)
        .selectAll()
        .where('session_id', '=', sessionId)
        .execute()
      expect([table, rows]).toEqual([table, []])
    }
  })

  test('are read page by page, and the pages together are the whole', async () => {
    const here = await replica({ engine: toolEngine(0), ...where })
    const sessionId = await here.session()
    await talk(here, sessionId, 4)
    const { messages, cursor } = (await here.call('GET', `/messages/${sessionId}`)).body
    expect(messages).toHaveLength(16)
    const path = `/sessions/${sessionId}/messages?limit=3`
    const back: unknown[] = []
    let page = (await here.call('GET', path)).body
    expect(page).toMatchObject({ hasOlder: true, hasNewer: false, nextCursor: null, cursor })
    for (;;) {
      back.unshift(...page.messages)
      if (!page.hasOlder) break
      page = (await here.call('GET', `${path}&before=${page.prevCursor}`)).body
      expect(page.hasNewer).toBe(true)
      expect(page.cursor).toBeUndefined()
    }
    expect(page.prevCursor).toBeNull()
    expect(back).toEqual(messages)
    const forth = [...page.messages]
    while (page.hasNewer) {
      page = (await here.call('GET', `${path}&after=${page.nextCursor}`)).body
      expect(page.hasOlder).toBe(true)
      forth.push(...page.messages)
    }
    expect(forth).toEqual(messages)
    for (const query of ['before=x', 'after=1e3', 'limit=0', 'limit=1000'])
      expect((await here.call('GET', `/sessions/${sessionId}/messages?${query}`)).status).toBe(400)
  })

  test('give the next run what the last one left, or what was moved meanwhile', async () => {
    const seen: unknown[] = []
    const here = await replica({
      engine: async (run) => {
        seen.push([run.previous, run.checkpoint])
        await say(run, 'Hello.')
        const checkpoint = run.request.message === 'none' ? undefined : run.request.message
        return { status: 'finished', checkpoint }
      },
      ...where,
    })
    const sessionId = await here.session()
    const turn = async (message: string) => {
      const stream = await here.stream(`/messages/${sessionId}`, { message })
      await stream.rest()
      return stream.headers.get('x-run-id')
    }
    expect(await here.runs.headOf(sessionId)).toBeUndefined()
    await here.runs.moveHead(sessionId, 'loaded by hand')
    expect(await here.runs.headOf(sessionId)).toBe('loaded by hand')
    const a = await turn('a')
    expect(await here.runs.headOf(sessionId)).toBe('a')
    const b = await turn('none')
    expect(await here.runs.headOf(sessionId)).toBe('a')
    await here.runs.moveHead(sessionId, 'moved')
    await here.runs.moveHead(sessionId, 'moved again')
    const c = await turn('c')
    await turn('d')
    expect(seen).toEqual([
      [undefined, 'loaded by hand'],
      [a, 'a'],
      [b, 'moved again'],
      [c, 'c'],
    ])
    await expect(here.runs.moveHead(randomUUID(), 'x')).rejects.toMatchObject({ code: 'NOT_FOUND' })
  })

  test('cannot have what was left behind moved while a run is under way', async () => {
    const go = Promise.withResolvers<void>()
    const here = await replica({
      engine: async (run) => {
        run.emit('message', { content: 'I am at it' })
        await go.promise
        return { status: 'finished', checkpoint: 'its own' }
      },
      ...where,
    })
    const sessionId = await here.session()
    const turn = await here.stream(`/messages/${sessionId}`, { message: 'Go' })
    await expect(here.runs.moveHead(sessionId, 'x')).rejects.toMatchObject({ code: 'CONFLICT' })
    go.resolve()
    await turn.rest()
    expect(await here.runs.headOf(sessionId)).toBe('its own')
  })

  test('answer in one piece where no stream is wanted', async () => {
    const here = await replica({
      engine: async (run) => {
        if (run.request.message === 'fail') {
          run.emit('error', { error: 'No luck.', code: 'MODEL_DOWN', retryable: true })
          return { status: 'failed', error: new RuntimeError('UPSTREAM_FAILED', 'No luck.') }
        }
        return sayingEngine(['Hello, ', 'you.'])(run)
      },
      ...where,
    })
    const sessionId = await here.session()
    const path = `/messages/${sessionId}`
    const { body, headers } = await here.call('POST', path, { message: 'Hi', stream: false })
    const id = (await here.call('GET', path)).body.messages[1].id
    expect(body).toEqual({ message: { id, type: 'ai', content: 'Hello, you.' }, sessionId })
    expect(headers.get('x-run-id')).toEqual(expect.any(String))
    const failed = await here.call('POST', path, { message: 'fail', stream: false })
    expect(failed.status).toBe(502)
    expect(failed.body).toMatchObject({
      statusCode: 502,
      code: 'UPSTREAM_FAILED',
      message: 'No luck.',
    })
  })

  test('answer with a status, not a stream, what fails at once with nothing said', async () => {
    const claims = { claims: ['c1'], outstandingClaims: ['c1'] }
    const here = await replica({
      engine: async (run) => {
        run.emit('error', { error: 'Pay first.', code: 'PAYMENT_REQUIRED', retryable: false })
        const error = new RuntimeError('PAYMENT_REQUIRED', 'Pay first.', { details: claims })
        return { status: 'failed', error }
      },
      ...where,
    })
    const { status, body } = await here.call('POST', `/messages/${await here.session()}`, {
      message: 'Hi',
    })
    expect(status).toBe(402)
    expect(body).toMatchObject({ code: 'PAYMENT_REQUIRED', ...claims })
  })
})

test('the routes are those that no plugin may claim', async () => {
  await using app = await testApp({ plugins: [] })
  const { paths } = (await app.get('/openapi.json')).body as { paths: Record<string, object> }
  const served = Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map(
      (method) => `${method.toUpperCase()} ${path.replace(/\{(\w+)\}/g, ':$1')}`,
    ),
  )
  const about = /^\w+ \/(sessions|messages|runs)\b/
  const ours = served.filter((key) => about.test(key)).sort()
  expect(ours).toEqual([
    'DELETE /sessions/:id',
    'GET /messages/:sessionId',
    'GET /runs',
    'GET /runs/:runId',
    'GET /runs/:runId/trace',
    'GET /sessions',
    'GET /sessions/:id/branches',
    'GET /sessions/:id/messages',
    'GET /sessions/:id/prompt',
    'GET /sessions/:id/run',
    'GET /sessions/:id/runs',
    'GET /sessions/:id/state',
    'PATCH /sessions/:id',
    'POST /messages/:sessionId',
    'POST /messages/abort',
    'POST /runs/:runId/resume',
    'POST /runs/:runId/retry',
    'POST /runs/:runId/tool-results',
    'POST /sessions',
    'POST /sessions/:id/capabilities',
    'POST /sessions/:id/fork',
  ])
  const claims = Object.fromEntries(
    ours.map((key) => [key, { auth: 'public' as const, run: () => undefined }]),
  )
  const greedy = definePlugin({
    name: 'greedy',
    summary: 'Claims the routes of conversations.',
    routes: claims as { 'GET /': { auth: 'public'; run(): undefined } }, // the keys are known when the test runs
  })
  const booting = createApp({ plugins: [greedy], env: { DATA_DIR: ':memory:' }, log() {} })
  const { details } = await booting.then(
    () => expect.unreachable(),
    (error: RuntimeError) => error,
  )
  const { faults } = details as { faults: { code: string; details: { key: string } }[] }
  expect(faults.map(({ code, details: { key } }) => `${code} ${key}`).sort()).toEqual(
    ours.map((key) => `ROUTE_CONFLICT ${key}`),
  )
})

test('a message must be text of a sensible size, and what comes with it must make sense', async () => {
  const refused = new RuntimeError('BAD_REQUEST', 'There is no model "x", only demo.')
  const here = await replica({
    engine: sayingEngine(['Hello.']),
    checkRequest: ({ model }) => {
      if (model === 'x') throw refused
    },
  })
  const path = `/messages/${await here.session()}`
  const tool = (schema: unknown, name = 'draw') => ({ name, description: 'Draws', schema })
  const bad: [unknown, RegExp][] = [
    [{}, /message/],
    [{ message: '' }, /message/],
    [{ message: ' \n ' }, /message/],
    [{ message: 5 }, /message/],
    [{ message: 'x'.repeat(256 * 1024 + 1) }, /262144 bytes/],
    [{ message: 'é'.repeat(128 * 1024 + 1) }, /262144 bytes/],
    [{ message: 'Hi', requestId: 'nope' }, /requestId.*UUID/],
    [{ message: 'Hi', stream: 'yes' }, /stream/],
    [{ message: 'Hi', metadata: [] }, /metadata/],
    [{ message: 'Hi', metadata: 'x' }, /metadata/],
    [{ message: 'Hi', timezone: 'Mars/Olympus' }, /time zone/],
    [{ message: 'Hi', model: 'x' }, /only demo/],
    [{ message: 'Hi', attachments: {} }, /attachments/],
    [{ message: 'Hi', tools: [tool({ type: 'string' })] }, /tools\.0\.schema.*type is "string"/],
    [{ message: 'Hi', tools: [tool({ type: 'objekt' })] }, /objekt/],
    [
      { message: 'Hi', tools: [tool({ properties: { a: { type: 'strin' } } })] },
      /properties\.a\.type/,
    ],
    [{ message: 'Hi', tools: [tool({ required: 'a' })] }, /required is a list/],
    [{ message: 'Hi', tools: [tool({ properties: { a: { pattern: 5 } } })] }, /pattern is text/],
    [{ message: 'Hi', tools: [tool({ properties: [] })] }, /properties is a map/],
    [{ message: 'Hi', tools: [tool('object')] }, /not an object/],
    [{ message: 'Hi', tools: [tool({}, 'no spaces')] }, /letters, digits/],
    [{ message: 'Hi', tools: [tool({}), tool({})] }, /"draw" stands there twice/],
    [
      { message: 'Hi', tools: Array.from({ length: 201 }, (_, i) => tool({}, `t${i}`)) },
      /at most 200/,
    ],
    [{ message: 'Hi', agActions: [tool({ items: 5 })] }, /items/],
  ]
  for (const [body, why] of bad) {
    const answer = await here.call('POST', path, body)
    const what = JSON.stringify(body).slice(0, 80)
    expect([what, answer.status]).toEqual([what, 400])
    expect(answer.body.message).toMatch(why)
  }
  expect((await here.call('GET', path)).body.messages).toEqual([])
})

test('a message takes everything that it may have, and keeps its attachments', async () => {
  let request: unknown
  const here = await replica({
    engine: (run) => ((request = run.request), sayingEngine(['Hello.'])(run)),
  })
  const path = `/messages/${await here.session()}`
  const schema = {
    $schema: 'http://json-schema.org/draft-07/schema#',
    type: 'object',
    properties: { colour: { type: ['string', 'null'], enum: ['red', null] }, any: true },
    required: ['colour'],
    additionalProperties: false,
  }
  const body = {
    message: 'Draw',
    requestId: randomUUID(),
    timezone: 'Africa/Lusaka',
    model: 'demo',
    metadata: { page: 1 },
    attachments: [{ name: 'a.png', url: 'mxc://a' }],
    tools: [
      { name: 'draw', description: 'Draws', schema },
      { name: 'clear', description: 'Clears' },
      ...Array.from({ length: 198 }, (_, i) => ({ name: `t${i}`, description: 'd', schema: {} })),
    ],
    agActions: [{ name: 'show', description: 'Shows', schema: {}, hasRender: true }],
  }
  await (await here.stream(path, { ...body, strange: 1 })).rest()
  const { requestId: _, ...expected } = body
  expect(request).toEqual({
    ...expected,
    tools: body.tools.map((tool) => ({ schema: {}, ...tool })),
  })
  expect(here.logged).toContainEqual(
    expect.objectContaining({ level: 'debug', fields: { keys: ['strange'] } }),
  )
  const { messages } = (await here.call('GET', path)).body
  expect(messages[0].attachments).toEqual(body.attachments)
})

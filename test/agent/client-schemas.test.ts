import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { callerOf } from '../support/caller.ts'
import { onEachDatabase, type Where } from '../support/each-database.ts'
import { storeOf } from '../support/store-of.ts'
import { leastPause, WatchedServer } from '../support/watched.ts'

const nested = (depth: number, wrap: (inner: object) => object): object => {
  let schema: object = { type: 'string' }
  for (let level = 0; level < depth; level++) schema = wrap(schema)
  return schema
}
const fan = Object.fromEntries(
  Array.from({ length: 41 }, (_, n) => [
    `a${n}`,
    n === 40
      ? { type: 'string' }
      : { anyOf: [{ $ref: `#/$defs/a${n + 1}` }, { $ref: `#/$defs/a${n + 1}` }] },
  ]),
)
const doubling = 'references that double forty times'
const mnemonic = 'legal winner thank year wave sausage worth useful legal winner thank yellow'
/** Sound to look at, and without end to whoever compiles or follows them. */
const passedAsData: Record<string, object> = {
  [doubling]: {
    type: 'object',
    properties: { x: { $ref: '#/$defs/a0' } },
    required: ['x'],
    $defs: fan,
  },
  'a schema that holds itself': {
    type: 'object',
    properties: { x: { $ref: '#' }, y: { $ref: '#/$defs/n' } },
    $defs: { n: { allOf: [{ $ref: '#/$defs/n' }, { $ref: '#/$defs/n' }] } },
  },
  'a pattern that tries every way': {
    type: 'object',
    properties: { x: { type: 'string', pattern: '^(a+)+(a|a)*(a*)*a*a*a*a*$' } },
    required: ['x'],
  },
  'pattern properties without end': {
    type: 'object',
    patternProperties: { '^(x+x+)+y$': { type: 'string' } },
    additionalProperties: false,
  },
  'alternatives in a wide fan': {
    type: 'object',
    properties: Object.fromEntries(
      Array.from({ length: 400 }, (_, n) => [`p${n}`, { $ref: '#/$defs/w' }]),
    ),
    $defs: { w: { allOf: Array.from({ length: 5 }, () => ({ $ref: '#/$defs/w' })) } },
  },
}
const refused: Record<string, [object, RegExp]> = {
  'deep allOf': [
    { type: 'object', properties: { x: nested(24, (inner) => ({ allOf: [inner] })) } },
    /tools\.0\.schema.*deeper than 32/,
  ],
  'more than 32 KiB': [
    { type: 'object', properties: { x: { enum: Array.from({ length: 9000 }, (_, n) => n) } } },
    /tools\.0\.schema.*32768 bytes/,
  ],
  'a reference elsewhere': [
    { type: 'object', properties: { x: { $ref: 'https://example.com/schema.json' } } },
    /tools\.0\.schema.*properties\.x\.\$ref/,
  ],
  'a dynamic reference elsewhere': [
    { type: 'object', allOf: [{ $dynamicRef: 'file:///etc/passwd' }] },
    /tools\.0\.schema.*allOf\.0\.\$dynamicRef/,
  ],
}

/** A user of a watched server, with one session. */
async function userOf(server: WatchedServer, words = 'schemas') {
  const headers = await (await callerOf(server.url, words)).headers()
  const open = (method: string, path: string, body?: unknown) =>
    fetch(server.url + path, {
      method,
      headers: { ...headers, 'content-type': 'application/json' },
      body: body === undefined ? undefined : JSON.stringify(body),
    })
  const call = async (method: string, path: string, body?: unknown) => {
    const response = await open(method, path, body)
    return { status: response.status, text: await response.text() }
  }
  const { sessionId } = JSON.parse((await call('POST', '/sessions')).text) as { sessionId: string }
  return { call, open, sessionId }
}

const tool = (schema: unknown, name = 'draw') => ({ name, description: 'Draws.', schema })
const hostileText = `call draw ${JSON.stringify({ x: `${'a'.repeat(60)}!`, xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx: 'x' })}`

describe.each(['calling', 'demo'])('with the %s model', (model) => {
  let server: WatchedServer
  let user: Awaited<ReturnType<typeof userOf>>
  let control: number
  beforeAll(async () => {
    server = await WatchedServer.start(model === 'demo' ? { MODEL: 'demo' } : {})
    user = await userOf(server)
    // The first turns load and compile what later ones have.
    for (let n = 0; n < 5; n++) await say({ type: 'object', properties: { x: {} } })
    control = await leastPause(server, 5, () => say({ type: 'object', properties: { x: {} } }))
  })
  afterAll(() => server.kill())

  /** Says something that calls the tool and stops as soon as the page is asked, or the turn has ended. */
  async function say(schema: unknown) {
    const requestId = randomUUID()
    const answered = user.call('POST', `/messages/${user.sessionId}`, {
      message: model === 'demo' ? `draw x: ${'a'.repeat(60)}!` : hostileText,
      requestId,
      stream: false,
      tools: [tool(schema)],
    })
    await Promise.race([answered, sleep(150)])
    await user.call('POST', '/messages/abort', { sessionId: user.sessionId, requestId })
    return await answered
  }

  it.each(Object.entries(passedAsData))('%s is data', async (_, schema) => {
    let status = 0
    const pause = await leastPause(server, 5, async () => {
      status = (await say(schema)).status
    })
    expect(status).toBe(200)
    expect(pause).toBeLessThan(Math.max(20, control + 20))
  })

  it.each(Object.entries(refused))('%s is refused with its path', async (_, [schema, path]) => {
    let answer = { status: 0, text: '' }
    const pause = await leastPause(server, 5, async () => {
      answer = await say(schema)
    })
    expect(answer.status).toBe(400)
    expect(answer.text).toMatch(path)
    expect(pause).toBeLessThan(Math.max(20, control + 20))
  })
})

describe('a message', () => {
  let server: WatchedServer
  let user: Awaited<ReturnType<typeof userOf>>
  beforeAll(async () => {
    server = await WatchedServer.start()
    user = await userOf(server)
  })
  afterAll(() => server.kill())
  const send = (body: object) =>
    user.call('POST', `/messages/${user.sessionId}`, { message: 'Hi', stream: false, ...body })

  it('brings at most 128 KiB of schemas, those of tools and actions together', async () => {
    const large = { type: 'object', description: 'd'.repeat(4000), title: 't'.repeat(26_000) }
    const tools = [0, 1].map((n) => tool(large, `t${n}`))
    const agActions = [0, 1].map((n) => tool(large, `a${n}`))
    expect((await send({ tools, agActions })).status).toBe(200)
    const { status, text } = await send({ tools, agActions: [...agActions, tool(large, 'a2')] })
    expect(status).toBe(400)
    expect(text).toMatch(/agActions\.2\.schema.*131072 bytes together/)
  })

  it('of ten megabytes of references is refused before it is read', async () => {
    const refs = Array.from({ length: 300_000 }, () => ({ $ref: '#/$defs/a0' }))
    const beside = await leastPause(server, 3, () => send({}))
    const pause = await leastPause(server, 3, async () => {
      expect((await send({ tools: [tool({ allOf: refs })] })).status).toBe(413)
    })
    expect(pause).toBeLessThan(beside + 20)
  })

  it('of nearly a megabyte of references costs no more than to read its JSON', async () => {
    const refs = Array.from({ length: 40_000 }, () => ({ $ref: '#/$defs/a0' }))
    const beside = await leastPause(server, 5, () => send({ metadata: { refs } }))
    const pause = await leastPause(server, 5, async () => {
      expect((await send({ tools: [tool({ allOf: refs })] })).status).toBe(400)
    })
    expect(pause).toBeLessThan(beside + 20)
  })

  it('may hold what only looks like a reference', async () => {
    const schema = {
      type: 'object',
      properties: { $ref: { type: 'string' }, link: { const: { $ref: 'https://example.com' } } },
    }
    expect((await send({ tools: [tool(schema)] })).status).toBe(200)
  })
})

/** Replaces the schema in what is stored of a message, as a version before this one left it there. */
async function plant(folder: string, where: Where, schema: object) {
  const store = await storeOf(folder, where)
  const db = store.db.withTables<{ kernel_run_requests: { request: string } }>()
  const row = await db.selectFrom('kernel_run_requests').selectAll().executeTakeFirstOrThrow()
  const request = JSON.parse(row.request) as { tools: { schema: object }[] }
  request.tools[0]!.schema = schema
  await db
    .updateTable('kernel_run_requests')
    .set({ request: JSON.stringify(request) })
    .execute()
  await store.close()
}

/** Reads on until it has heard this. */
async function heard({ body }: Response, what: RegExp): Promise<RegExpExecArray> {
  const reader = body!.pipeThrough(new TextDecoderStream()).getReader()
  for (let text = ''; ;) {
    const { value, done } = await reader.read()
    if (done) throw new Error(`heard only ${text}`)
    text += value
    const found = what.exec(text)
    if (found) return found
  }
}

await onEachDatabase('a schema that an older version let in', (where) => {
  it('is data too to the process that takes its run over', { timeout: 60_000 }, async () => {
    const folder = mkdtempSync(join(tmpdir(), 'oracle-schemas-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const { databaseUrl } = where
    const env = (name: string) => ({
      DATA_DIR: join(folder, databaseUrl ? name : 'data'),
      ...(databaseUrl && { DATABASE_URL: databaseUrl }),
      ORACLE_MNEMONIC: mnemonic,
      RUN_LEASE_MS: '1000',
    })
    await using first = await WatchedServer.start(env('one'))
    const { open, sessionId } = await userOf(first)
    const answer = await open('POST', `/messages/${sessionId}`, {
      message: hostileText,
      tools: [tool({ type: 'object' })],
    })
    const runId = answer.headers.get('x-run-id')
    const asked = await heard(answer, /event: browser_tool_call\n[^}]*"toolCallId":"([^"]+)"/)
    // On PostgreSQL the other replica is there all the time; on SQLite the same one starts again.
    await using replica = databaseUrl ? await WatchedServer.start(env('two')) : undefined
    const dataDir = join(folder, 'data')
    if (replica) await plant(dataDir, where, passedAsData[doubling]!)
    await first.kill()
    if (!replica) await plant(dataDir, where, passedAsData[doubling]!)
    await using restarted = replica ? undefined : await WatchedServer.start(env('one'))
    const second = replica ?? restarted!
    const user = await userOf(second)
    const rest = await user.open('GET', `/runs/${runId}`)
    await expect
      .poll(async () => {
        const body = { toolCallId: asked[1], result: 'drawn' }
        return (await user.call('POST', `/runs/${runId}/tool-results`, body)).text
      })
      .toContain('"accepted":true')
    await heard(rest, /event: done\ndata: [^\n]*"finished"/)
  })
})

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { WebSocket } from 'ws'
import { createWallet } from '../core/testing/wallet.ts'
import { dice } from './support/dice.ts'
import { Hostile, type HostileRequest, type Operation, type Shape } from './support/hostile.ts'
import { leastPause, WatchedServer } from './support/watched.ts'

/** FUZZ_SEED repeats a run, FUZZ_SECONDS makes it longer. */
const seed = Number(process.env.FUZZ_SEED ?? Math.floor(Math.random() * 2 ** 31))
const seconds = Number(process.env.FUZZ_SECONDS ?? 20)
const atOnce = 8
const longestPauseMs = 250
const mostGrowth = 96 * 1024 * 1024

const env = { API_KEY: 'fuzz:a-key-for-this-test', OPERATOR_TOKEN: 'an-operator-of-this-test' }
/** What the API may answer beside its refusals: it is busy, or something behind it is. */
const documented = new Set([502, 503, 504])

interface Api {
  readonly paths: Record<string, Record<string, Described>>
}
interface Described {
  readonly security?: readonly Readonly<Record<string, unknown>>[]
  readonly parameters?: readonly { in: string; name: string; schema?: Shape }[]
  readonly requestBody?: { readonly content: Record<string, { readonly schema?: Shape }> }
}

/** Sound bodies that schemas alone do not lead to, for routes where most others end at the door. */
const skeletons: Readonly<Record<string, (id: () => string) => object>> = {
  'POST /v1/protocols': () => ({
    type: 'Protocol',
    name: 'stoves',
    properties: { fuel: 'string', size: { type: 'integer', min: 0 }, tags: 'array' },
    relationships: { owner: 'Organisation' },
  }),
  'POST /v1/entities': (protocol) => ({
    type: 'CookstoveEntity',
    protocol: protocol(),
    properties: { fuel: 'wood', size: 3, tags: ['a', 'b'] },
    services: [{ id: '#api', type: 'Api', endpoint: 'https://example.com' }],
  }),
  'POST /v1/sampling': () => ({
    projectId: 'did:ixo:entity:abc',
    population: 1000,
    confidence: 0.95,
    precision: 0.05,
    expectedMean: 0.8,
    expectedSD: 0.5,
    dropoutRate: 0.1,
    stratification: {
      enabled: true,
      strata: [
        { name: 'north', weight: 0.5 },
        { name: 'south', weight: 0.5, mean: 0.7 },
      ],
    },
  }),
  'POST /messages/{sessionId}': () => ({
    message: 'What is the weather in Lusaka?',
    stream: false,
    tools: [{ name: 'draw', description: 'Draws.', schema: { type: 'object', properties: {} } }],
  }),
  'POST /openai/v1/chat/completions': () => ({
    model: 'oracle',
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: [{ type: 'text', text: 'What is the weather in Lusaka?' }] },
    ],
    tools: [
      { type: 'function', function: { name: 'draw', description: 'Draws.', parameters: {} } },
    ],
    stream: false,
    user: 'a person',
  }),
  'POST /mcp': () => ({
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params: { name: 'ask', arguments: { message: 'Hello' }, _meta: { progressToken: 'p' } },
  }),
  'POST /memory': () => ({ text: 'I like tea.', about: 'me', kind: 'preference' }),
  'PUT /memory/settings': () => ({ mode: 'on', sensitive: false }),
  'POST /payments/claims': () => ({ paymentId: 'p', txHash: 'AB'.repeat(32), nonce: 'n' }),
  'POST /calls': (id) => ({
    sessionId: id(),
    callType: 'audio',
    sdp:
      'v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\na=group:BUNDLE 0\r\n' +
      'm=audio 9 UDP/TLS/RTP/SAVPF 111\r\nc=IN IP4 0.0.0.0\r\na=rtpmap:111 opus/48000/2\r\n' +
      `a=mid:0\r\na=sendrecv\r\na=ice-ufrag:abcd\r\na=ice-pwd:${'x'.repeat(24)}\r\n` +
      `a=fingerprint:sha-256 ${'AB:'.repeat(31)}AB\r\na=setup:actpass\r\n`,
  }),
  'POST /api/ussd': () => ({
    sessionId: 'ATUid_1',
    serviceCode: '*2869#',
    phoneNumber: '+260971234567',
    text: '1*2',
  }),
}

/** Every operation of the API's own description. */
function operationsOf({ paths }: Api): Operation[] {
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([method]) => ['get', 'post', 'put', 'patch', 'delete'].includes(method))
      .map(([method, { parameters = [], requestBody, security = [] }]): Operation => ({
        method: method.toUpperCase(),
        as: security.some((one) => 'bearer' in one)
          ? 'key'
          : security.some((one) => 'operator' in one)
            ? 'operator'
            : 'user',
        path,
        query: parameters
          .filter((one) => one.in === 'query')
          .map(({ name, schema = {} }) => ({ name, schema })),
        body: Object.entries(requestBody?.content ?? {}).find(([type]) => /json$/.test(type))?.[1]
          .schema,
        ndjson: requestBody?.content['application/x-ndjson'] !== undefined,
        isLocked: security.length > 0,
        skeleton: skeletons[`${method.toUpperCase()} ${path}`],
      })),
  )
}

interface Written {
  readonly requestId: string
  readonly as: 'user' | 'key' | 'operator'
  readonly route: string
}
interface AuditLine {
  readonly id: number
  readonly who: string
  readonly requestId?: string
}

type Input =
  | (HostileRequest & {
      readonly as: 'user' | 'key' | 'operator' | 'nobody'
      /** It is answered to callers alone who say who they are. */
      readonly isLocked?: boolean
    })
  | { readonly framing: 'plain' | 'socket.io'; readonly frames: readonly string[] }

test(
  `no input stops the server, breaks it or makes it grow (FUZZ_SEED=${seed})`,
  { timeout: (seconds + 60) * 1000 },
  async () => {
    const folder = mkdtempSync(join(tmpdir(), 'oracle-fuzz-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    await using server = await WatchedServer.start({
      ...env,
      PLUGINS: 'every',
      DATA_DIR: folder,
      AUDIT_TABLE: 'on',
    })
    const hostile = new Hostile(dice(seed))
    const describing = await fetch(`${server.url}/openapi.json`)
    const operations = operationsOf((await describing.json()) as Api)
    expect(operations.length).toBeGreaterThan(120)
    const served = new Set(operations.map(({ method, path }) => `${method} ${path}`))
    for (const route of Object.keys(skeletons)) expect(served).toContain(route)
    const known = await fetch(`${server.url}/.well-known/oracle.json`)
    const { did } = (await known.json()) as { did: string }
    const wallet = await createWallet('fuzz')
    const user = await wallet.headers(did)
    const tokens = {
      invocation: user.authorization!.replace('Bearer ', ''),
      ucanDelegation: user['x-ucan-delegation'],
    }
    const credentials = {
      user,
      key: { authorization: `Bearer ${env.API_KEY.split(':')[1]}` },
      operator: { authorization: `Bearer ${env.OPERATOR_TOKEN}` },
      nobody: {},
    }

    /** The writes that were accepted of callers who said who they are. */
    const written: Written[] = []

    async function auditLines(): Promise<AuditLine[]> {
      const all: AuditLine[] = []
      for (;;) {
        const query = new URLSearchParams({ since: String(all.at(-1)?.id ?? 0), limit: '10000' })
        const page = await fetch(`${server.url}/audit?${query}`, { headers: credentials.operator })
        const more = (await page.text()).split('\n').filter(Boolean)
        if (more.length === 0) return all
        all.push(...more.map((line): AuditLine => JSON.parse(line)))
      }
    }

    async function send(input: Input): Promise<number> {
      if ('framing' in input) return await speak(input)
      const { method, path, headers, body, as, isLocked } = input
      let status = 0
      try {
        const response = await fetch(server.url + path, {
          method,
          headers: { ...headers, ...credentials[as] },
          body,
          redirect: 'manual',
          signal: AbortSignal.timeout(1500),
        })
        status = response.status
        if (isLocked && method !== 'GET' && status < 300 && as !== 'nobody')
          written.push({
            requestId: response.headers.get('x-request-id') ?? '',
            as,
            route: `${method} ${path}`,
          })
        if (status >= 500) {
          const text = await response.text()
          if (!documented.has(status)) throw new Error(`${status} ${text.slice(0, 500)}`)
        } else if (response.headers.get('content-type')?.includes('event-stream'))
          await response.body?.cancel()
        else hostile.learn((await response.text()).slice(0, 20_000))
      } catch (error) {
        if (error instanceof Error && /^5\d\d /.test(error.message)) throw error
        // A stream that goes on, a header that fetch does not send: no answer is none of its faults.
      }
      return status
    }

    async function speak({ framing, frames }: Extract<Input, { framing: string }>) {
      const sessionId = hostile.id()
      const query = new URLSearchParams({ sessionId, EIO: '4', transport: 'websocket' })
      const address = framing === 'plain' ? `${server.url}/ws` : `${server.url}/socket.io/?${query}`
      const ws = new WebSocket(address.replace(/^http/, 'ws'))
      ws.on('error', () => undefined)
      const opened = new Promise<void>((resolve) => ws.once('open', resolve).once('close', resolve))
      await Promise.race([opened, sleep(1000)])
      const say = (text: string) => ws.readyState === WebSocket.OPEN && ws.send(text)
      const wishes = hostile.handshake()
      say(
        framing === 'plain'
          ? JSON.stringify({ type: 'auth', sessionId, auth: tokens, ...wishes })
          : `40${JSON.stringify({ ...tokens, ...wishes })}`,
      )
      for (const frame of frames) say(frame)
      await sleep(20)
      ws.terminate()
      return 101
    }

    const deck: Operation[] = []
    function next(): Input {
      if (hostile.maybe(0.1)) {
        const framing = hostile.pick(['plain', 'socket.io'] as const)
        const frames = Array.from({ length: 1 + hostile.upTo(8) }, () => hostile.frame(framing))
        return { framing, frames }
      }
      // Each in its turn, in an order of the dice: none is left out where few are sent.
      if (deck.length === 0) deck.push(...hostile.shuffled(operations))
      const operation = deck.pop() ?? hostile.pick(operations)
      const as = hostile.maybe(0.85)
        ? operation.as
        : hostile.pick(['user', 'key', 'operator', 'nobody'] as const)
      return { ...hostile.request(operation), as, isLocked: operation.isLocked }
    }

    /** Keeps an input that did harm, and says where. */
    function found(what: string, input: Input): Error {
      const path = join(tmpdir(), `fuzz-${seed}-${Date.now()}.json`)
      writeFileSync(path, JSON.stringify(input))
      return new Error(
        `${what}; FUZZ_SEED=${seed}; the whole input is in ${path}: ${JSON.stringify(input).slice(0, 2000)}`,
      )
    }

    const statuses = new Map<number, number>()
    const count = (status: number) => statuses.set(status, (statuses.get(status) ?? 0) + 1)

    // Things to be spoken of: without them most paths end at "there is no such thing".
    for (const [route, skeleton] of Object.entries(skeletons)) {
      const [method = '', path = ''] = route.split(' ')
      if (path.includes('{')) continue
      const body = JSON.stringify(skeleton(() => hostile.id('did:ixo:')))
      const isLocked = operations.some(
        (one) => `${one.method} ${one.path}` === route && one.isLocked,
      )
      const headers = { 'content-type': 'application/json' }
      for (const as of ['key', 'user'] as const)
        count(await send({ method, path, headers, body, as, isLocked }))
    }
    for (let n = 0; n < 3; n++)
      count(
        await send({ method: 'POST', path: '/sessions', headers: {}, as: 'user', isLocked: true }),
      )

    // What an idle loop is kept for on this machine, now.
    await sleep(500)
    const idle = await leastPause(server, 3, () => sleep(50))
    let sent = 0
    let early = 0
    const start = Date.now()
    for (let now = start; now < start + seconds * 1000; now = Date.now()) {
      const inputs = Array.from({ length: atOnce }, next)
      await server.ask()
      const results = await Promise.allSettled(inputs.map((input) => send(input)))
      for (const [at, result] of results.entries()) {
        if (result.status === 'rejected') throw found(String(result.reason), inputs[at]!)
        count(result.value)
      }
      sent += inputs.length
      if (!server.isUp) throw found(`the server ended: ${server.complaint}`, inputs[0]!)
      const { pauseMs } = await server.ask()
      // Long together, or on a busy machine: only one that is long alone, each time, has a culprit.
      if (pauseMs > longestPauseMs + idle)
        for (const input of inputs) {
          const alone = await leastPause(server, 3, () => send(input))
          if (alone > longestPauseMs + idle) throw found(`a pause of ${alone} ms`, input)
        }
      if (early === 0 && now > start + seconds * 400) early = (await server.ask('collect')).heap
    }
    const { heap } = await server.ask('collect')
    expect(sent).toBeGreaterThan(seconds * 5)
    expect(heap - early).toBeLessThan(mostGrowth)
    expect(server.complaint).toBe('')
    // The dice must reach more than the front door.
    for (const status of [101, 200, 201, 400, 401, 403, 404])
      expect(statuses.get(status) ?? 0, `answers with ${status}`).toBeGreaterThan(0)

    // Whatever was accepted of all this has its line, with who it was, and no line holds a secret.
    const lines = await auditLines()
    const callers = new Map(lines.map(({ requestId, who }) => [requestId, who]))
    const authors = { user: wallet.did, key: 'key:fuzz', operator: 'key:default' }
    expect(new Set(written.map(({ as }) => as))).toContain('key')
    for (const { requestId, as, route } of written)
      expect([route, callers.get(requestId)]).toEqual([route, authors[as]])
    const kept = JSON.stringify(lines)
    for (const secret of ['a-key-for-this-test', env.OPERATOR_TOKEN, tokens.invocation])
      expect(kept).not.toContain(secret)
    if (process.env.FUZZ_SECONDS) process.stdout.write(`${sent} ${JSON.stringify([...statuses])}\n`)
  },
)

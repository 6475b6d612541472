import { describe, expect, it } from 'vitest'
import { scriptedModel, testApp, type TestApp, type TestUser } from '#core/testing'
import { heldModel } from '../support/held-model.ts'
import { connect, framings, ioSocket, plainSocket, tokensOf } from '../support/sockets.ts'

const start = (env: Record<string, string> = {}) => testApp({ plugins: [], env })

async function someone(app: TestApp): Promise<{ user: TestUser; sessionId: string }> {
  const user = await app.user()
  return { user, sessionId: (await user.post('/sessions')).body.sessionId }
}

/** The events that a plain socket hears at once. */
async function toldAtFirst(app: TestApp, frame: object): Promise<{ eventName: string }[]> {
  const socket = connect(`${app.url}/ws`)
  await socket.opened
  socket.send({ type: 'auth', ...frame })
  await socket.find((text) => (JSON.parse(text).type === 'connected' ? true : undefined))
  // The server works off the frames of a socket one after the other, so the pong comes after what it had to tell.
  socket.send({ type: 'ping' })
  await socket.find((text) => (JSON.parse(text).type === 'pong' ? true : undefined))
  return socket.heard.map((text) => JSON.parse(text)).filter(({ eventName }) => eventName)
}

/** The plain handshake, up to its end. */
async function refusedPlain(app: TestApp, frame: object) {
  const socket = connect(`${app.url}/ws`)
  await socket.opened
  socket.send(frame)
  const closed = await socket.closed
  return { ...closed, heard: socket.heard }
}

async function refusedIo(app: TestApp, query: Record<string, string>, auth: object) {
  const search = new URLSearchParams({ EIO: '4', transport: 'websocket', ...query })
  const socket = connect(`${app.url}/socket.io/?${search}`)
  await socket.opened
  socket.send(`40${JSON.stringify(auth)}`)
  const closed = await socket.closed
  return { ...closed, heard: socket.heard }
}

describe('a socket', () => {
  for (const [name, framing] of Object.entries(framings)) {
    it(`is let into its user's session (${name})`, async () => {
      await using app = await start()
      const { user, sessionId } = await someone(app)
      const { invocation, ucanDelegation } = await tokensOf(user, app.oracleDid)
      await framing(app.url, sessionId, { invocation, ucanDelegation })
      await framing(app.url, sessionId, { invocation })
      await framing(app.url, sessionId, { ucanDelegation })
    })
  }

  it('is told when somebody spoke between the history that it read and its opening', async () => {
    await using app = await testApp({ plugins: [], model: scriptedModel(['Hello.', 'Again.']) })
    const { user, sessionId } = await someone(app)
    const auth = await tokensOf(user, app.oracleDid)
    const told = (cursor: unknown) => toldAtFirst(app, { sessionId, auth, cursor })
    const cursorNow = async () => (await user.get(`/messages/${sessionId}`)).body.cursor
    expect(await cursorNow()).toBeUndefined()
    const empty = '0'
    expect(await told(empty)).toEqual([])
    await user.say('Hi', { sessionId })
    const news = { eventName: 'message_cache_invalidation', payload: { sessionId } }
    expect(await told(empty)).toMatchObject([news])
    const read = await cursorNow()
    expect(await told(read)).toEqual([])
    await user.say('And now?', { sessionId })
    expect(await told(read)).toMatchObject([news])
    for (const nonsense of [undefined, '', '-1', '1e3', 7, null, {}, '9'.repeat(40)])
      expect(await told(nonsense)).toEqual([])
  })

  it('is told of a run under way that may say nothing for a while, where it names how far it has read', async () => {
    const model = heldModel([], ['At last.'])
    await using app = await testApp({ plugins: [], model })
    const { user, sessionId } = await someone(app)
    const auth = await tokensOf(user, app.oracleDid)
    const saying = user.say('Think', { sessionId })
    await expect.poll(() => model.requests.length).toBe(1)
    const { runId } = (await user.get(`/sessions/${sessionId}/run`)).body.run
    const began = { eventName: 'run', payload: { sessionId, runId, seq: 1 } }
    expect(await toldAtFirst(app, { sessionId, auth, cursor: '0' })).toMatchObject([began])
    expect(await toldAtFirst(app, { sessionId, auth })).toEqual([])
    model.goOn()
    await saying
    const news = { eventName: 'message_cache_invalidation' }
    expect(await toldAtFirst(app, { sessionId, auth, cursor: '0' })).toMatchObject([news])
  })

  it('hears in the framing of the published client what that client expects', async () => {
    await using app = await start()
    const { user, sessionId } = await someone(app)
    const { heard } = await ioSocket(app.url, sessionId, await tokensOf(user, app.oracleDid))
    const [open, connected, event] = heard
    expect(JSON.parse(open!.slice(1))).toEqual({
      sid: expect.any(String),
      upgrades: [],
      pingInterval: 25_000,
      pingTimeout: 20_000,
      maxPayload: 65_536,
    })
    expect(connected).toMatch(/^40\{"sid":"[^"]+"\}$/)
    expect(JSON.parse(event!.slice(2))).toEqual([
      'connected',
      { message: expect.any(String), sessionId, timestamp: expect.any(String) },
    ])
  })

  it('without a valid credential is closed with 4401 and told nothing else', async () => {
    await using app = await start()
    const { user, sessionId } = await someone(app)
    const { ucanDelegation, invocation } = await tokensOf(user, app.oracleDid)
    const other = await tokensOf(user, 'did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK')
    const expired = (await user.wallet.invoke({ audience: app.oracleDid, lifetime: -1 })).text
    for (const auth of [
      {},
      { invocation: 'nonsense' },
      { invocation: 7 },
      { invocation: other.invocation },
      { invocation: expired, ucanDelegation },
      { invocation: `${invocation} ` + invocation },
      null,
      'text',
    ]) {
      const { code, reason, heard } = await refusedPlain(app, { type: 'auth', sessionId, auth })
      expect([code, reason, heard]).toEqual([4401, 'No valid credential.', []])
      const io = await refusedIo(app, { sessionId }, auth as object)
      expect(io.code).toBe(4401)
      expect(io.heard).toHaveLength(2)
      expect(JSON.parse(io.heard[1]!.slice(2))).toEqual({
        message: 'No valid credential came with the request.',
        data: { code: 'UNAUTHORIZED', statusCode: 401 },
      })
    }
  })

  it('of another user never joins, whatever it claims', async () => {
    await using app = await start()
    const { user: owner, sessionId } = await someone(app)
    const { user: thief, sessionId: own } = await someone(app)
    const tokens = await tokensOf(thief, app.oracleDid)
    const open = await ioSocket(app.url, sessionId, await tokensOf(owner, app.oracleDid))
    const sids = open.heard.slice(0, 2).map((text) => JSON.parse(text.replace(/^\d+/, '')).sid)
    open.kill()
    for (const claim of [sessionId, 'no-such-session', `${sessionId} `, '%', '', 'x'.repeat(300)]) {
      const plain = await refusedPlain(app, { type: 'auth', sessionId: claim, auth: tokens })
      expect([plain.code, plain.heard]).toEqual([4403, []])
      const io = await refusedIo(app, { sessionId: claim, userDid: owner.did }, tokens)
      expect([io.code, io.heard.length]).toEqual([4403, 2])
    }
    // A session that is named twice, or by the wrong way, is not the one that counts.
    const both = await refusedIo(
      app,
      { sessionId, userDid: owner.did },
      { ...tokens, sessionId: own },
    )
    expect(both.code).toBe(4403)
    for (const sid of sids) {
      const again = connect(
        `${app.url}/socket.io/?EIO=4&transport=websocket&sessionId=${sessionId}&sid=${sid}`,
      )
      await expect(again.opened).rejects.toThrow('400')
    }
    // Once in, it stays where it is.
    const mine = await plainSocket(app.url, own, tokens)
    mine.send({ type: 'auth', sessionId, auth: tokens })
    expect((await mine.closed).code).toBe(4403)
    const ownToo = await plainSocket(app.url, own, tokens)
    ownToo.send({ type: 'auth', sessionId: own, auth: await tokensOf(owner, app.oracleDid) })
    expect((await ownToo.closed).code).toBe(4403)
  })

  it('that says nothing is closed with 4408 after five seconds', async () => {
    await using app = await start()
    const { sessionId } = await someone(app)
    const plain = connect(`${app.url}/ws`)
    const io = connect(`${app.url}/socket.io/?EIO=4&transport=websocket&sessionId=${sessionId}`)
    await plain.opened
    plain.send({ type: 'tool_result', toolCallId: 'x', sessionId })
    plain.send({ type: 'ping' })
    expect((await plain.closed).code).toBe(4408)
    expect((await io.closed).code).toBe(4408)
    expect(plain.heard).toEqual(['{"type":"pong"}'])
  })

  it('is closed with 4401 when its invocation ends, unless a new one came before', async () => {
    await using app = await start()
    const { user, sessionId } = await someone(app)
    const short = await tokensOf(user, app.oracleDid, 2)
    const kept = await plainSocket(app.url, sessionId, short)
    const left = await plainSocket(app.url, sessionId, short)
    const alone = await ioSocket(app.url, sessionId, { invocation: short.invocation })
    const lasting = await ioSocket(app.url, sessionId, short)
    kept.send({ type: 'auth', sessionId, auth: await tokensOf(user, app.oracleDid) })
    expect((await left.closed).code).toBe(4401)
    expect((await alone.closed).code).toBe(4401)
    // A client that cannot send a new one stays for as long as its delegation authenticates.
    for (const socket of [kept, lasting]) {
      expect(socket.ws.readyState).toBe(socket.ws.OPEN)
      socket.send(socket === kept ? { type: 'ping' } : '2')
    }
    await kept.find((text) => (text === '{"type":"pong"}' ? true : undefined))
    await lasting.find((text) => (text === '3' ? true : undefined))
  })

  it('lives no longer than its invocation where a delegation alone authenticates nobody', async () => {
    await using app = await start({ AUTH_DELEGATION_ONLY: 'off' })
    const { user, sessionId } = await someone(app)
    const socket = await ioSocket(app.url, sessionId, await tokensOf(user, app.oracleDid, 2))
    expect((await socket.closed).code).toBe(4401)
  })

  it('is closed when the delegation that opened it is revoked', async () => {
    await using app = await start()
    const { user, sessionId } = await someone(app)
    const { invocation, ucanDelegation } = await tokensOf(user, app.oracleDid)
    const sockets = await Promise.all([
      plainSocket(app.url, sessionId, { ucanDelegation }),
      ioSocket(app.url, sessionId, { invocation, ucanDelegation }),
    ])
    const other = await plainSocket(app.url, sessionId, { invocation })
    const headers = { 'x-ucan-delegation': ucanDelegation }
    expect((await user.delete('/delegation', { headers })).status).toBe(200)
    for (const { closed } of sockets) expect((await closed).code).toBe(4401)
    expect(other.ws.readyState).toBe(other.ws.OPEN)
    expect(
      (await refusedPlain(app, { type: 'auth', sessionId, auth: { ucanDelegation } })).code,
    ).toBe(4401)
  })

  it('is closed when its session is deleted', async () => {
    await using app = await start()
    const { user, sessionId } = await someone(app)
    const tokens = await tokensOf(user, app.oracleDid)
    const socket = await plainSocket(app.url, sessionId, tokens)
    await user.delete(`/sessions/${sessionId}`)
    expect((await socket.closed).code).toBe(4403)
  })

  it('is closed with 1012 when the server closes', async () => {
    const app = await start()
    const { user, sessionId } = await someone(app)
    const tokens = await tokensOf(user, app.oracleDid)
    const sockets = await Promise.all([
      plainSocket(app.url, sessionId, tokens),
      ioSocket(app.url, sessionId, tokens),
    ])
    const closing = app.close()
    for (const { closed } of sockets) expect((await closed).code).toBe(1012)
    await closing
  })

  it('of a page is let in where CORS_ORIGIN says so, and always without an Origin', async () => {
    await using app = await start({ CORS_ORIGIN: 'https://app.example' })
    const { user, sessionId } = await someone(app)
    const tokens = await tokensOf(user, app.oracleDid)
    for (const framing of Object.values(framings)) {
      await framing(app.url, sessionId, tokens)
      await framing(app.url, sessionId, tokens, { origin: 'https://app.example' })
      await framing(app.url, sessionId, tokens, { origin: app.url })
    }
    for (const path of ['/ws', `/socket.io/?EIO=4&transport=websocket&sessionId=${sessionId}`])
      for (const origin of ['https://evil.example', 'null', 'https://app.example.evil.example'])
        await expect(connect(app.url + path, { origin }).opened).rejects.toThrow('403')
  })

  it('is told over HTTP what it should have asked for', async () => {
    await using app = await start()
    for (const path of [
      '/socket.io/?EIO=3&transport=websocket',
      '/socket.io/?EIO=4&transport=polling',
    ])
      await expect(connect(app.url + path).opened).rejects.toThrow('400')
    await expect(connect(`${app.url}/ws/other`).opened).rejects.toThrow('404')
  })

  it('counts as a call of its user, and a bad credential as a failure of its address', async () => {
    await using app = await start({ CALLS_PER_MINUTE: '3', AUTH_FAILURES_PER_MINUTE: '2' })
    const { user, sessionId } = await someone(app)
    const tokens = await tokensOf(user, app.oracleDid)
    const bad = { type: 'auth', sessionId, auth: {} }
    expect((await refusedPlain(app, bad)).code).toBe(4401)
    expect((await refusedPlain(app, bad)).code).toBe(4401)
    expect((await refusedPlain(app, bad)).code).toBe(1013)
    await plainSocket(app.url, sessionId, tokens)
    await plainSocket(app.url, sessionId, tokens)
    expect((await refusedPlain(app, { type: 'auth', sessionId, auth: tokens })).code).toBe(1013)
  })
})

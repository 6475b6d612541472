import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer as createSecureServer } from 'node:https'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { promisify, inspect } from 'node:util'
import { Webhook } from 'standardwebhooks'
import { describe, expect, it } from 'vitest'
import { fakeWebhook } from '#core/testing'
import { deliver } from '#core/webhooks'
import { isRetryable, type RuntimeError } from '../../core/errors.ts'
import { attempt } from '../../core/webhooks/deliver.ts'

const root = join(import.meta.dirname, '../..')
const faultOf = async (delivery: Promise<unknown>): Promise<RuntimeError> =>
  await delivery.then(
    () => expect.fail('the delivery should fail'),
    (error: RuntimeError) => error,
  )

/** A server that does with each connection what a test says. */
async function plainServer(handle: (socket: Socket) => void) {
  const sockets = new Set<Socket>()
  const server: Server = createServer((socket) => {
    sockets.add(socket.on('error', () => undefined).resume())
    handle(socket)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    sockets,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}

describe('deliver', () => {
  // A receiver with a strict parser, such as this runtime, refuses halves for good.
  it('sends no half of an emoji, and leaves whole ones and written escapes as they are', async () => {
    await using receiver = await fakeWebhook()
    const { url, secret } = receiver
    const half = '🌍'.slice(0, 1)
    const kept = String.raw`🌍 \ud83d \\ud83d \ud83d\ude00`
    const body = { [`a${half}`]: [half, `\\${half}`, `${half}${half}🌍`], kept }
    await deliver(url, body, { id: 'msg_1', secret })
    expect((await receiver.next()).body).toEqual({
      'a\ufffd': ['\ufffd', '\\\ufffd', '\ufffd\ufffd🌍'],
      kept,
    })
  })

  it('sends what the published library of Standard Webhooks reads', async () => {
    for (const secret of [
      `whsec_${Buffer.from('k'.repeat(24)).toString('base64')}`,
      'plain words',
    ]) {
      const library = secret.startsWith('whsec_')
        ? new Webhook(secret)
        : new Webhook(secret, { format: 'raw' })
      await using receiver = await fakeWebhook({ secret })
      const bodies = ['{"type":"a.b","data":{"n":1}}', 'words: üß✓', '']
      for (const body of bodies)
        for (const content of [body, Buffer.from(body)]) {
          expect(await deliver(receiver.url, content, { id: 'msg_1', secret })).toEqual({
            status: 204,
          })
          const { headers, isValid } = await receiver.next()
          expect(isValid).toBe(true)
          const read = library.verify(body, headers as Record<string, string>, { jsonParse: false })
          expect(read ?? body).toBe(body)
        }
    }
  })

  it('sends data as JSON, and the headers that it is given', async () => {
    await using receiver = await fakeWebhook()
    const { url, secret } = receiver
    const headers = { 'X-Bridge': 'left', 'Content-Type': 'application/cloudevents+json' }
    await deliver(new URL(url), { type: 'a.b', list: [1] }, { id: 'msg_1', secret, headers })
    expect(await receiver.next()).toMatchObject({
      id: 'msg_1',
      isValid: true,
      body: { type: 'a.b', list: [1] },
      headers: { 'x-bridge': 'left', 'content-type': 'application/cloudevents+json' },
    })
    await deliver(url, { again: true }, { id: 'msg_2', secret })
    expect((await receiver.next()).headers).toMatchObject({ 'content-type': 'application/json' })
  })

  it('keeps no cookies and no connection', async () => {
    await using receiver = await fakeWebhook()
    receiver.answer({ status: 200, headers: { 'Set-Cookie': 'a=b' } })
    await deliver(receiver.url, {}, { id: 'one', secret: receiver.secret })
    await deliver(receiver.url, {}, { id: 'two', secret: receiver.secret })
    await receiver.next()
    const { headers } = await receiver.next()
    expect(headers).not.toHaveProperty('cookie')
    expect(headers).toMatchObject({ connection: 'close' })
  })

  it('goes through no proxy, also where the process has one', async () => {
    const proxied: string[] = []
    await using proxy = await plainServer(
      (socket) =>
        void socket.once('data', (head) => {
          proxied.push(head.toString())
          socket.end('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n')
        }),
    )
    await using receiver = await fakeWebhook({ secret: 'known' })
    const program = `import { deliver } from '#core/webhooks'
      console.log((await deliver('${receiver.url}', {}, { id: 'one', secret: 'known' })).status)`
    const env = { ...process.env, NODE_USE_ENV_PROXY: '1', HTTP_PROXY: proxy.url, NO_PROXY: '' }
    const args = ['--conditions=oracle-runtime-source', '--input-type=module', '-e', program]
    const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: root, env })
    expect(stdout.trim()).toBe('204')
    expect(proxied).toEqual([])
  })

  it('refuses what cannot be sent before anything is sent', async () => {
    await using receiver = await fakeWebhook()
    const { url, secret } = receiver
    const good = { id: 'one', secret }
    const round: unknown[] = []
    round.push(round)
    const wrong: [unknown, unknown, object][] = [
      ['no address', {}, good],
      [undefined, {}, good],
      [url, undefined, good],
      [url, round, good],
      [url, 1n, good],
      [url, {}, { ...good, id: '' }],
      [url, {}, { ...good, id: 'a.b' }],
      [url, {}, { ...good, id: 'a b' }],
      [url, {}, { ...good, id: 'a\r\nx: y' }],
      [url, {}, { ...good, id: 'x'.repeat(257) }],
      [url, {}, { ...good, id: undefined }],
      [url, {}, { ...good, secret: '' }],
      [url, {}, { ...good, secret: 'whsec_' }],
      [url, {}, { ...good, secret: 'whsec_not base64' }],
      [url, {}, { ...good, secret: new Uint8Array() }],
      [url, {}, { ...good, secret: undefined }],
      [url, {}, { ...good, headers: { 'a\n': 'b' } }],
      [url, {}, { ...good, headers: { a: 'b\r\nc: d' } }],
      ...['Host', 'Content-Length', 'webhook-id', 'Webhook-Signature', 'Cookie', 'Connection'].map(
        (name): [string, object, object] => [url, {}, { ...good, headers: { [name]: 'x' } }],
      ),
    ]
    for (const [to, body, options] of wrong) {
      const fault = await faultOf(deliver(to as string, body, options as typeof good))
      expect(fault, inspect([to, body, options])).toMatchObject({
        code: 'INVALID_INPUT',
        status: 400,
      })
    }
    const long = await faultOf(deliver(url, 'x'.repeat(1024 * 1024 + 1), good))
    expect(long).toMatchObject({ code: 'BODY_TOO_LARGE', status: 413 })
    expect(receiver.received).toEqual([])
    await deliver(url, 'x'.repeat(1024 * 1024), good)
  })

  it('says by code and status whether another attempt may succeed', async () => {
    await using receiver = await fakeWebhook()
    const { url, secret } = receiver
    for (const status of [400, 401, 403, 404, 410, 413, 422, 451]) {
      receiver.answer(status)
      const fault = await faultOf(deliver(url, {}, { id: 'one', secret }))
      expect(fault).toMatchObject({ code: 'DELIVERY_REFUSED', status: 422, details: { status } })
      expect(isRetryable(fault.code)).toBe(false)
    }
    for (const status of [408, 409, 425, 429, 500, 501, 502, 503, 504, 301, 302, 307]) {
      receiver.answer(status)
      const fault = await faultOf(deliver(url, {}, { id: 'one', secret }))
      expect(fault).toMatchObject({ code: 'DELIVERY_FAILED', status: 502, details: { status } })
      expect(isRetryable(fault.code)).toBe(true)
    }
    for (const status of [200, 201, 202, 206]) {
      receiver.answer(status)
      expect(await deliver(url, {}, { id: 'one', secret })).toEqual({ status })
    }
  })

  it('keeps what the receiver says of when to come again', async () => {
    await using receiver = await fakeWebhook()
    const { url, secret } = receiver
    const told = async (value: string) => {
      receiver.answer({ status: 503, headers: { 'Retry-After': value } })
      return (await faultOf(deliver(url, {}, { id: 'one', secret }))).headers
    }
    expect(await told('7')).toEqual({ 'Retry-After': '7' })
    expect(await told('0')).toEqual({ 'Retry-After': '0' })
    expect(await told('9'.repeat(400))).toEqual({ 'Retry-After': '86400' })
    expect(await told(new Date(Date.now() - 60_000).toUTCString())).toEqual({ 'Retry-After': '0' })
    expect(
      Number((await told(new Date(Date.now() + 3600_000).toUTCString()))?.['Retry-After']),
    ).toBeGreaterThan(3000)
    expect(await told('soon')).toBeUndefined()
    expect(await told('-5, 1e9')).toBeUndefined()
  })

  it('follows no redirect, to a place inside or outside', async () => {
    await using inner = await fakeWebhook({ secret: 'shared' })
    await using receiver = await fakeWebhook({ secret: 'shared' })
    for (const status of [301, 302, 303, 307, 308]) {
      receiver.answer({ status, headers: { Location: inner.url } })
      const fault = await faultOf(deliver(receiver.url, {}, { id: 'one', secret: 'shared' }))
      expect(fault).toMatchObject({
        code: 'DELIVERY_FAILED',
        hint: expect.stringContaining('Redirects'),
      })
    }
    expect(inner.received).toEqual([])
  })

  it('tells a connection that fails, and keeps secrets to itself', async () => {
    const receiver = await fakeWebhook({ secret: 'only-both-of-us-know' })
    const url = `${receiver.url}?token=in-the-address`
    const options = { id: 'one', secret: receiver.secret }
    receiver.answer('break', 410)
    const broken = await faultOf(deliver(url, { body: 'words-of-a-user' }, options))
    expect(broken).toMatchObject({ code: 'DELIVERY_FAILED', details: { reason: 'ECONNRESET' } })
    const gone = await faultOf(deliver(url, { body: 'words-of-a-user' }, options))
    await receiver.close()
    const absent = await faultOf(deliver(url, { body: 'words-of-a-user' }, options))
    expect(absent).toMatchObject({ code: 'DELIVERY_FAILED', details: { reason: 'ECONNREFUSED' } })
    expect(inspect([broken, gone, absent], { depth: 9 })).not.toMatch(
      /only-both|in-the-address|words-of-a-user/,
    )
  })

  it('does not speak to a receiver whose certificate nobody vouches for', async () => {
    const [key, cert] = ['tls-key.pem', 'tls-certificate.pem'].map((name) =>
      readFileSync(join(import.meta.dirname, name)),
    )
    let asked = 0
    const server = createSecureServer({ key, cert }, () => asked++).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}/`
    const fault = await faultOf(deliver(url, {}, { id: 'one', secret: 'a' }))
    server.close()
    expect(fault).toMatchObject({
      code: 'DELIVERY_FAILED',
      details: { reason: expect.any(String) },
    })
    expect(asked).toBe(0)
  })
})

describe('a receiver that takes its time', () => {
  const options = { id: 'one', secret: 'a' }
  const soon = { withinMs: 100 }
  const late = { code: 'DELIVERY_TIMEOUT', status: 504 }

  it('is given up when it is silent, and another attempt may succeed', async () => {
    await using receiver = await fakeWebhook({ secret: 'a' })
    receiver.answer('silence')
    const fault = await faultOf(attempt(receiver.url, {}, options, soon))
    expect(fault).toMatchObject(late)
    expect(isRetryable(fault.code)).toBe(true)
  })

  it('is given up when its head comes letter by letter, or its name never', async () => {
    await using slow = await plainServer((socket) => {
      socket.write('HTTP/1.1 200 OK\r\n')
      const timer = setInterval(() => socket.write('x: y\r\n'), 5)
      socket.once('close', () => clearInterval(timer))
    })
    expect(await faultOf(attempt(slow.url, {}, options, soon))).toMatchObject(late)
    const terms = { ...soon, resolve: () => undefined }
    const unknown = attempt('https://slow.example/', {}, options, terms)
    expect(await faultOf(unknown)).toMatchObject(late)
  })

  it('has taken the webhook when its head says so, however long its answer is; the rest is cut', async () => {
    let sent = 0
    await using endless = await plainServer((socket) => {
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n')
      const piece = Buffer.alloc(16 * 1024)
      const pour = () => {
        while (!socket.destroyed && socket.write(piece)) sent += piece.length
        socket.once('drain', pour)
      }
      pour()
    })
    expect(await deliver(endless.url, {}, options)).toEqual({ status: 200 })
    await expect.poll(() => [...endless.sockets].every(({ destroyed }) => destroyed)).toBe(true)
    expect(sent).toBeLessThan(64 * 1024 * 1024)

    await using dripping = await plainServer((socket) => {
      socket.write('HTTP/1.1 202 OK\r\ntransfer-encoding: chunked\r\n\r\n')
    })
    expect(await deliver(dripping.url, {}, options)).toEqual({ status: 202 })
    await expect.poll(() => [...dripping.sockets].every(({ destroyed }) => destroyed)).toBe(true)
  })

  it('is a fault when its head is endless, no HTTP, or the word of another protocol', async () => {
    const heads = [
      `HTTP/1.1 200 OK\r\nx: ${'y'.repeat(100_000)}`,
      'hello\r\n\r\n',
      'HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n',
      '',
    ]
    for (const head of heads) {
      await using server = await plainServer(
        (socket) => void socket.once('data', () => socket.end(head)),
      )
      const fault = await faultOf(deliver(server.url, {}, options))
      expect(fault, head.slice(0, 20)).toMatchObject({ code: 'DELIVERY_FAILED' })
    }
  })
})

describe('a caller that gives up', () => {
  it('sends nothing when the signal has fired', async () => {
    await using receiver = await fakeWebhook()
    const { url, secret } = receiver
    const reason = new Error('stopping')
    const delivery = deliver(url, {}, { id: 'one', secret, signal: AbortSignal.abort(reason) })
    expect(await faultOf(delivery)).toBe(reason)
    expect(receiver.received).toEqual([])
  })

  it('ends the attempt at once, and hears the reason of the signal', async () => {
    await using receiver = await fakeWebhook()
    receiver.answer('silence')
    const { url, secret } = receiver
    const stop = new AbortController()
    const delivery = faultOf(deliver(url, {}, { id: 'one', secret, signal: stop.signal }))
    await receiver.next()
    stop.abort('not today')
    expect(await delivery).toBe('not today')
  })
})

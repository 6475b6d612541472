import { createServer, type Http2Server, type ServerHttp2Stream } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { startRawUpstream, type RawStream } from './fixtures/raw-upstream.ts'
import { frame } from './upstream/frames.ts'
import { Http2Transport } from './upstream/http2-transport.ts'
import { flag, frameOf, frameType, numberFrame, settingsFrame } from './http2/frames.ts'
import { encodeHeaders } from './http2/hpack.ts'
import type { Call } from './upstream/transport.ts'

const closers: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close()
})

function transportTo(upstream: string) {
  const transport = new Http2Transport({ upstream, tls: false })
  closers.push(() => transport.close())
  return transport
}
const callOf = (message: Uint8Array, more: Partial<Call> = {}): Call => ({
  path: '/a.B/C',
  messages: [message],
  metadata: {},
  deadlineMs: 10_000,
  ...more,
})
const hello = Buffer.from('hello')

describe('with the HTTP/2 server of Node at the other end', () => {
  /** A server with Node's own HTTP/2 that echoes the messages it receives. */
  async function echo(
    options: Parameters<typeof createServer>[0] = {},
    answer?: (stream: ServerHttp2Stream, body: Buffer, headers: object) => void,
  ): Promise<string> {
    const server: Http2Server = createServer(options)
    const sessions = new Set<{ destroy(): void }>()
    server.on('session', (session) => sessions.add(session))
    server.on('stream', (stream, headers) => {
      const chunks: Buffer[] = []
      stream.on('error', () => undefined) // a test may close the connection
      stream.on('data', (chunk: Buffer) => chunks.push(chunk))
      stream.on('end', () => {
        const body = Buffer.concat(chunks)
        if (answer) return answer(stream, body, headers)
        stream.respond({ 'content-type': 'application/grpc' }, { waitForTrailers: true })
        stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }))
        stream.end(body)
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    closers.push(() => {
      for (const session of sessions) session.destroy()
      server.close()
    })
    return `127.0.0.1:${(server.address() as AddressInfo).port}`
  }

  it.each([0, 1, 65_530, 65_531, 200_000, 3_000_000])(
    'sends and takes %i bytes through the windows of both sides',
    async (size) => {
      const message = Buffer.alloc(size, 'abc')
      const transport = transportTo(await echo())
      const answers = await Promise.all([1, 2, 3].map(() => transport.unary(callOf(message))))
      for (const answer of answers) expect(message.equals(answer.message)).toBe(true)
    },
  )

  it('takes many large answers one after the other over one connection', async () => {
    const message = Buffer.alloc(900_000, 'x')
    const transport = transportTo(await echo())
    for (let round = 0; round < 20; round++)
      expect((await transport.unary(callOf(message))).message.length).toBe(message.length)
  })

  it('keeps to the number of streams that the other side takes at once', async () => {
    let open = 0
    let most = 0
    const address = await echo({ settings: { maxConcurrentStreams: 3 } }, (stream, body) => {
      most = Math.max(most, ++open)
      setImmediate(() => {
        open--
        stream.respond({ 'content-type': 'application/grpc' }, { waitForTrailers: true })
        stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }))
        stream.end(body)
      })
    })
    const transport = transportTo(address)
    await transport.unary(callOf(frame(hello)))
    const answers = await Promise.all(
      Array.from({ length: 200 }, () => transport.unary(callOf(hello))),
    )
    expect(answers.every(({ message }) => hello.equals(message))).toBe(true)
    expect(most).toBeLessThanOrEqual(3)
  })

  it('understands headers of any length and content, coded and remembered in any way', async () => {
    let seed = 3
    const next = (below: number) => (seed = (seed * 48_271) % 2_147_483_647) % below
    const word = (length: number) =>
      Array.from({ length }, () => String.fromCharCode(33 + next(94))).join('')
    const sent: Record<string, string>[] = []
    const address = await echo({ maxSendHeaderBlockLength: 60_000 }, (stream, body) => {
      const headers: Record<string, string> = {}
      for (let index = 0; index < next(20); index++)
        headers[`x-${next(9)}-${index}`] = word(next(80))
      if (sent.length === 7) headers['x-long'] = word(40_000) // longer than one frame
      sent.push(headers)
      stream.respond({ 'content-type': 'application/grpc', ...headers }, { waitForTrailers: true })
      stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0', ...headers }))
      stream.end(body)
    })
    const transport = transportTo(address)
    for (let round = 0; round < 60; round++) {
      const { metadata } = await transport.unary(callOf(hello))
      expect(metadata).toMatchObject(sent[round]!)
    }
  })

  it('sends metadata that fills more than a frame', async () => {
    const long = 'v'.repeat(30_000)
    const address = await echo(
      { settings: { maxHeaderListSize: 100_000 } },
      (stream, body, headers) => {
        const { 'x-long': got, 'x-two': two } = headers as Record<string, string>
        stream.respond(
          {
            'content-type': 'application/grpc',
            'x-size': String(got?.length),
            'x-was': String(two),
          },
          { waitForTrailers: true },
        )
        stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }))
        stream.end(body)
      },
    )
    const { metadata } = await transportTo(address).unary(
      callOf(hello, { metadata: { 'x-long': long, 'x-two': ['a', 'b'] } }),
    )
    expect(metadata).toMatchObject({ 'x-size': '30000', 'x-was': 'a, b' })
  })
})

describe('with an upstream that is no good', () => {
  async function against(onStream: (stream: RawStream) => void) {
    const upstream = await startRawUpstream(onStream)
    closers.push(() => upstream.close())
    return { upstream, transport: transportTo(upstream.address) }
  }
  const refusal = (status: number) => expect.objectContaining({ name: 'CallError', status })
  const settings = frameOf(frameType.settings, 0, 0, Buffer.alloc(0))

  it('takes a good answer that comes byte by byte', async () => {
    const { transport } = await against((stream) => {
      const whole: Buffer[] = []
      const { socket } = stream
      const write = socket.write.bind(socket)
      socket.write = ((bytes: Buffer) => void whole.push(bytes)) as unknown as typeof socket.write
      stream.answer(frame(hello))
      socket.write = write
      const drip = (left: Buffer) => {
        if (left.length > 0) socket.write(left.subarray(0, 1), () => drip(left.subarray(1)))
      }
      drip(Buffer.concat(whole))
    })
    expect(Buffer.from((await transport.unary(callOf(hello))).message).toString()).toBe('hello')
  })

  it.each<[string, number, (stream: RawStream) => void]>([
    ['sends noise', 502, ({ socket }) => socket.write(Buffer.alloc(500, 'noise'))],
    ['sends a frame that is too large', 502, ({ send }) => send(0, 0, Buffer.alloc(16_385))],
    [
      'pushes something',
      502,
      ({ send }) => send(frameType.pushPromise, flag.endHeaders, Buffer.alloc(8)),
    ],
    ['answers on a stream that nobody opened', 502, ({ send }) => send(0, 0, Buffer.of(1), 99)],
    ['answers on the connection itself', 502, ({ send }) => send(0, 0, Buffer.of(1), 0)],
    ['sends headers that are no HPACK', 502, ({ send }) => send(1, 4, Buffer.of(0xff, 0xff, 0xff))],
    [
      'interrupts its headers',
      502,
      ({ send }) => {
        send(frameType.headers, 0, Buffer.of(0x88))
        send(frameType.ping, 0, Buffer.alloc(8), 0)
      },
    ],
    [
      'never ends its headers',
      502,
      ({ send }) => {
        send(frameType.headers, 0, Buffer.of(0x88))
        for (let round = 0; round < 9000; round++) send(frameType.continuation, 0, Buffer.alloc(0))
      },
    ],
    [
      'sends more padding than frame',
      502,
      (stream) => {
        stream.head()
        stream.send(frameType.data, flag.padded, Buffer.of(9, 1, 1))
      },
    ],
    ['sends settings that are cut', 502, ({ send }) => send(4, 0, Buffer.alloc(5), 0)],
    [
      'opens a window too far',
      502,
      ({ socket }) => socket.write(numberFrame(frameType.windowUpdate, 0, 2 ** 31 - 1)),
    ],
    ['sends data before its head', 502, ({ data }) => data(frame(hello))],
    [
      'says that its message is compressed',
      502,
      (stream) => {
        stream.head()
        stream.data(Buffer.concat([Buffer.of(1, 0, 0, 0, 5), hello]))
        stream.trailers()
      },
    ],
    [
      'announces a message of 4 GiB',
      502,
      (stream) => {
        stream.head()
        stream.data(Buffer.of(0, 255, 255, 255, 255))
      },
    ],
    [
      'sends half a message and says that all is well',
      502,
      (stream) => {
        stream.head()
        stream.data(Buffer.of(0, 0, 0, 0, 5, 1, 1))
        stream.trailers()
      },
    ],
    [
      'sends two messages',
      502,
      (stream) => {
        stream.head()
        stream.data(Buffer.concat([frame(hello), frame(hello)]))
        stream.trailers()
      },
    ],
    [
      'ends without a status',
      502,
      (stream) => {
        stream.head()
        stream.send(frameType.data, flag.endStream, frame(hello))
      },
    ],
    [
      'says a status that is none',
      502,
      (stream) => {
        stream.head()
        stream.send(1, 5, encodeHeaders([['grpc-status', 'fine']]))
      },
    ],
    [
      'says an empty status',
      502,
      (stream) => {
        stream.head()
        stream.send(1, 5, encodeHeaders([['grpc-status', '']]))
      },
    ],
    [
      'sends a page',
      502,
      (stream) => {
        stream.head(false, [['content-type', 'text/html']])
        stream.data(hello)
      },
    ],
    [
      'resets the stream in the middle of a message',
      503,
      (stream) => {
        stream.head()
        stream.data(Buffer.of(0, 0, 0, 0, 5, 1, 1))
        stream.socket.write(numberFrame(frameType.resetStream, stream.id, 2))
      },
    ],
    [
      'cuts the connection in the middle of a frame',
      503,
      (stream) => {
        stream.head()
        stream.socket.end(Buffer.of(0, 0, 20, 0, 0))
      },
    ],
    [
      'is going away and drops what it took',
      503,
      (stream) => {
        const payload = Buffer.alloc(8)
        payload.writeUInt32BE(stream.id)
        stream.send(frameType.goAway, 0, payload, 0)
        stream.socket.end()
      },
    ],
    ['refuses every stream', 503, ({ socket, id }) => socket.write(numberFrame(3, id, 7))],
  ])('that %s: %s', async (_, status, onStream) => {
    const { transport } = await against(onStream)
    await expect(transport.unary(callOf(hello))).rejects.toEqual(refusal(status))
    // The next call opens a new connection and gets the same answer, so the failed call leaves no state behind.
    await expect(transport.unary(callOf(hello))).rejects.toEqual(refusal(status))
  })

  it('asks again, elsewhere, what an upstream that is going away has not looked at', async () => {
    const { transport, upstream } = await against((stream) => {
      if (stream.connection === 1) stream.send(frameType.goAway, 0, Buffer.alloc(8), 0)
      else stream.answer(frame(hello))
    })
    const answers = await Promise.all([1, 2, 3].map(() => transport.unary(callOf(hello))))
    expect(answers).toHaveLength(3)
    expect(upstream.connections).toBe(2)
  })

  it('hears those out that it took before it went away, while new ones go elsewhere', async () => {
    let old: RawStream | undefined
    const { transport, upstream } = await against((stream) => {
      if (old !== undefined) return stream.answer(frame(Buffer.from('new')))
      old = stream
      const payload = Buffer.alloc(8)
      payload.writeUInt32BE(2 ** 31 - 1)
      stream.send(frameType.goAway, 0, payload, 0)
    })
    const first = transport.unary(callOf(hello))
    await expect.poll(() => old?.id).toBe(1)
    // What is asked before the goodbye has come still goes over the old connection.
    await expect
      .poll(async () => {
        const { message } = await transport.unary(callOf(hello))
        return [Buffer.from(message).toString(), upstream.connections]
      })
      .toEqual(['new', 2])
    old!.answer(frame(hello))
    expect(Buffer.from((await first).message).toString()).toBe('hello')
    expect(upstream.connections).toBe(2)
  })

  it('lets a call pass its deadline while the upstream drips, and gives a silent one up', async () => {
    const { transport, upstream } = await against((stream) => {
      stream.head()
      const drip = setInterval(() => stream.data(Buffer.of(0)), 5)
      closers.push(() => clearInterval(drip))
    })
    await expect(transport.unary(callOf(hello, { deadlineMs: 60 }))).rejects.toEqual(refusal(504))
    const reset = () => upstream.seen.filter(({ type }) => type === frameType.resetStream)
    await expect.poll(() => reset().length).toBe(1)
    await expect.poll(() => upstream.seen.some(({ type }) => type === frameType.ping)).toBe(true)
  })

  it('gives up a connection that has gone silent, for those who wait on it too, and makes another', async () => {
    let mute = true
    const upstream = await startRawUpstream(
      (stream) => (mute ? undefined : stream.answer(frame(hello))),
      (socket) => (mute ? undefined : socket.write(settings)),
    )
    closers.push(() => upstream.close())
    const transport = new Http2Transport({
      upstream: upstream.address,
      tls: false,
      pingPatienceMs: 50,
    })
    closers.push(() => transport.close())
    const patient = transport.unary(callOf(hello))
    await expect(transport.unary(callOf(hello, { deadlineMs: 30 }))).rejects.toEqual(refusal(504))
    await expect(patient).rejects.toEqual(refusal(503))
    mute = false
    await expect
      .poll(() =>
        transport.unary(callOf(hello)).then(
          ({ message }) => Buffer.from(message).toString(),
          () => 'not yet',
        ),
      )
      .toBe('hello')
    expect(upstream.connections).toBe(2)
  })

  it('says of an upstream that does not speak HTTP/2 what its first bytes lack', async () => {
    for (const first of [
      'HTTP/1.1 400 Bad Request\r\n\r\n',
      frameOf(frameType.ping, 0, 0, Buffer.alloc(8)),
    ]) {
      const upstream = await startRawUpstream(
        () => undefined,
        (socket) => socket.write(first),
      )
      closers.push(() => upstream.close())
      const refused = await transportTo(upstream.address)
        .unary(callOf(hello))
        .catch((error: Error) => error)
      expect((refused as Error).cause).toMatchObject({
        name: 'ProtocolError',
        message: expect.stringContaining('the first frame of the upstream is not SETTINGS'),
      })
    }
  })

  it('answers pings and settings, skips what it does not know, and takes padding and interim heads', async () => {
    const { transport, upstream } = await against((stream) => {
      const { send, socket } = stream
      send(frameType.ping, 0, Buffer.from('12345678'), 0)
      send(0xfa, 0xff, Buffer.alloc(30), 0)
      socket.write(settingsFrame([[0xabc, 5]]))
      send(frameType.headers, flag.endHeaders, encodeHeaders([['link', 'x']])) // without a content-type the answer is no gRPC
    })
    const call = transport.unary(callOf(hello, { deadlineMs: 500 }))
    await expect(call).rejects.toEqual(refusal(502))
    await expect
      .poll(() => upstream.seen.find(({ type, flags }) => type === frameType.ping && flags === 1))
      .toMatchObject({ payload: Buffer.from('12345678') })
    const padded = await against((stream) => {
      // 0x08 0x03 "103" is an interim head; the next head has padding and a priority.
      stream.send(1, 4, Buffer.concat([Buffer.of(0x08, 3), Buffer.from('103')]))
      const block = Buffer.concat([
        Buffer.of(0x88),
        encodeHeaders([['content-type', 'application/grpc+proto']]),
      ])
      const whole = Buffer.concat([Buffer.of(3, 0, 0, 0, 0, 9), block, Buffer.alloc(3)])
      stream.send(1, flag.endHeaders | flag.padded | flag.priority, whole)
      stream.send(0, flag.padded, Buffer.concat([Buffer.of(2), frame(hello), Buffer.alloc(2)]))
      stream.trailers()
    })
    const { message } = await padded.transport.unary(callOf(hello))
    expect(Buffer.from(message).toString()).toBe('hello')
  })

  it('holds back an upstream that streams faster than its reader reads', async () => {
    const chunk = frame(Buffer.alloc(16_000))
    let sent = 0
    const { transport, upstream } = await against((stream) => {
      stream.head()
      // The answer fills the window of its stream, which is 256 KiB at the start.
      for (; sent < 16; sent++) stream.data(chunk)
    })
    const leaving = new AbortController()
    const { messages } = transport.serverStream(
      callOf(hello, { deadlineMs: undefined, signal: leaving.signal }),
    )
    const reader = messages[Symbol.asyncIterator]()
    await reader.next()
    await new Promise((resolve) => setTimeout(resolve, 50))
    const opened = () =>
      upstream.seen.filter(({ type, id }) => type === frameType.windowUpdate && id === 1).length
    expect(opened()).toBe(0)
    for (let read = 1; read < 16; read++) await reader.next()
    const more = reader.next()
    await expect.poll(opened).toBeGreaterThan(0)
    leaving.abort()
    await expect(more).rejects.toEqual(refusal(499))
    await expect
      .poll(() => upstream.seen.some(({ type }) => type === frameType.resetStream))
      .toBe(true)
  })

  it('cuts a stream that overruns its window', async () => {
    const { transport, upstream } = await against((stream) => {
      stream.head()
      for (let sent = 0; sent < 80; sent++) stream.data(frame(Buffer.alloc(16_000)))
    })
    const { messages } = transport.serverStream(callOf(hello))
    const reader = messages[Symbol.asyncIterator]()
    await reader.next()
    const rest = async () => {
      // The test reads nothing, so that the transport does not enlarge the window.
      await expect
        .poll(() => upstream.seen.some(({ type }) => type === frameType.resetStream))
        .toBe(true)
      for (;;) if ((await reader.next()).done) return
    }
    await expect(rest()).rejects.toEqual(refusal(503))
  })

  it('tells an upstream that a client left, a thousand times over', async () => {
    const { transport, upstream } = await against(() => undefined)
    const calls = Array.from({ length: 1000 }, () => {
      const leaving = new AbortController()
      const call = transport.unary(callOf(hello, { signal: leaving.signal }))
      return { leaving, call }
    })
    await expect
      .poll(() => upstream.seen.filter(({ type }) => type === frameType.data).length)
      .toBe(1000)
    for (const { leaving } of calls) leaving.abort()
    const ends = await Promise.allSettled(calls.map(({ call }) => call))
    expect(ends.every(({ status }) => status === 'rejected')).toBe(true)
    await expect
      .poll(() => upstream.seen.filter(({ type }) => type === frameType.resetStream).length)
      .toBe(1000)
    expect(upstream.connections).toBe(1)
  })

  it('reads no more of an upstream once it is closed', async () => {
    const { transport, upstream } = await against(() => undefined)
    const early = transport.unary(callOf(hello))
    const call = transport.unary(callOf(hello))
    await expect.poll(() => upstream.seen.length).toBeGreaterThan(3)
    transport.close()
    await expect(early).rejects.toEqual(refusal(503))
    await expect(call).rejects.toEqual(refusal(503))
    await expect(transport.unary(callOf(hello))).rejects.toEqual(refusal(503))
  })
})

import { randomBytes } from 'node:crypto'
import { connect as tcp, type Socket } from 'node:net'
import { deflateRawSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { testApp, type TestApp } from '#core/testing'
import { connect, ioSocket, plainSocket, tokensOf, type SessionSocket } from '../support/sockets.ts'

const opcode = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9 }

interface RawFrame {
  readonly opcode?: number
  readonly fin?: boolean
  /** RSV1: says that it is compressed. */
  readonly compressed?: boolean
  readonly masked?: boolean
  /** What the head claims, where that is not true. */
  readonly length?: bigint
}

/** A frame as RFC 6455 writes it, or nearly. */
function rawFrame(payload: Buffer, frame: RawFrame = {}): Buffer {
  const { opcode: code = opcode.text, fin = true, compressed, masked = true } = frame
  const length = frame.length ?? BigInt(payload.length)
  const first = (fin ? 0x80 : 0) | (compressed ? 0x40 : 0) | code
  const mask = masked ? 0x80 : 0
  const head =
    length < 126n
      ? Buffer.from([first, mask | Number(length)])
      : Buffer.concat([Buffer.from([first, mask | 127]), Buffer.alloc(8)])
  if (length >= 126n) head.writeBigUInt64BE(length, 2)
  // A mask of zeros leaves the payload as it is.
  return Buffer.concat([head, masked ? Buffer.alloc(4) : Buffer.alloc(0), payload])
}

interface RawSocket {
  readonly socket: Socket
  send(...parts: (Buffer | string)[]): void
  /** The code of the close frame, or how the connection ended without one. */
  readonly ended: Promise<number | 'cut'>
  readonly head: Promise<string>
}

/** A client that speaks no more than it wants to. */
function rawSocket(url: string, path: string, headers = ''): RawSocket {
  const { hostname, port } = new URL(url)
  const socket = tcp(Number(port), hostname)
  onTestFinished(() => void socket.destroy())
  const ended = Promise.withResolvers<number | 'cut'>()
  const head = Promise.withResolvers<string>()
  let bytes = Buffer.alloc(0)
  let isOpen = false
  socket.on('data', (more) => {
    bytes = Buffer.concat([bytes, more as Buffer])
    if (!isOpen) {
      const end = bytes.indexOf('\r\n\r\n')
      if (end < 0) return
      isOpen = true
      head.resolve(bytes.subarray(0, end).toString())
      bytes = bytes.subarray(end + 4)
    }
    while (bytes.length >= 2) {
      const short = bytes[1]! & 0x7f
      const at = short < 126 ? 2 : short === 126 ? 4 : 10
      const length = short < 126 ? short : short === 126 ? bytes.readUInt16BE(2) : 0
      if (bytes.length < at + length) return
      if ((bytes[0]! & 0xf) === opcode.close) ended.resolve(bytes.readUInt16BE(at))
      bytes = bytes.subarray(at + length)
    }
  })
  socket.on('error', () => undefined)
  socket.on('close', () => (ended.resolve('cut'), head.resolve(bytes.toString())))
  socket.write(
    `GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
      `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${randomBytes(16).toString('base64')}\r\n` +
      `${headers}\r\n`,
  )
  return {
    socket,
    send: (...parts) => {
      for (const part of parts) socket.write(part)
    },
    ended: ended.promise,
    head: head.promise,
  }
}

describe('a hostile client', () => {
  let app: TestApp
  let user: Awaited<ReturnType<TestApp['user']>>
  let sessionId: string
  let tokens: Awaited<ReturnType<typeof tokensOf>>
  beforeAll(async () => {
    app = await testApp({ plugins: [] })
    user = await app.user()
    sessionId = (await user.post('/sessions')).body.sessionId
    tokens = await tokensOf(user, app.oracleDid)
  })
  afterAll(() => app.close())
  const io = () => `/socket.io/?EIO=4&transport=websocket&sessionId=${sessionId}`
  const paths = () => ['/ws', io()]

  const attacks: Record<string, { frames: () => Buffer[]; codes: (number | 'cut')[] }> = {
    'a frame of 10 MB': {
      frames: () => [rawFrame(Buffer.alloc(10 * 2 ** 20, 'a'))],
      codes: [1009],
    },
    'a frame that claims to be endless': {
      frames: () => [rawFrame(Buffer.alloc(100, 'a'), { length: 2n ** 62n })],
      codes: [1009],
    },
    'a message of many small frames': {
      frames: () => [
        rawFrame(Buffer.from('"'), { fin: false }),
        ...Array.from({ length: 5_000 }, () =>
          rawFrame(Buffer.from('a'), { fin: false, opcode: opcode.continuation }),
        ),
      ],
      codes: [1008, 1009],
    },
    'frames without an end': {
      frames: () => [
        rawFrame(Buffer.alloc(60_000, 'a'), { fin: false }),
        rawFrame(Buffer.alloc(60_000, 'a'), { fin: false, opcode: opcode.continuation }),
      ],
      codes: [1009],
    },
    'broken UTF-8': {
      frames: () => [rawFrame(Buffer.from([0x22, 0xff, 0xfe, 0x22]))],
      codes: [1007],
    },
    'a compressed bomb that was never agreed on': {
      frames: () => [rawFrame(deflateRawSync(Buffer.alloc(50 * 2 ** 20)), { compressed: true })],
      codes: [1002],
    },
    'a frame without a mask': {
      frames: () => [rawFrame(Buffer.from('{}'), { masked: false })],
      codes: [1002],
    },
    'a frame of an unknown kind': {
      frames: () => [rawFrame(Buffer.from('{}'), { opcode: 5 })],
      codes: [1002],
    },
    'a ping that is too long': {
      frames: () => [rawFrame(Buffer.alloc(200), { opcode: opcode.ping })],
      codes: [1002],
    },
    'a flood of pings': {
      frames: () => Array.from({ length: 1_000 }, () => rawFrame(Buffer.alloc(4), { opcode: 9 })),
      codes: [1008],
    },
    'a flood of nothing': {
      frames: () => Array.from({ length: 1_000 }, () => rawFrame(Buffer.from('3'))),
      codes: [1008, 1007],
    },
    'no JSON': { frames: () => [rawFrame(Buffer.from('42{{{{'))], codes: [1007] },
    'JSON that nests too deep': {
      frames: () => [rawFrame(Buffer.from(`42${'['.repeat(30_000)}`))],
      codes: [1007],
    },
  }
  for (const [name, { frames, codes }] of Object.entries(attacks))
    it(`is closed for ${name}`, async () => {
      for (const path of paths()) {
        const socket = rawSocket(app.url, path)
        await socket.head
        socket.send(...frames())
        expect(codes).toContain(await socket.ended)
      }
    })

  it.each(['[]', '[{"type":"ping"}]', '1', 'null', 'true', '"x"'])(
    'is closed for %s, which is JSON and no object',
    async (frame) => {
      const socket = rawSocket(app.url, '/ws')
      await socket.head
      // A server that ignores the first frame closes the socket for the second, with another code.
      socket.send(
        rawFrame(Buffer.from(frame)),
        rawFrame(Buffer.from('{}'), { opcode: opcode.binary }),
      )
      expect(await socket.ended).toBe(1007)
    },
  )

  it('that does not wait for the handshake breaks nothing', async () => {
    const { hostname, port } = new URL(app.url)
    const head =
      'Host: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n' +
      'Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n'
    for (const path of paths())
      for (const frame of [
        rawFrame(Buffer.from('{}'), { opcode: 5 }),
        rawFrame(Buffer.from([0xff])),
        rawFrame(Buffer.alloc(1), { length: 2n ** 40n }),
        rawFrame(Buffer.from('nonsense')),
      ]) {
        const socket = tcp(Number(port), hostname)
        socket.on('error', () => undefined)
        socket.write(Buffer.concat([Buffer.from(`GET ${path} HTTP/1.1\r\n${head}`), frame]))
        let answer = ''
        for await (const bytes of socket) answer += bytes
        expect(answer).toContain('101')
      }
    expect((await app.get('/')).status).toBe(200)
  })

  it('is not offered compression, however it asks', async () => {
    const socket = rawSocket(
      app.url,
      '/ws',
      'Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n',
    )
    const head = await socket.head
    expect(head).toContain('101')
    expect(head.toLowerCase()).not.toContain('extensions')
  })

  it('gets an answer of HTTP for a handshake that is none', async () => {
    const { hostname, port } = new URL(app.url)
    for (const [head, status] of [
      ['Sec-WebSocket-Version: 13\r\n', 400],
      ['Sec-WebSocket-Version: 12\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n', 400],
      ['Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: short\r\n', 400],
    ] as const) {
      const socket = tcp(Number(port), hostname)
      socket.write(
        `GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n${head}\r\n`,
      )
      let answer = ''
      for await (const bytes of socket) answer += bytes
      expect(answer).toContain(`HTTP/1.1 ${status}`)
      expect(JSON.parse(answer.slice(answer.indexOf('\r\n\r\n')))).toMatchObject({
        statusCode: status,
        code: 'BAD_REQUEST',
        requestId: expect.any(String),
      })
    }
  })

  /** Frames that mean nothing, from somebody who is let in: ignored, and the socket goes on. */
  const harmless = (own: string): string[] => [
    '{"type":"unknown"}',
    '{"type":"__proto__"}',
    '{}',
    '{"type":"tool_result"}',
    `{"type":"tool_result","toolCallId":"${'x'.repeat(300)}"}`,
    '{"type":"tool_result","toolCallId":"a\\u0000b","result":1}',
    '{"type":"tool_result","toolCallId":["a"],"result":1}',
    `{"type":"tool_result","toolCallId":"a","sessionId":"${own}","result":{"__proto__":{"admin":true}}}`,
    '{"type":"tool_result","toolCallId":"a","result":"\\ud83d"}',
    '{"type":"tool_result","toolCallId":"\' or 1=1 --","result":1}',
    '{"type":"action_call_result","toolCallId":"%","error":{"message":"x"}}',
  ]

  it('that was let in may say what means nothing', async () => {
    const socket = await plainSocket(app.url, sessionId, tokens)
    for (const frame of harmless(sessionId)) socket.send(frame)
    socket.send({ type: 'ping' })
    await socket.find((text) => (text === '{"type":"pong"}' ? true : undefined))
    const other = await ioSocket(app.url, sessionId, tokens)
    for (const frame of harmless(sessionId)) {
      const { type, ...data } = JSON.parse(frame)
      other.send(`42${JSON.stringify([type ?? 'x', data])}`)
    }
    for (const frame of [
      '42["connected",{}]',
      '42["message",{"content":"hi"}]',
      '42["tool_result"]',
      '42["tool_result",null]',
      '42[]',
      '43["ack"]',
      '451-["other",{"_placeholder":true,"num":0}]',
      '5',
      '6',
    ])
      other.send(frame)
    other.ws.send(Buffer.from('bytes'))
    other.send('40/admin,{}')
    other.send('2probe')
    await other.find((text) => (text === '3probe' ? true : undefined))
    expect(other.heard).toContain('44/admin,{"message":"Invalid namespace"}')
    for (const { ws } of [socket, other]) expect(ws.readyState).toBe(ws.OPEN)
  })

  it('that was let in cannot pile up work', async () => {
    const socket = await plainSocket(app.url, sessionId, tokens)
    // In one packet: a server that reads them one after the other has time to work them off.
    const { _socket: wire } = socket.ws as unknown as { _socket: Socket }
    wire.cork()
    for (let i = 0; i < 190; i++)
      socket.send({ type: 'tool_result', toolCallId: `x${i}`, result: i })
    wire.uncork()
    expect((await socket.closed).code).toBe(1008)
  })

  it('cannot put bytes where text belongs', async () => {
    const socket = await plainSocket(app.url, sessionId, tokens)
    socket.ws.send(Buffer.from('bytes'))
    expect((await socket.closed).code).toBe(1003)
  })

  it('does not keep others from being served', async () => {
    const attackers = paths().flatMap((path) =>
      Array.from({ length: 20 }, () => rawSocket(app.url, path)),
    )
    await Promise.all(attackers.map(({ head }) => head))
    const flood = setInterval(() => {
      for (const { socket } of attackers)
        if (socket.writable) socket.write(rawFrame(Buffer.alloc(60_000, 'a')))
    }, 5)
    onTestFinished(() => clearInterval(flood))
    const sockets: SessionSocket[] = await Promise.all(
      Array.from({ length: 5 }, () => plainSocket(app.url, sessionId, tokens)),
    )
    const said = await user.say('Hello', { sessionId })
    expect(said.status).toBe('finished')
    for (const socket of sockets) expect((await socket.event('done')).status).toBe('finished')
    for (const { ended } of attackers) await ended
  })

  it('learns nothing from a log line or an answer about tokens', () => {
    expect(app.log.join('\n')).not.toContain(tokens.invocation.slice(0, 40))
    expect(app.log.join('\n')).not.toMatch(/"level":"(error|fatal)"|ERROR|level=error/)
  })

  it('who leaves at once leaves nothing behind', async () => {
    for (let i = 0; i < 50; i++) {
      const socket = connect(app.url + paths()[i % 2]!)
      await socket.opened
      if (i % 3 === 0) socket.send(i % 2 ? '40{}' : '{"type":"auth"}')
      socket.kill()
    }
    const { status } = await user.get('/sessions')
    expect(status).toBe(200)
  })
})

import { createServer, type Http2Server } from 'node:http2'
import { connect, type AddressInfo, type Socket } from 'node:net'
import { duplexPair } from 'node:stream'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { dice } from '../../../test/support/dice.ts'
import { Http2Connection } from './connection.ts'
import type { Closed } from './stream.ts'
import { flag, frameOf, frameType, preface, settingsFrame } from './frames.ts'
import { CompressionError, encodeHeaders, HeaderDecoder, type Headers } from './hpack.ts'

const seed = Number(process.env.FUZZ_SEED ?? 20260101)
/** How long the rounds of one test last; a slow machine does fewer rounds, but at least one. */
const mostMs = 4_000

/** Runs rounds until there were enough or the time is over. Each round has its own random seed, which a failure names. */
async function rounds(most: number, round: (roll: Roll) => unknown): Promise<void> {
  const until = performance.now() + mostMs
  for (let n = 0; n < most && (n === 0 || performance.now() < until); n++)
    try {
      await round(rollOf(seed + n))
    } catch (cause) {
      throw new Error(`round ${n}: FUZZ_SEED=${seed + n} begins with it`, { cause })
    }
}

type Roll = ReturnType<typeof rollOf>
function rollOf(seed: number) {
  const next = dice(seed)
  const upTo = (most: number) => Math.floor(next() * (most + 1))
  return {
    upTo,
    one: <T>(list: readonly T[]): T => list[upTo(list.length - 1)] as T,
    bytes: (length: number) => Buffer.from(Array.from({ length }, () => upTo(255))),
    /** A random text of some characters. */
    text: (letters: string, length: number) =>
      Array.from({ length }, () => letters[upTo(letters.length - 1)]).join(''),
  }
}

const nameLetters = 'abcdefghijklmnopqrstuvwxyz0123456789-'
const valueLetters = `${nameLetters}ABCXYZ !"#$%&'()*+,./:;<=>?@[]^_\`{|}~`
/** Names of the static table and made-up names, so that every form of a header occurs. */
const knownNames = ['etag', 'location', 'server', 'cache-control', 'vary']

/** Random headers of a server, each name once. */
function headersOf(roll: Roll): Record<string, string> {
  const headers: Record<string, string> = {}
  for (let left = roll.upTo(12); left > 0; left--) {
    const name = roll.upTo(2)
      ? `x-${roll.text(nameLetters, 1 + roll.upTo(20))}`
      : roll.one(knownNames)
    headers[name] = roll.text(valueLetters, roll.upTo(roll.upTo(9) ? 40 : 2_000)).trim()
  }
  return headers
}

interface Heard {
  readonly heads: Headers[]
  readonly body: Buffer
  readonly closed: Closed
}

/** Sends a request, and resolves to all events of its stream. */
function ask(connection: Http2Connection, block: Buffer, body = Buffer.alloc(0)): Promise<Heard> {
  return new Promise((resolve) => {
    const heads: Headers[] = []
    const chunks: Buffer[] = []
    let isClosed = false
    connection.open(block, body, {
      headers: (headers) => void heads.push(headers),
      data: (chunk) => void chunks.push(Buffer.from(chunk)),
      closed(closed) {
        expect(isClosed).toBe(false)
        isClosed = true
        resolve({ heads, body: Buffer.concat(chunks), closed })
      },
    })
  })
}

const request = (path = '/a.B/C') =>
  encodeHeaders([
    [':method', 'POST'],
    [':scheme', 'http'],
    [':path', path],
    [':authority', 'a'],
  ])

describe(`with the HTTP/2 of Node at the other end (seed ${seed})`, () => {
  let server: Http2Server
  let socket: Socket
  let connection: Http2Connection
  const sent = new Map<string, Record<string, string>>()
  const heard = new Map<string, object>()

  beforeAll(async () => {
    server = createServer()
    server.on('stream', (stream, headers) => {
      const path = String(headers[':path'])
      heard.set(path, headers)
      const chunks: Buffer[] = []
      stream.on('error', () => undefined)
      stream.on('data', (chunk: Buffer) => chunks.push(chunk))
      stream.on('end', () => {
        stream.respond(sent.get(path) ?? {}, { waitForTrailers: true })
        stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }))
        stream.end(Buffer.concat(chunks))
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
    connection = new Http2Connection(socket)
  })
  afterAll(() => {
    connection.destroy()
    server.close()
  })

  it('random headers and bodies arrive as they were sent, over one table, both ways', async () => {
    let count = 0
    await rounds(1_500, async (roll) => {
      const path = `/${count++}`
      const [theirs, own] = [headersOf(roll), headersOf(roll)]
      const body = roll.bytes(roll.upTo(roll.upTo(19) ? 200 : 40_000))
      sent.set(path, theirs)
      const block = Buffer.concat([request(path), encodeHeaders(Object.entries(own))])
      const { heads, body: echoed, closed } = await ask(connection, block, body)
      expect(closed).toEqual({ kind: 'ended' })
      // Node adds the header `date` by itself.
      expect(heads.map(({ date, ...headers }) => headers)).toEqual([
        { ':status': '200', ...theirs },
        { 'grpc-status': '0' },
      ])
      expect(echoed.equals(body)).toBe(true)
      expect(heard.get(path)).toMatchObject(own)
      sent.delete(path)
      heard.delete(path)
    })
    expect(count).toBeGreaterThan(0)
  })
})

/** Both ends of a connection in memory: our connection reads what the test writes at `far`. */
function inMemory() {
  const [near, far] = duplexPair()
  const asSocket = Object.assign(near, { setNoDelay: () => near, unref: () => near })
  const connection = new Http2Connection(asSocket as unknown as Socket)
  far.on('error', () => undefined).resume()
  return { connection, far }
}

/** A server's answer on stream 1, in frames that are split and padded at random. */
function answerOf(roll: Roll, headers: Record<string, string>, body: Buffer): Buffer {
  const head = encodeHeaders([[':status', '200'], ...Object.entries(headers)])
  const cuts: Buffer[] = [settingsFrame([]), ...block(roll, head, 0)]
  for (let at = 0; at < body.length;) {
    const piece = body.subarray(at, at + 1 + roll.upTo(5_000))
    at += piece.length
    cuts.push(padded(roll, frameType.data, 0, piece))
    if (roll.upTo(4) === 0) cuts.push(frameOf(frameType.ping, 0, 0, roll.bytes(8)))
    // A client must ignore frames of unknown types.
    if (roll.upTo(9) === 0)
      cuts.push(frameOf(0x40 + roll.upTo(60), 0, 1, roll.bytes(roll.upTo(30))))
  }
  cuts.push(...block(roll, encodeHeaders([['grpc-status', '0']]), flag.endStream))
  return Buffer.concat(cuts)
}

function block(roll: Roll, bytes: Buffer, flags: number): Buffer[] {
  const cut = roll.upTo(bytes.length)
  if (roll.upTo(1)) return [padded(roll, frameType.headers, flags | flag.endHeaders, bytes)]
  return [
    padded(roll, frameType.headers, flags, bytes.subarray(0, cut)),
    frameOf(frameType.continuation, flag.endHeaders, 1, bytes.subarray(cut)),
  ]
}

function padded(roll: Roll, type: number, flags: number, bytes: Buffer): Buffer {
  if (roll.upTo(1)) return frameOf(type, flags, 1, bytes)
  const padding = roll.upTo(255)
  const payload = Buffer.concat([Buffer.of(padding), bytes, Buffer.alloc(padding)])
  return frameOf(type, flags | flag.padded, 1, payload)
}

/** Splits the bytes into random pieces, as a network may deliver them. */
function* pieces(roll: Roll, bytes: Buffer): Generator<Buffer> {
  const most = roll.one([1, 7, 100, 5_000, 100_000])
  for (let at = 0; at < bytes.length;) {
    const piece = bytes.subarray(at, at + 1 + roll.upTo(most - 1))
    at += piece.length
    yield piece
  }
}

describe(`the reader of frames (seed ${seed})`, () => {
  it('reads the same however the bytes are cut, padded and spread over frames', async () => {
    await rounds(300, async (roll) => {
      const { connection, far } = inMemory()
      const headers = headersOf(roll)
      const body = roll.bytes(roll.upTo(roll.upTo(4) ? 500 : 30_000))
      const answered = ask(connection, request())
      for (const piece of pieces(roll, answerOf(roll, headers, body))) far.write(piece)
      const { heads, body: read, closed } = await answered
      expect(closed).toEqual({ kind: 'ended' })
      expect(heads.map((head) => ({ ...head }))).toEqual([
        { ':status': '200', ...headers },
        { 'grpc-status': '0' },
      ])
      expect(read.equals(body)).toBe(true)
      connection.destroy()
    })
  })

  it('ends every stream exactly once when bytes are wrong, missing or too many', async () => {
    await rounds(600, async (roll) => {
      const { connection, far } = inMemory()
      const bytes = answerOf(roll, headersOf(roll), roll.bytes(roll.upTo(300)))
      for (let left = 1 + roll.upTo(5); left > 0; left--)
        bytes[roll.upTo(bytes.length - 1)] = roll.upTo(255)
      const broken = roll.one([
        bytes,
        bytes.subarray(0, roll.upTo(bytes.length)),
        Buffer.concat([bytes, roll.bytes(roll.upTo(100))]),
        Buffer.concat([roll.one([preface, roll.bytes(20)]), bytes]),
      ])
      const answered = Promise.all([ask(connection, request()), ask(connection, request())])
      for (const piece of pieces(roll, broken)) far.write(piece)
      far.end()
      for (const { closed } of await answered)
        expect(['ended', 'refused', 'reset', 'lost']).toContain(closed.kind)
    })
  })
})

describe(`the reader of header blocks (seed ${seed})`, () => {
  it('throws nothing but its own error on noise, and keeps to its limit', async () => {
    await rounds(20_000, (roll) => {
      const decoder = new HeaderDecoder(1_000)
      const sound = encodeHeaders(Object.entries(headersOf(roll)))
      const noise = roll.bytes(roll.upTo(60))
      for (const block of [noise, Buffer.concat([sound, noise]), noise])
        try {
          const headers = decoder.decode(block) ?? {}
          const told = Object.entries(headers).flatMap(([name, value]) => [name, ...[value].flat()])
          expect(told.join('').length).toBeLessThanOrEqual(1_000)
        } catch (thrown) {
          expect(thrown).toBeInstanceOf(CompressionError)
          return // the decoder's table is lost after an error
        }
    })
  })
})

import { connect } from 'node:net'
import { expect, describe, test } from 'vitest'
import { z } from 'zod'
import type { AnyRoute } from '../../core/plugin.ts'
import { edge, firstOf } from '../support/edge.ts'

const mebibyte = 1024 * 1024
const count = z.object({ text: z.string() })

/** Routes that take bodies of three kinds, larger than usual, and one that does not. */
const routes: Record<string, AnyRoute> = {
  'POST /raw': {
    auth: 'public',
    raw: true,
    body: { maxBytes: 10 * mebibyte },
    run: (_, { raw }) => ({ bytes: raw.length }),
  },
  'POST /json': {
    auth: 'public',
    input: count,
    body: { kind: 'json', maxBytes: 16 * mebibyte },
    run: ({ text }: z.infer<typeof count>) => ({ bytes: text.length }),
  },
  'POST /lines': {
    auth: 'public',
    body: 'ndjson',
    async run(_, { lines }) {
      let bytes = 0
      for await (const line of lines)
        bytes += JSON.stringify('value' in line ? line.value : '').length
      return { bytes }
    },
  },
  'POST /usual': { auth: 'public', input: count, run: () => ({ bytes: 0 }) },
}

/** A tenth of what a server waits in earnest: 3 seconds in place of 30, for a body of that many seconds. */
const scaled = {
  times: { bodyMs: 3000, checkMs: 100 },
  limits: { ratePerMinute: 1e6, trustProxy: false },
}

const head = (path: string, type: string, length: number) =>
  `POST ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: ${type}\r\nContent-Length: ${length}\r\n\r\n`

/** Sends a body piece by piece, a piece every `everyMs`, until it is out or the server has closed; says what came back. */
function paced(port: number, start: string, pieces: readonly string[], everyMs: number) {
  return new Promise<string>((resolve) => {
    let received = ''
    let at = 0
    let timer: NodeJS.Timeout | undefined
    const socket = connect(port, '127.0.0.1', () => {
      socket.write(start)
      timer = setInterval(() => {
        const piece = pieces[at++]
        if (piece === undefined) clearInterval(timer)
        else socket.write(piece)
      }, everyMs)
    })
    socket.setEncoding('latin1').on('data', (chunk: string) => (received += chunk))
    socket.on('error', () => undefined).on('close', () => (clearInterval(timer), resolve(received)))
  })
}

const piecesOf = (text: string, size: number) =>
  Array.from({ length: Math.ceil(text.length / size) }, (_, nth) =>
    text.slice(nth * size, (nth + 1) * size),
  )

const line = `${JSON.stringify('x'.repeat(997))}\n`
const bodies = [
  ['/raw', 'application/octet-stream', 'x'.repeat(225_000)],
  ['/json', 'application/json', JSON.stringify({ text: 'x'.repeat(224_989) })],
  ['/lines', 'application/x-ndjson', line.repeat(225)],
] as const

describe('a body of a route that takes more than usual', () => {
  // 300 kbit/s, twice the span long: it passes however long it takes.
  test.for(bodies)('on %s passes at its pace', { timeout: 60_000 }, async ([path, type, body]) => {
    const server = await edge(routes, scaled)
    const answer = await paced(
      server.port,
      head(path, type, body.length),
      piecesOf(body, 3750),
      100,
    )
    expect(firstOf(answer)).toMatchObject({ status: 200, json: { bytes: expect.any(Number) } })
    expect(firstOf(answer).json.bytes).toBeGreaterThan(224_000)
  })

  test.for(bodies)(
    'on %s ends with 408 when it trickles',
    { timeout: 60_000 },
    async ([path, type, body]) => {
      const server = await edge(routes, scaled)
      const begun = [body.slice(0, 100_000), ...piecesOf(body.slice(100_000), 1)]
      const answer = await paced(server.port, head(path, type, body.length), begun, 100)
      expect(firstOf(answer)).toMatchObject({
        status: 408,
        json: {
          code: 'REQUEST_TIMEOUT',
          message: 'Over the last 3 seconds the body came with fewer than 4096 bytes a second.',
        },
      })
      expect(server.logged.filter(({ level }) => level === 'error')).toEqual([])
    },
  )

  test(
    'is not charged for the time in which its route does not read',
    { timeout: 60_000 },
    async () => {
      let release = () => {}
      const held = new Promise<void>((resolve) => (release = resolve))
      const seen: number[] = []
      const slow: AnyRoute = {
        auth: 'public',
        body: 'ndjson',
        async run(_, { lines }) {
          for await (const { number } of lines) {
            if (number === 1) await held
            seen.push(number)
          }
          return { lines: seen.length }
        },
      }
      const server = await edge(
        { 'POST /': slow },
        { ...scaled, times: { bodyMs: 300, checkMs: 20 } },
      )
      const body = line.repeat(3000)
      const answer = paced(server.port, head('/', 'application/x-ndjson', body.length), [body], 1)
      setTimeout(release, 2000)
      expect(firstOf(await answer)).toMatchObject({ status: 200, json: { lines: 3000 } })
    },
  )
})

test('a body of the usual size has a time, however it comes', { timeout: 60_000 }, async () => {
  const server = await edge(routes, scaled)
  const body = JSON.stringify({ text: 'x'.repeat(500_000) })
  const start = head('/usual', 'application/json', body.length)
  const answer = await paced(server.port, start, piecesOf(body, 3750), 100)
  expect(firstOf(answer)).toMatchObject({ status: 408, json: { code: 'REQUEST_TIMEOUT' } })
})

test('the pace is what the operator says', { timeout: 60_000 }, async () => {
  const limits = { ...scaled.limits, uploadBytesPerS: 100_000 }
  const server = await edge(routes, { ...scaled, limits })
  const [path, type, body] = bodies[0]
  const answer = await paced(server.port, head(path, type, body.length), piecesOf(body, 3750), 100)
  expect(firstOf(answer)).toMatchObject({ status: 408 })
})

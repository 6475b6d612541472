import { Agent, request } from 'node:http'
import { connect } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { startRawUpstream, type RawStream } from '../fixtures/raw-upstream.ts'
import { frame } from '../upstream/frames.ts'
import { frameType, numberFrame } from '../http2/frames.ts'
import type { LedgerCall } from '../fixtures/ledger.ts'
import { aLedger, gatewayTo } from '../../../test/support/gateway.ts'

const path = '/ledger/token/params'

// The test opens hundreds of sockets on a machine that may be busy, so it checks what happens and not how fast.
describe('clients', { timeout: 90_000 }, () => {
  it('that leave by the hundred each cancel their call, and nobody else is the worse for it', async () => {
    let cancelled = 0
    const wait = ({ call, request: { id } }: LedgerCall) => {
      if (id === 'stays') return { entity: { id } }
      call.on('cancelled', () => cancelled++)
      return new Promise<never>(() => undefined)
    }
    const ledger = await aLedger({ handlers: { 'EntityQuery.Entity': wait } })
    const app = await gatewayTo(ledger.address)
    const leaving = Array.from({ length: 400 }, (_, nth) => {
      const asked = request(`${app.url}/ledger/entity/leaves-${nth}`)
      asked.on('error', () => undefined) // the client closes the connection itself
      asked.end()
      return asked
    })
    await expect.poll(() => ledger.calls['EntityQuery.Entity'], { timeout: 40_000 }).toBe(400)
    for (const asked of leaving) asked.destroy()
    expect((await app.get('/ledger/entity/stays')).status).toBe(200)
    await expect.poll(() => cancelled, { timeout: 40_000 }).toBe(400)
  })

  it('that ask two thousand different things at once are all answered', async () => {
    const app = await gatewayTo((await aLedger()).address)
    const agent = new Agent({ keepAlive: true, maxSockets: 200 })
    onTestFinished(() => agent.destroy())
    const answers = await Promise.all(
      Array.from(
        { length: 2000 },
        (_, nth) =>
          new Promise<number>((resolve, reject) => {
            request(`${app.url}${path}?n=${nth}`, { agent }, (response) =>
              response.resume().on('end', () => resolve(response.statusCode ?? 0)),
            )
              .on('error', reject)
              .end()
          }),
      ),
    )
    expect(new Set(answers)).toEqual(new Set([200]))
  })

  it('that send half a body and go, or never end one, cost no upstream call', async () => {
    const ledger = await aLedger()
    const app = await gatewayTo(ledger.address)
    const { port } = new URL(app.url)
    const head =
      'POST /ledger/token/simulate HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{"denom"'
    for (let nth = 0; nth < 50; nth++) {
      const socket = connect(Number(port), '127.0.0.1')
      socket.on('error', () => undefined) // the server cuts the connection
      socket.write(head, () => socket.destroy())
    }
    expect((await app.post('/ledger/token/simulate', { denom: 'x' })).status).toBe(200)
    expect(ledger.calls).toEqual({ 'TokenQuery.Simulate': 1 })
  })
})

describe('an upstream', () => {
  async function raw(onStream: (stream: RawStream) => void) {
    const upstream = await startRawUpstream(onStream)
    onTestFinished(() => upstream.close())
    return { upstream, app: await gatewayTo(upstream.address) }
  }

  it.each<[string, number, (stream: RawStream) => void]>([
    ['that sends noise', 502, ({ socket }) => socket.write(Buffer.alloc(99, 'noise 127.0.0.1'))],
    ['that compresses', 502, (s) => (s.head(), s.data(Buffer.of(1, 0, 0, 0, 0)), s.trailers())],
    ['that sends another message', 502, (s) => s.answer(frame(Buffer.of(0x0a, 0xff)))],
    ['that announces too much', 502, (s) => (s.head(), s.data(Buffer.of(0, 255, 0, 0, 0)))],
    [
      'that resets',
      503,
      ({ socket, id }) => socket.write(numberFrame(frameType.resetStream, id, 2)),
    ],
    ['that hangs up', 503, ({ socket }) => socket.resetAndDestroy()],
    ['that drips for ever', 504, (s) => (s.head(), s.data(Buffer.of(0, 0)))],
  ])('%s is %i, without its address', async (_, status, onStream) => {
    const { upstream, app } = await raw(onStream)
    const answer = await app.get(path, { headers: { 'grpc-timeout': '300m' } })
    expect(answer.status).toBe(status)
    expect(answer.body.details).toEqual([])
    expect(JSON.stringify(answer.body)).not.toContain('127.0.0.1')
    expect(JSON.stringify(answer.body)).not.toContain(upstream.address.split(':')[1])
  })

  it('that answers with more than 16 MiB is 502, and the next call is served', async () => {
    const large = () => ({ contract_code: 'x'.repeat(17 * 1024 * 1024) })
    const app = await gatewayTo(
      (await aLedger({ handlers: { 'TokenQuery.Params': large } })).address,
    )
    expect(await app.get(path)).toMatchObject({ status: 502, body: { code: 8 } })
    expect((await app.get('/ledger/entity/params')).status).toBe(200)
  })

  it('that goes away in the middle of a stream ends it with an error line', async () => {
    const claim = Buffer.from([0x0a, 1, 0x78])
    const held: RawStream[] = []
    const { app } = await raw((stream) => {
      held.push(stream)
      stream.head()
      stream.data(frame(claim))
    })
    const { body } = await fetch(`${app.url}/ledger/claims/watch`)
    let text = ''
    for await (const piece of body!.pipeThrough(new TextDecoderStream())) {
      text += piece
      held.shift()?.socket.resetAndDestroy()
    }
    const lines = text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(lines[0].result.claim_id).toBe('x')
    expect(lines[1]).toEqual({
      error: { code: 14, message: 'The upstream cannot be reached.', details: [] },
    })
  })

  it('that takes a stream and is quiet has its client know that it was taken', async () => {
    const held: RawStream[] = []
    const { app } = await raw((stream) => {
      held.push(stream)
      stream.head()
    })
    const response = await fetch(`${app.url}/ledger/claims/watch`)
    expect(response.status).toBe(200)
    held[0]!.data(frame(Buffer.from([0x0a, 1, 0x78])))
    held[0]!.trailers()
    expect((await response.text()).trim().split('\n')).toHaveLength(1)
  })

  it('that splits headers of an answer does not split ours', async () => {
    const { app } = await raw((stream) => {
      stream.head(false, [
        ['content-type', 'application/grpc'],
        ['x-evil', 'a\r\nset-cookie: owned=1'],
        ['x-fine', 'yes'],
      ])
      stream.data(frame(Buffer.alloc(0)))
      stream.trailers()
    })
    const { status, headers } = await app.get(path)
    expect(status).toBe(200)
    expect(headers.get('set-cookie')).toBeNull()
    expect(headers.get('grpc-metadata-x-evil')).toBeNull()
    expect(headers.get('grpc-metadata-x-fine')).toBe('yes')
  })

  it('that answers OK without any message means the one with its defaults', async () => {
    const { app } = await raw((stream) => {
      stream.head()
      stream.trailers()
    })
    expect(await app.get(path)).toMatchObject({
      status: 200,
      body: { contract_code: '', max_supply: '0' },
    })
  })
})

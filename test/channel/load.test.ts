import { setTimeout as pause } from 'node:timers/promises'
import { expect, it, onTestFinished } from 'vitest'
import { benchSockets } from '../../bench/sockets.ts'
import type { Did } from '../../core/runtime/auth/did/did.ts'
import { Channel, type ChannelOptions } from '../../core/runtime/channel/channel.ts'
import type { Engine } from '../../core/runtime/turns/run.ts'
import { replica, someone } from '../support/replica.ts'
import { connect, ioSocket, plainSocket } from '../support/sockets.ts'

/** The fake at the door: a token is the DID of whoever has it. */
const bySocket: ChannelOptions['bySocket'] = async ({ invocation }) => ({
  did: invocation as Did,
  cids: [],
  expiresAt: Infinity,
})

/** No socket of these tests asks for the events of its user. */
const noNotices: ChannelOptions['notices'] = {
  read: () => {
    throw new Error('A socket asked for the events of its user.')
  },
}

it('idle sockets cost little memory', async () => {
  const { heap } = await benchSockets(() => undefined, 100)
  expect(heap).toBeLessThan(30)
}, 60_000)

it('a client that does not read is cut off, and nobody else notices', async () => {
  const piece = 'x'.repeat(32 * 1024)
  const pieces = 400
  const talking: Engine = async (run) => {
    for (let nth = 0; nth < pieces; nth++) {
      run.emit('message', { content: piece })
      await pause(nth % 10 === 0 ? 5 : 0)
    }
    return { status: 'finished' }
  }
  const server = await replica({ engine: talking })
  const channel = new Channel({
    http: server.http,
    runs: server.runs,
    notices: noNotices,
    bySocket,
    isRevoked: () => false,
    store: server.store,
    log: { debug() {}, info: (_, message) => void cuts.push(message), warn() {}, error() {} },
    cors: '*',
    limits: { bufferBytes: 256 * 1024 },
  })
  const cuts: (string | undefined)[] = []
  onTestFinished(() => channel.close())
  const sessionId = await server.session()
  const auth = { invocation: someone }
  const stalled = await plainSocket(server.url, sessionId, auth)
  const others = await Promise.all([1, 2, 3].map(() => plainSocket(server.url, sessionId, auth)))
  stalled.ws.pause()
  const said = server.call('POST', `/messages/${sessionId}`, { message: 'Talk', stream: false })
  for (const other of others) {
    expect((await other.event('done')).status).toBe('finished')
    const length = other
      .events('message')
      .reduce((sum: number, { content }) => sum + content.length, 0)
    expect(length).toBe(piece.length * pieces)
  }
  expect((await said).status).toBe(200)
  expect(cuts).toEqual(['A socket was cut off: it does not read what it is sent'])
  expect(channel.size).toBe(3)
  stalled.ws.resume()
  expect((await stalled.closed).code).toBe(1006)
  expect(stalled.events('message').length).toBeLessThan(pieces)
}, 60_000)

it('a client that is gone without a word is noticed, and makes room for another', async () => {
  const server = await replica({ engine: async () => ({ status: 'finished' }) })
  const channel = new Channel({
    http: server.http,
    runs: server.runs,
    notices: noNotices,
    bySocket,
    isRevoked: () => false,
    store: server.store,
    log: { debug() {}, info() {}, warn() {}, error() {} },
    cors: '*',
    limits: { pingMs: 100, pongMs: 100, sweepMs: 20, perAddress: 2 },
  })
  onTestFinished(() => channel.close())
  const sessionId = await server.session()
  const there = await plainSocket(server.url, sessionId, { invocation: someone })
  const gone = await plainSocket(
    server.url,
    sessionId,
    { invocation: someone },
    { autoPong: false },
  )
  await expect(connect(`${server.url}/ws`).opened).rejects.toThrow('429')
  await gone.closed
  while (channel.size > 1) await pause(10)
  expect(there.ws.readyState).toBe(there.ws.OPEN)
  await connect(`${server.url}/ws`).opened
})

it('a client of Socket.IO is asked in time, also while it talks', async () => {
  const server = await replica({ engine: async () => ({ status: 'finished' }) })
  const channel = new Channel({
    http: server.http,
    runs: server.runs,
    notices: noNotices,
    bySocket,
    isRevoked: () => false,
    store: server.store,
    log: { debug() {}, info() {}, warn() {}, error() {} },
    cors: '*',
    limits: { pingMs: 100, pongMs: 400, sweepMs: 20 },
  })
  onTestFinished(() => channel.close())
  const sessionId = await server.session()
  const socket = await ioSocket(server.url, sessionId, { invocation: someone })
  const talking = setInterval(() => socket.send('42["anything"]'), 30)
  onTestFinished(() => clearInterval(talking))
  while (socket.heard.filter((text) => text === '2').length < 3) await pause(20)
  expect(socket.ws.readyState).toBe(socket.ws.OPEN)
})

it('a credential that is revoked while it renews a socket ends it', async () => {
  const server = await replica({ engine: async () => ({ status: 'finished' }) })
  const renewed: ChannelOptions['bySocket'] = async ({ delegation = 'first' }) => ({
    did: someone as Did,
    cids: [delegation],
    expiresAt: Infinity,
  })
  const channel = new Channel({
    http: server.http,
    runs: server.runs,
    notices: noNotices,
    bySocket: renewed,
    // Both were valid when they were looked at; the second is not any more.
    isRevoked: (cids) => cids.includes('second'),
    store: server.store,
    log: { debug() {}, info() {}, warn() {}, error() {} },
    cors: '*',
  })
  onTestFinished(() => channel.close())
  const sessionId = await server.session()
  const socket = await plainSocket(server.url, sessionId, { invocation: someone })
  const auth = { invocation: someone, ucanDelegation: 'second' }
  socket.send({ type: 'auth', sessionId, auth })
  expect((await socket.closed).code).toBe(4401)
})

import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { connect as dial, type AddressInfo, isIP, type LookupFunction, type Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { RuntimeError } from '#core'
import { scriptedModel, testApp } from '#core/testing'
import { Budget } from '../../core/runtime/attachments/budget.ts'
import { type Edge, fetchAttached } from '../../core/runtime/attachments/fetch.ts'
import { type Attaching, Attachments } from '../../core/runtime/attachments/attachments.ts'
import type { NewFile } from '../../core/runtime/files/files.ts'
import { anybody } from '../support/anybody.ts'
import { html, png } from '../support/sample-files.ts'

type Handle = (req: IncomingMessage, res: ServerResponse) => void

/**
 * The network of a test. One public address leads to a server here; every other address is counted, and nobody is there. Names
 * become what the test says, one answer after the other.
 */
async function network(handle: Handle, names: Record<string, readonly string[][]> = {}) {
  const server = createServer(handle).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const connected: string[] = []
  const asked: string[] = []
  const resolve: Edge['resolve'] = (host, _, callback) => {
    const answers = names[host] ?? [[publicAddress]]
    const nth = asked.filter((one) => one === host).length
    asked.push(host)
    const answer = answers[Math.min(nth, answers.length - 1)] ?? []
    const addresses = answer.map((address) => ({ address, family: isIP(address) }))
    setImmediate(() => callback(null, addresses))
  }
  const connect: Edge['connect'] = (options, done) => {
    const { host, lookup } = options as { host: string; lookup: LookupFunction }
    const go = (address: string): void => {
      connected.push(address)
      if (address !== publicAddress) return done?.(new Error('nobody is there'), new Unused())
      const socket: Socket = dial(port, '127.0.0.1')
      socket
        .once('connect', () => done?.(null, socket))
        .once('error', (error) => done?.(error, socket))
    }
    if (isIP(host) !== 0) go(host)
    else
      lookup(host, {}, (error, address) => {
        if (error) done?.(error, new Unused())
        else go(String(address))
      })
    return undefined
  }
  return {
    connected,
    asked,
    edge: { resolve, connect } satisfies Edge,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
class Unused extends Duplex {}

const publicAddress = '93.184.216.34'
const rules = { isForAuthors: true, hosts: [] }
const get = (
  url: string,
  edge: Edge,
  more: Partial<typeof rules> = {},
  signal = new AbortController().signal,
) => fetchAttached(url, { ...rules, ...more }, { as: 'a.png', budget: new Budget(), signal, edge })

/** This machine and its network, in the ways that a URL can be written: all of them lead inside. */
const inside = [
  '127.0.0.1',
  '127.1',
  '2130706433',
  '0177.0.0.1',
  '0x7f.0.0.1',
  '0x7f000001',
  '017700000001',
  '127.0.0.1.',
  '%31%32%37.0.0.1',
  '[::1]',
  '[::ffff:127.0.0.1]',
  '[::ffff:7f00:1]',
  '[::127.0.0.1]',
  '0.0.0.0',
  '0',
  '[::]',
  '10.0.0.1',
  '172.16.3.4',
  '192.168.0.1',
  '0xc0a80001',
  '169.254.169.254',
  '100.64.0.1',
  '198.18.0.1',
  '192.0.0.1',
  '224.0.0.1',
  '255.255.255.255',
  '[fe80::1]',
  '[fc00::1]',
  '[64:ff9b::a00:1]',
  '[64:ff9b:1::a00:1]',
  '[2002:a00:1::]',
  '[::ffff:10.0.0.1]',
  '[fec0::1]',
]

describe('an address inside, attached by a user', () => {
  it('is never connected to: literal, by a name, by a redirect, in any spelling', async () => {
    let target = ''
    const redirect: Handle = (_, res) => res.writeHead(302, { Location: target }).end()
    await using net = await network(redirect)
    for (const host of inside)
      for (const scheme of ['https', 'http']) {
        target = `${scheme}://${host}/`
        await expect(get(target, net.edge), target).rejects.toThrow()
        await expect(get('http://files.example/', net.edge), target).rejects.toThrow()
      }
    expect(new Set(net.connected)).toEqual(new Set([publicAddress]))
    expect(net.connected).toHaveLength(inside.length * 2)
  })

  it('is never connected to by a name, nor by one that changes its answer', async () => {
    const addresses = inside
      .map((host) => new URL(`http://${host}/`).hostname.replace(/^\[|\]$|\.$/g, ''))
      .filter((host) => isIP(host) !== 0)
    expect(addresses.length).toBeGreaterThanOrEqual(32)
    for (const address of addresses) {
      const names = {
        'inside.example': [[address]],
        'second.example': [[publicAddress, address]],
        'turning.example': [[publicAddress], [address]],
      }
      await using net = await network(
        (_, res) => res.writeHead(302, { Location: '/on' }).end(),
        names,
      )
      await expect(get('https://inside.example/', net.edge)).rejects.toThrow()
      await expect(get('https://second.example/', net.edge)).rejects.toThrow()
      expect(net.connected).toEqual([])
      // The first answer is public, and the redirect to the same name asks anew.
      await expect(get('http://turning.example/', net.edge)).rejects.toThrow()
      expect([net.connected, net.asked.slice(2)]).toEqual([
        [publicAddress],
        ['turning.example', 'turning.example'],
      ])
    }
  })

  it('is told like everything else that is not there, and a listener there counts nothing', async () => {
    let calls = 0
    const listener = createServer((_, res) => (calls++, res.end(png()))).listen(0, '127.0.0.1')
    await once(listener, 'listening')
    const { port } = listener.address() as AddressInfo
    let connections = 0
    listener.on('connection', () => connections++)
    try {
      const env = { RATE_LIMIT_PER_MINUTE: '1000' }
      await using app = await testApp({ plugins: [], model: scriptedModel([]), env })
      const user = await app.user()
      const { sessionId } = (await user.post('/sessions', {})).body
      const answers = new Set<string>()
      for (const host of [...inside, 'localhost', 'no.such.invalid'])
        for (const scheme of ['http', 'https']) {
          const attachments = [{ filename: 'a.png', url: `${scheme}://${host}:${port}/a.png` }]
          const { status, body } = await user.post(`/messages/${sessionId}`, {
            message: 'L',
            attachments,
          })
          const { requestId: _, timestamp: __, path: ___, ...said } = body
          answers.add(JSON.stringify([status, said]))
        }
      expect([...answers]).toHaveLength(1)
      expect([...answers][0]).toContain('ATTACHMENT_UNREACHABLE')
      expect([...answers][0]).not.toContain(String(port))
      expect([calls, connections]).toEqual([0, 0])
      expect((await user.get(`/messages/${sessionId}`)).body.messages).toEqual([])
    } finally {
      listener.close()
    }
  })
})

describe('an attachment by its address', () => {
  const serve =
    (headers: Record<string, string>, body: Buffer): Handle =>
    (_, res) =>
      res.writeHead(200, headers).end(body)

  it('comes without cookies and credentials, over three redirects at most', async () => {
    const seen: IncomingMessage[] = []
    await using net = await network((req, res) => {
      seen.push(req)
      const left = Number(req.url?.slice(1))
      if (left > 0) res.writeHead(307, { Location: `/${left - 1}`, 'Set-Cookie': 'a=b' }).end()
      else res.writeHead(200, { 'Content-Type': 'image/png' }).end(png())
    })
    const { bytes, mediaType, name } = await get('http://files.example/3', net.edge)
    expect([bytes, mediaType, name]).toEqual([png(), 'image/png', '0'])
    expect(seen.map(({ headers }) => [headers.cookie, headers.authorization])).toEqual(
      Array.from({ length: 4 }, () => [undefined, undefined]),
    )
    await expect(get('http://files.example/4', net.edge)).rejects.toThrow('redirects too often')
  })

  it('is read no further than a file may be long, whatever its sender says', async () => {
    let sent = 0
    await using net = await network((_, res) => {
      res.writeHead(200, { 'Content-Type': 'image/png' })
      const piece = Buffer.alloc(64 * 1024, 7)
      const go = () => {
        while (!res.destroyed && sent < 1e10) {
          sent += piece.length
          if (!res.write(piece)) return
        }
      }
      res.on('drain', go)
      go()
    })
    const large = { code: 'ATTACHMENT_TOO_LARGE', status: 413 }
    await expect(get('http://files.example/a', net.edge)).rejects.toMatchObject(large)
    expect(sent).toBeLessThan(1e9)
    await using liar = await network((_, res) =>
      res.writeHead(200, { 'Content-Length': '10000000000' }).write('a'),
    )
    await expect(get('http://files.example/a', liar.edge)).rejects.toMatchObject(large)
  })

  it.each<[string, Handle]>([
    ['nothing at all', () => undefined],
    ['a head and nothing more', (_, res) => res.writeHead(200).flushHeaders()],
    ['a beginning and silence', (_, res) => res.writeHead(200).write(png())],
  ])('ends with its time where the sender sends %s', async (_, handle) => {
    const reached = Promise.withResolvers<void>()
    await using net = await network((req, res) => (handle(req, res), reached.resolve()))
    const stop = new AbortController()
    const got = get('http://files.example/a', net.edge, {}, stop.signal)
    got.catch(() => undefined)
    await reached.promise
    stop.abort(new Error('the time is up'))
    await expect(got).rejects.toThrow()
  })

  it('has to be whole, and to be there', async () => {
    await using cut = await network((_, res) => {
      res.writeHead(200, { 'Content-Length': '100' }).write('a', () => res.destroy())
    })
    await expect(get('http://files.example/a', cut.edge)).rejects.toThrow()
    for (const status of [204, 206, 304, 401, 404, 500]) {
      await using net = await network((_, res) => res.writeHead(status).end())
      await expect(get('http://files.example/a', net.edge)).rejects.toThrow(String(status))
    }
  })

  it('goes to the usual ports alone, and to the hosts of ATTACHMENT_HOSTS where they are named', async () => {
    await using net = await network(serve({}, png()))
    for (const url of [
      'http://files.example:8080/',
      'https://files.example:8443/',
      'http://a@files.example/',
    ])
      await expect(get(url, net.edge)).rejects.toThrow()
    await expect(get('http://files.example/', net.edge, { isForAuthors: false })).rejects.toThrow()
    const hosts = [{ host: '.media.example', isSuffix: true, port: undefined }]
    await expect(get('http://files.example/', net.edge, { hosts } as {})).rejects.toThrow()
    expect(net.connected).toEqual([])
    expect((await get('http://a.media.example/', net.edge, { hosts } as {})).bytes).toEqual(png())
  })
})

describe('the attachments of one message', () => {
  /** Attachments whose files are kept in a list: the database has tests of its own. */
  const reading = (edge: Edge, withinMs?: number) => {
    const kept: NewFile[] = []
    const files = {
      keep: async (_: string, fresh: readonly NewFile[]) =>
        fresh.map(({ name, mediaType, body }) => {
          kept.push({ name, mediaType, body, type: 'image', ending: 'png' })
          return { fileId: String(kept.length), name, mediaType, bytes: body.length, sha256: '' }
        }),
    }
    const model = { ...scriptedModel([]), reads: { image: ['image/*'] } }
    const models = { default: model, all: [model], has: () => true, get: () => model }
    const options = { records: [], models, web: rules, edge, withinMs }
    return { kept, attachments: new Attachments({ ...options, files: files as never }) }
  }
  const user = anybody('did:key:one')

  it('are fetched at once, and have their types looked at', async () => {
    await using net = await network((req, res) => {
      if (req.url === '/page') res.writeHead(200, { 'Content-Type': 'image/png' }).end(html())
      else res.writeHead(200, { 'Content-Type': 'text/plain' }).end(png())
    })
    const { attachments, kept } = reading(net.edge)
    const { parts } = await attachments.attach<Attaching>(user, '', {
      attachments: [
        { url: 'http://a.example/roof%20one.png' },
        { mxcUri: 'http://a.example/two', filename: 'b' },
      ],
    })
    expect(parts?.map(({ name, mediaType }) => [name, mediaType])).toEqual([
      ['roof one.png', 'image/png'],
      ['b', 'image/png'],
    ])
    const page = { attachments: [{ url: 'http://a.example/x' }, { url: 'http://a.example/page' }] }
    await expect(attachments.attach(user, '', page)).rejects.toMatchObject({
      code: 'ATTACHMENT_TYPE',
    })
    expect(kept).toHaveLength(2)
  })

  it('are refused together when their time is up', async () => {
    await using net = await network(() => undefined)
    const { attachments, kept } = reading(net.edge, 50)
    const given = { attachments: [{ filename: 'slow.png', url: 'http://a.example/' }] }
    const fault = await attachments.attach(user, '', given).catch((error: RuntimeError) => error)
    expect(fault).toMatchObject({ code: 'ATTACHMENT_UNREACHABLE', status: 422 })
    expect((fault as RuntimeError).message).toBe('"slow.png" could not be fetched.')
    expect(kept).toEqual([])
  })

  it('of a third message of one user wait for the first two', async () => {
    const reached: ServerResponse[] = []
    const both = Promise.withResolvers<void>()
    await using net = await network((_, res) => {
      if (reached.push(res) === 2) both.resolve()
    })
    const { attachments } = reading(net.edge)
    const given = { attachments: [{ url: 'http://a.example/' }] }
    const first = [attachments.attach(user, '', given), attachments.attach(user, '', given)]
    await both.promise
    await expect(attachments.attach(user, '', given)).rejects.toMatchObject({
      code: 'RATE_LIMITED',
      headers: { 'Retry-After': '5' },
    })
    for (const res of reached) res.end(png())
    await Promise.all(first)
  })
})

import type { LookupAddress } from 'node:dns'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { definePlugin } from '#core'
import { fakeWebhook, testApp } from '#core/testing'
import { deliver } from '#core/webhooks'
import { isPublicAddress } from '../../core/runtime/outbound/address.ts'
import type { Resolve } from '../../core/runtime/outbound/guard.ts'
import { attempt } from '../../core/webhooks/deliver.ts'

afterEach(() => vi.unstubAllEnvs())

const secret = 'a secret that both have'
const hook = { id: 'one', secret }
const environment = (NODE_ENV: string, OUTBOUND_ALLOW = '') => {
  vi.stubEnv('NODE_ENV', NODE_ENV)
  vi.stubEnv('OUTBOUND_ALLOW', OUTBOUND_ALLOW)
}
const refused = expect.objectContaining({ code: 'ADDRESS_REFUSED', status: 422 })

/** A name service that gives one answer after the other, the last one for ever, and counts. */
function names(...answers: string[][]) {
  const asked: string[] = []
  const resolve: Resolve = (host, _, callback) => {
    const answer = answers[Math.min(asked.length, answers.length - 1)] ?? []
    asked.push(host)
    const addresses = answer.map((address): LookupAddress => ({
      address,
      family: address.includes(':') ? 6 : 4,
    }))
    setImmediate(() => callback(null, addresses))
  }
  return { resolve, asked }
}
const at = (url: string, resolve: Resolve) =>
  attempt(url, '{}', hook, { withinMs: 10_000, resolve })

/** This machine, in the ways that a URL can be written. */
const loopback = [
  '127.0.0.1',
  '127.1',
  '2130706433',
  '0177.0.0.1',
  '0x7f.0.0.1',
  '0x7f000001',
  '017700000001',
  '127.0.0.1.',
  '%31%32%37.0.0.1',
  '１２７.0.0.1',
  '[::1]',
  '[0:0:0:0:0:0:0:1]',
  '[::ffff:127.0.0.1]',
  '[::ffff:7f00:1]',
]
/** The network around it, and blocks that nobody outside has. */
const inside = [
  '0.0.0.0',
  '0',
  '[::]',
  '[::127.0.0.1]',
  '10.0.0.1',
  '172.16.3.4',
  '192.168.0.1',
  '0xc0a80001',
  '169.254.169.254',
  '100.64.0.1',
  '198.18.0.1',
  '192.0.0.1',
  '203.0.113.7',
  '224.0.0.1',
  '255.255.255.255',
  '[fe80::1]',
  '[fc00::1]',
  '[fd12:3456:789a::1]',
  '[fec0::1]',
  '[ff02::1]',
  '[64:ff9b::a00:1]',
  '[64:ff9b:1::a00:1]',
  '[2002:a00:1::]',
  '[2001::1]',
  '[2001:db8::1]',
  '[::ffff:0:a00:1]',
  '[::ffff:10.0.0.1]',
  '[100::1]',
  '[4000::1]',
]

describe('an address inside the network', () => {
  it.each([...loopback, ...inside])('is refused in production as %s', async (host) => {
    environment('production')
    await expect(deliver(`https://${host}/hook`, {}, hook)).rejects.toEqual(refused)
  })

  it.each(inside)('is refused in development as %s', async (host) => {
    environment('development')
    for (const scheme of ['http', 'https'])
      await expect(deliver(`${scheme}://${host}/hook`, {}, hook)).rejects.toEqual(refused)
  })

  it('is none where it belongs to the public network', () => {
    for (const address of ['1.1.1.1', '::ffff:1.1.1.1', '2606:4700::1111', '172.32.0.1'])
      expect(isPublicAddress(address), address).toBe(true)
    for (const address of ['', 'localhost', '1.1.1.1/8', 'fe80::1%eth0'])
      expect(isPublicAddress(address), address).toBe(false)
  })

  it('is refused when a name stands for it, whichever place of the answer it has', async () => {
    environment('production')
    for (const address of ['127.0.0.1', '10.1.2.3', '::1', '::ffff:10.0.0.1', 'fe80::1%eth0'])
      for (const answer of [[address], ['1.1.1.1', address], [address, '2606:4700::1111']])
        await expect(at('https://inside.example/', names(answer).resolve)).rejects.toEqual(refused)
    await expect(at('https://nobody.example/', names([]).resolve)).rejects.toEqual(refused)
  })

  it('is refused for localhost in production', async () => {
    environment('production')
    for (const host of ['localhost', 'LOCALHOST'])
      await expect(deliver(`https://${host}/`, {}, hook)).rejects.toEqual(refused)
  })

  it('does not stand in the fault: what a name stands for is not told', async () => {
    environment('production')
    const fault = await at('https://db.example/secret-path', names(['10.1.2.3']).resolve).catch(
      (error: Error) => error,
    )
    expect(JSON.stringify([fault, (fault as Error).message])).not.toMatch(/10\.1\.2\.3|secret-path/)
  })
})

describe('a name', () => {
  it('is asked for once, by the socket: a second answer would count for nothing', async () => {
    environment('development')
    await using receiver = await fakeWebhook({ secret })
    const { port } = new URL(receiver.url)
    const { resolve, asked } = names(['127.0.0.1'], ['10.0.0.1'])
    expect(await at(`http://rebinding.example:${port}/`, resolve)).toEqual({ status: 204 })
    expect(asked).toEqual(['rebinding.example'])
    await expect(at(`http://rebinding.example:${port}/`, resolve)).rejects.toEqual(refused)
    expect(asked).toHaveLength(2)
    expect(receiver.received).toHaveLength(1)
  })

  it('may not be called at another port than that of https, in production', async () => {
    environment('production')
    const { resolve, asked } = names(['1.1.1.1'])
    for (const url of ['http://a.example/', 'https://a.example:8443/', 'https://a.example:80/'])
      await expect(at(url, resolve)).rejects.toEqual(refused)
    expect(asked).toEqual([])
  })

  it('may not be called at any other port in development, unless it is this machine', async () => {
    environment('development')
    for (const url of ['http://a.example:8080/', 'https://a.example:22/', 'http://a.example:443/'])
      await expect(at(url, names(['1.1.1.1']).resolve)).rejects.toEqual(refused)
    await using receiver = await fakeWebhook({ secret })
    const local = receiver.url.replace('127.0.0.1', 'localhost')
    expect(await at(local, names(['127.0.0.1']).resolve)).toEqual({ status: 204 })
  })

  it('has no other scheme and no password in its address', async () => {
    environment('development')
    for (const url of [
      'ftp://a.example/',
      'file:///etc/passwd',
      'data:,x',
      'https://u:p@a.example/',
    ])
      await expect(at(url, names(['127.0.0.1']).resolve)).rejects.toEqual(refused)
  })
})

describe('OUTBOUND_ALLOW', () => {
  it('names an address with its port, and no other port', async () => {
    await using receiver = await fakeWebhook({ secret })
    const { host, port } = new URL(receiver.url)
    environment('production', ` 10.0.0.9:443, ${host} `)
    expect(await deliver(receiver.url, {}, hook)).toEqual({ status: 204 })
    environment(
      'production',
      `127.0.0.1:${Number(port) === 9 ? 10 : 9}, 127.0.0.1, localhost:${port}`,
    )
    await expect(deliver(receiver.url, {}, hook)).rejects.toEqual(refused)
  })

  it('names hosts, and every name below a host', async () => {
    await using receiver = await fakeWebhook({ secret })
    const { port } = new URL(receiver.url)
    environment('production', `hooks.internal:${port},*.Cluster.Local:${port}`)
    const inside = names(['127.0.0.1']).resolve
    for (const host of [
      'hooks.internal',
      'HOOKS.internal.',
      'a.cluster.local',
      'b.a.cluster.local',
    ])
      expect(await at(`http://${host}:${port}/`, inside), host).toEqual({ status: 204 })
    for (const host of ['cluster.local', 'evilcluster.local', 'a.hooks.internal', 'x.internal'])
      await expect(at(`http://${host}:${port}/`, inside), host).rejects.toEqual(refused)
  })

  it('without a port means the ports of http and https', async () => {
    environment('production', 'receiver')
    await expect(at('http://receiver:8080/', names(['127.0.0.1']).resolve)).rejects.toEqual(refused)
    // Nothing listens there: the address was allowed.
    for (const url of ['http://receiver/', 'https://receiver/'])
      await expect(at(url, names(['127.99.99.99']).resolve)).rejects.toMatchObject({
        code: 'DELIVERY_FAILED',
      })
  })

  const wrong = [
    'https://a.example',
    'a.example/path',
    '*',
    '*.',
    '*.1.2.3.4',
    'a.*.example',
    'a.example:0',
    'a.example:65536',
    'a.example:x',
    'u@a.example',
    '[::1',
    'a b',
    '10.0.0.0/8',
  ]
  it.each(wrong)('stops the boot when it holds %s', async (entry) => {
    const booting = testApp({ plugins: [], env: { OUTBOUND_ALLOW: `b.example, ${entry}` } })
    await expect(booting).rejects.toMatchObject({
      code: 'BOOT_FAILED',
      details: { faults: [{ code: 'ENV_INVALID', message: expect.stringContaining(entry) }] },
    })
    environment('production', entry)
    await expect(deliver('https://a.example/', {}, hook)).rejects.toMatchObject({
      code: 'ENV_INVALID',
    })
  })

  it('takes an IPv6 address with brackets, and without them where it has no port', async () => {
    for (const entry of ['[::1]:8080', '[fd00::1]', 'fd00::1']) {
      await using app = await testApp({ plugins: [], env: { OUTBOUND_ALLOW: entry } })
      expect(app.url).toContain('http')
    }
    // Nothing listens there: the address was allowed.
    for (const entry of ['[::1]:9', '[0:0::1]:9']) {
      environment('production', entry)
      const allowed = deliver('http://[::1]:9/', {}, hook)
      await expect(allowed).rejects.toMatchObject({ code: 'DELIVERY_FAILED' })
      await expect(deliver('http://[::1]:10/', {}, hook)).rejects.toEqual(refused)
    }
  })
})

describe('the rules of an app', () => {
  it('are in force while it runs, whatever the process says', async () => {
    environment('test')
    await using receiver = await fakeWebhook({ secret })
    const { host } = new URL(receiver.url)
    {
      await using app = await testApp({ plugins: [], env: { NODE_ENV: 'production' } })
      await expect(deliver(receiver.url, {}, hook)).rejects.toEqual(refused)
      expect(app.url).toContain('http')
    }
    expect(await deliver(receiver.url, {}, hook)).toEqual({ status: 204 })
    {
      const env = { NODE_ENV: 'production', OUTBOUND_ALLOW: host }
      await using app = await testApp({ plugins: [], env })
      expect(await deliver(receiver.url, {}, hook)).toEqual({ status: 204 })
      // A second app that allows less: an address has to pass the rules of both.
      await using strict = await testApp({ plugins: [], env: { NODE_ENV: 'production' } })
      await expect(deliver(receiver.url, {}, hook)).rejects.toEqual(refused)
      expect(app.url).not.toBe(strict.url)
    }
  })

  it('are gone when the boot fails', async () => {
    environment('test')
    await using receiver = await fakeWebhook({ secret })
    const broken = definePlugin({
      name: 'broken',
      summary: 'Cannot be set up.',
      setup: () => {
        throw new Error('no')
      },
    })
    const env = { NODE_ENV: 'production' }
    await expect(testApp({ plugins: [broken], env })).rejects.toThrow()
    expect(await deliver(receiver.url, {}, hook)).toEqual({ status: 204 })
  })
})

import { createHmac } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { definePlugin } from '#core'
import { scriptedModel, testApp } from '#core/testing'
import calls from '../index.ts'
import { isInnerOnly } from '../signalling/addresses.ts'
import { relayOf } from '../signalling/turn.ts'

const env = { NODE_ENV: 'test', CALLS_VOICE: 'none', CALLS_HEARING: 'typed' }
const urls = 'turn:relay.example.org:3478?transport=udp, turns:relay.example.org:443?transport=tcp'

test('a caller gets a word for the relay that is good for an hour and names nobody', async () => {
  const app = await testApp({
    plugins: [calls],
    model: scriptedModel([]),
    env: { ...env, CALLS_TURN_URLS: urls, CALLS_TURN_SECRET: 'relay-secret' },
    clock: true,
  })
  onTestFinished(() => app.close())
  const user = await app.user()
  const { body } = await user.get('/calls')
  const [server, ...others] = body.iceServers
  expect(others).toEqual([])
  expect(server.urls).toEqual(urls.split(', '))
  const [until, caller] = server.username.split(':')
  expect(Number(until) * 1_000 - app.clock.now().getTime()).toBeGreaterThan(3_598_000)
  expect(Number(until) * 1_000 - app.clock.now().getTime()).toBeLessThanOrEqual(3_600_000)
  expect(user.did).not.toContain(caller)
  const hmac = createHmac('sha1', 'relay-secret').update(server.username).digest('base64')
  expect(server.credential).toBe(hmac)
  const other = (await (await app.user()).get('/calls')).body.iceServers[0]
  expect(other.username.split(':')[1]).not.toBe(caller)
})

test('without a relay no server of anybody is named', async () => {
  const app = await testApp({ plugins: [calls], model: scriptedModel([]), env })
  onTestFinished(() => app.close())
  expect((await (await app.user()).get('/calls')).body.iceServers).toEqual([])
})

test('each of the two variables asks for the other', () => {
  expect(() => relayOf({ CALLS_TURN_URLS: ['turn:x'] })).toThrow('CALLS_TURN_SECRET')
  expect(() => relayOf({ CALLS_TURN_SECRET: 'a-secret' })).toThrow('CALLS_TURN_URLS')
  expect(relayOf({})).toBeUndefined()
})

test('a machine without an address of the outside is known as one', () => {
  const at = (address: string, internal = false) => [{ address, internal, family: 'IPv4' as const }]
  expect(
    isInnerOnly({ lo: at('127.0.0.1', true), eth0: at('10.1.2.3'), docker0: at('172.17.0.1') }),
  ).toBe(true)
  expect(isInnerOnly({ eth0: at('192.168.1.4'), eth1: at('203.0.113.9') })).toBe(false)
  expect(isInnerOnly({ eth0: at('172.32.0.1') })).toBe(false)
})

test.each([
  ['off', false],
  ['on', true],
])(
  'with CALLS_WARM=%s what calls need is imported before a call: %s',
  async (CALLS_WARM, isWarm) => {
    let warm = (): boolean | undefined => undefined
    const watch = definePlugin({
      name: 'watch',
      summary: 'Looks at calls.',
      visibility: 'silent',
      requires: [calls],
      setup: ({ plugins }) => void (warm = () => plugins.calls.isWarm),
    })
    const app = await testApp({
      plugins: [calls, watch],
      model: scriptedModel([]),
      env: { ...env, CALLS_WARM },
    })
    onTestFinished(() => app.close())
    // It is asked once the server answers, which is when the functions of `onReady` run.
    await expect.poll(async () => (await app.get('/health')).status).toBe(200)
    await expect.poll(warm).toBe(isWarm)
  },
)

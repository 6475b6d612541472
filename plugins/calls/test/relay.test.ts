import { createHmac } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { scriptedModel, testApp } from '#core/testing'
import calls from '../index.ts'
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

import { networkInterfaces } from 'node:os'
import { expect, test } from 'vitest'
import { TestClock } from '#core/testing'
import { callApp } from '../../../test/support/call-app.ts'
import { call, Page } from '../../../test/support/call-page.ts'

const patient = { timeout: 30_000, interval: 50 }
const env = { TRUST_PROXY_ENABLED: 'true', CALLS_PER_USER: '10', CALLS_VOICE: 'none' }
/** Each call comes from another address: ten a minute are let through from one. */
let callers = 0
const from = () => ({ 'x-forwarded-for': `198.51.100.${++callers % 250}` })
/** The addresses at which a call takes a port: those of this machine, and loopback. */
const addresses =
  Object.values(networkInterfaces()).flatMap((all) =>
    (all ?? []).filter(({ family, internal }) => family === 'IPv4' && !internal),
  ).length + 1

test('a call takes one port an address: so many calls fit in, and each one that ends gives its ports back', async () => {
  const last = 41_000 + addresses * 2 - 1
  const { user } = await callApp([], { env: { ...env, CALLS_PORTS: `41000-${last}` } })
  const session = async () => String((await user.post('/sessions', {})).body.sessionId)
  const post = async () => {
    const page = new Page()
    const sdp = await page.offer()
    const body = { sessionId: await session(), callType: 'audio', sdp }
    return { page, answer: await user.post('/calls', body, from()) }
  }
  const [one, two, three] = [await post(), await post(), await post()]
  expect([one, two].map(({ answer }) => answer.status)).toEqual([201, 201])
  expect(three.answer).toMatchObject({
    status: 503,
    body: { code: 'CALLS_FULL', hint: expect.any(String) },
  })
  expect(three.answer.headers.get('retry-after')).toMatch(/^\d+$/)
  await one.page.accept(one.answer.body.sdp)
  await user.delete(`/calls/${one.answer.body.callId}`)
  let next = await post()
  // The ports are free once the connection has closed.
  for (let tries = 0; next.answer.status === 503 && tries < 100; tries++) {
    await new Promise((resolve) => setTimeout(resolve, 100))
    next = await post()
  }
  expect(next.answer.status).toBe(201)
})

test('ten at once for the last place: one gets it', async () => {
  const { app } = await callApp([], { env: { ...env, CALLS_MAX: '1' } })
  const asked = await Promise.all(
    Array.from({ length: 10 }, async () => {
      const user = await app.user()
      const { sessionId } = (await user.post('/sessions', {})).body
      const sdp = await new Page().offer()
      return () => user.post('/calls', { sessionId, callType: 'audio', sdp }, from())
    }),
  )
  const statuses = (await Promise.all(asked.map((post) => post()))).map(({ status }) => status)
  expect(statuses.sort()).toEqual([201, ...Array.from({ length: 9 }, () => 503)])
})

test('two calls of one user spend the minutes of the day together, and both end when none is left', async () => {
  const clock = new TestClock('2026-03-02T12:00:00Z')
  const { user, sessionId } = await callApp([], {
    env: { ...env, CALLS_MINUTES: '30', CALLS_MINUTES_PER_DAY: '1' },
    clock,
  })
  const other = String((await user.post('/sessions', {})).body.sessionId)
  const pages = [(await call(user, sessionId)).page, (await call(user, other)).page]
  const said = () => pages.map((page) => page.of('ended').map(({ by }) => by))
  const active = async () =>
    ((await user.get('/calls')).body.calls as { callStatus: string }[]).map((one) => one.callStatus)
  await expect.poll(active, patient).toEqual(['active', 'active'])
  const told = () =>
    pages.map((page) => page.of('caption').filter(({ text }) => text.includes('minute')).length)
  await expect.poll(told, patient).toEqual([1, 1])
  await clock.advance(20_000)
  expect(said()).toEqual([[], []])
  await clock.advance(15_000)
  await expect.poll(said, patient).toEqual([['limit'], ['limit']])
})

import { expect, onTestFinished, test } from 'vitest'
import { scriptedModel, testApp, TestClock } from '#core/testing'
import { call, type Page } from '../../../test/support/call-page.ts'
import payments from '../../payments/index.ts'
import calls from '../index.ts'

const patient = { timeout: 30_000, interval: 50 }

/** An oracle whose turns and minutes have a price, and somebody who can pay. */
async function start(clock?: TestClock) {
  const app = await testApp({
    ...(clock && { clock }),
    plugins: [payments, calls],
    model: scriptedModel(['One.', 'Two.', 'Three.']),
    env: {
      NODE_ENV: 'test',
      CALLS_VOICE: 'none',
      CALLS_HEARING: 'typed',
      CALLS_PRICE_PER_MINUTE: '70',
      PAYMENTS_TURN_PRICE: '5000',
      PAYMENTS_FIRST_CREDIT: '1000000',
    },
  })
  onTestFinished(() => app.close())
  const user = await app.user()
  const { sessionId } = (await user.post('/sessions', {})).body
  const charges = async () => {
    const { body } = await user.get('/payments/charges')
    return body.charges.filter(({ status }: { status: string }) => status !== 'held')
  }
  const active = async (replaces?: string) => {
    const { page, callId } = await call(user, sessionId, { replaces })
    const state = async () => (await user.get(`/calls/${callId}`)).body.callStatus
    await expect.poll(state, patient).toBe('active')
    return { page, callId, state }
  }
  return { user, charges, active }
}

test('the minutes of a call are charged in its turns, each of them once', async () => {
  const { charges, active } = await start()
  const { page, state } = await active()
  for (const [nth, answer] of ['One.', 'Two.'].entries()) {
    page.send({ type: 'say', id: `say-${nth}`, text: 'Hello' })
    await expect.poll(() => page.said, patient).toContain(answer)
    await expect.poll(async () => (await charges()).length, patient).toBe(nth + 1)
  }
  const text = JSON.stringify(await charges())
  expect(text.match(/1 minute of a call/g)).toHaveLength(1)
  page.send({ type: 'bye' })
  await expect.poll(state, patient).toBe('ended')
})

test('a call that comes back goes on counting its minutes, and one without an answered word costs nothing', async () => {
  const clock = new TestClock('2026-03-02T12:00:00Z')
  const { charges, active } = await start(clock)
  const minutes = async () =>
    [...JSON.stringify(await charges()).matchAll(/(\d+) minutes? of a call/g)].map(([, count]) =>
      Number(count),
    )
  const say = async (page: Page, nth: number) => {
    page.send({ type: 'say', id: `say-${nth}`, text: 'Hello' })
    await expect.poll(async () => (await charges()).length, patient).toBe(nth)
  }
  const first = await active()
  await clock.advance('130s')
  await say(first.page, 1)
  expect(await minutes()).toEqual([3])
  await clock.advance('40s')
  await say(first.page, 2)
  // The third minute is under way, and charged.
  expect(await minutes()).toEqual([3])
  const second = await active(first.callId)
  await clock.advance('60s')
  await say(second.page, 3)
  expect((await minutes()).reduce((sum, one) => sum + one, 0)).toBe(4)
  second.page.send({ type: 'bye' })
  await expect.poll(second.state, patient).toBe('ended')
  const silent = await active()
  await clock.advance('300s')
  silent.page.send({ type: 'bye' })
  await expect.poll(silent.state, patient).toBe('ended')
  expect(await charges()).toHaveLength(3)
})

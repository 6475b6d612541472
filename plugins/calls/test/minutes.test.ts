import { expect, test } from 'vitest'
import { TestClock, type TestUser } from '#core/testing'
import { callApp } from '../../../test/support/call-app.ts'
import { call, Page } from '../../../test/support/call-page.ts'

const patient = { timeout: 45_000, interval: 50 }
const captionsAlone = { CALLS_VOICE: 'none', CALLS_HEARING: 'typed' }
const noon = '2026-03-02T12:00:00Z'
const daySeconds = 86_400

/** Asks for one more call, and is refused. */
const post = async (user: TestUser, sessionId: string) => {
  const sdp = await new Page().offer()
  return user.post('/calls', { sessionId, callType: 'audio', sdp })
}
const isActive = (user: TestUser, callId: string) =>
  expect
    .poll(async () => (await user.get(`/calls/${callId}`)).body.callStatus, patient)
    .toBe('active')
const told = (page: Page) => page.of('caption').filter(({ text }) => text.includes('One minute'))

/** Lets the time of day pass in steps, as a call's process beats between them. */
async function pass(clock: TestClock, seconds: number, step = 30) {
  for (let passed = 0; passed < seconds; passed += step)
    await clock.advance(Math.min(step, seconds - passed) * 1_000)
}

test('a call ends after its minutes, a minute before which it is told so', async () => {
  const clock = new TestClock(noon)
  const { user, sessionId } = await callApp([], {
    env: { ...captionsAlone, CALLS_MINUTES: '5', CALLS_IDLE_SECONDS: '3600' },
    clock,
  })
  const { page, callId } = await call(user, sessionId)
  await isActive(user, callId)
  await pass(clock, 230)
  expect(told(page)).toEqual([])
  await pass(clock, 15)
  await expect.poll(() => told(page).length, patient).toBe(1)
  expect(page.of('ended')).toEqual([])
  await pass(clock, 60)
  await expect.poll(() => page.of('ended'), patient).toEqual([{ type: 'ended', by: 'limit' }])
  const view = async () => (await user.get(`/calls/${callId}`)).body
  await expect.poll(view, patient).toMatchObject({ callStatus: 'ended', endedBy: 'limit' })
  expect((await view()).seconds).toBeGreaterThanOrEqual(300)
  // A call of five minutes spends five minutes, and no more: the next one is let in.
  expect((await user.get('/calls')).body.minutesLeft).toBe(114)
  const next = await call(user, sessionId)
  await isActive(user, next.callId)
})

test('the minutes of a day are spent also by calls of a process that is gone, until the day is over', async () => {
  const clock = new TestClock(noon)
  const { app, user, sessionId } = await callApp([], {
    env: { ...captionsAlone, CALLS_MINUTES: '4', CALLS_MINUTES_PER_DAY: '6' },
    clock,
  })
  const spend = async (seconds: number) => {
    const { page, callId } = await call(user, sessionId)
    await isActive(user, callId)
    await pass(clock, seconds)
    await user.delete(`/calls/${callId}`)
    await page.close()
  }
  const left = async () => (await user.get('/calls')).body.minutesLeft
  await spend(180)
  expect(await left()).toBe(3)
  await app.again()
  expect(await left()).toBe(3)
  // Less is left of the day than a call may last.
  const { page, callId } = await call(user, sessionId)
  await isActive(user, callId)
  await pass(clock, 190)
  await expect.poll(() => page.of('ended'), patient).toEqual([{ type: 'ended', by: 'limit' }])
  await expect
    .poll(async () => (await user.get(`/calls/${callId}`)).body.endedBy, patient)
    .toBe('limit')
  await app.again()
  const refused = await post(user, sessionId)
  expect(refused).toMatchObject({
    status: 429,
    body: {
      code: 'CALLS_MINUTES_SPENT',
      message: 'The 6 minutes of today are spent.',
      hint: 'Call again after 00:00 UTC, or write.',
    },
  })
  const untilMidnight = daySeconds - ((clock.now().getTime() / 1_000) % daySeconds)
  expect(refused.headers.get('retry-after')).toBe(String(Math.ceil(untilMidnight)))
  expect(await left()).toBe(0)
  // Another person has minutes of their own.
  const other = await app.user()
  expect((await other.get('/calls')).body.minutesLeft).toBe(6)
  await clock.set('2026-03-03T00:00:01Z')
  expect(await left()).toBe(6)
  expect((await post(user, sessionId)).status).toBe(201)
})

test('a call that goes on behind a restart has the minutes that are left of it', async () => {
  const clock = new TestClock(noon)
  const { app, user, sessionId } = await callApp([], {
    env: { ...captionsAlone, CALLS_MINUTES: '5', CALLS_IDLE_SECONDS: '3600' },
    clock,
  })
  const first = await call(user, sessionId)
  await isActive(user, first.callId)
  await pass(clock, 180)
  await app.again()
  const second = await call(user, sessionId, { replaces: first.callId })
  await isActive(user, second.callId)
  await pass(clock, 75)
  await expect.poll(() => told(second.page).length, patient).toBe(1)
  expect(second.page.of('ended')).toEqual([])
  await pass(clock, 60)
  await expect
    .poll(() => second.page.of('ended'), patient)
    .toEqual([{ type: 'ended', by: 'limit' }])
})

test('a place too many is refused with its code, the call that has it, and when to come again', async () => {
  const { app, user, sessionId } = await callApp([], { env: { ...captionsAlone, CALLS_MAX: '1' } })
  const { callId } = await call(user, sessionId)
  const { sessionId: another } = (await user.post('/sessions', {})).body
  const own = await post(user, another)
  // One process has one place, and this person has it: the process is asked first.
  expect(own).toMatchObject({ status: 503, body: { code: 'CALLS_FULL' } })
  const stranger = await app.user()
  const theirs = (await stranger.post('/sessions', {})).body.sessionId
  const full = await post(stranger, theirs)
  expect(full).toMatchObject({
    status: 503,
    body: { code: 'CALLS_FULL', hint: 'Try again in a minute, or write.' },
  })
  expect(full.headers.get('retry-after')).toBe('60')
  await user.delete(`/calls/${callId}`)
  await expect.poll(async () => (await post(stranger, theirs)).status, patient).toBe(201)

  const roomy = await callApp([], { env: { ...captionsAlone, CALLS_PER_USER: '1' } })
  const begun = await call(roomy.user, roomy.sessionId)
  const { sessionId: second } = (await roomy.user.post('/sessions', {})).body
  expect(await post(roomy.user, second)).toMatchObject({
    status: 409,
    body: {
      code: 'CALL_ACTIVE',
      hint: `Go on there, or end it with DELETE /calls/${begun.callId}.`,
      details: { callId: begun.callId },
    },
  })
})

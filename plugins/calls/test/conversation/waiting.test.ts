import { expect, test } from 'vitest'
import { call as calling, TestClock } from '#core/testing'
import { asksFirst } from '../../../../test/support/asks-first.ts'
import { callApp } from '../../../../test/support/call-app.ts'
import { call } from '../../../../test/support/call-page.ts'
import payments from '../../../payments/index.ts'

const patient = { timeout: 45_000, interval: 20 }

test('a question waits for an hour: nobody is asked whether they are there, and the decision is heard', async () => {
  const { plugin, seen } = asksFirst()
  const clock = new TestClock()
  const { user, sessionId, app } = await callApp([calling('pay'), 'It is paid.'], {
    clock,
    plugins: [plugin],
    env: { CALLS_MINUTES: '120', CALLS_MINUTES_PER_DAY: '1440', CALLS_IDLE_SECONDS: '10' },
  })
  const { page, callId } = await call(user, sessionId)
  page.send({ type: 'say', id: 'a', text: 'Pay the rent.' })
  const state = () => page.of('state').at(-1)?.state
  await expect.poll(state, patient).toBe('waiting')
  const runId = page.of('approval')[0]?.runId ?? ''
  // The hour of the oracle's clock, and on the clock of the machine more than the silence that ends a call.
  await app.clock.advance('1h')
  const before = page.levels.length
  await expect.poll(() => page.levels.length - before, patient).toBeGreaterThan(13_000 / 20)
  expect(state()).toBe('waiting')
  expect(page.said).not.toContain('still there')
  expect((await user.get(`/calls/${callId}`)).body.callStatus).toBe('active')
  const { status } = await user.post(`/runs/${runId}/resume`, { decision: 'approve' })
  expect(status).toBe(200)
  await expect.poll(() => page.said.endsWith('It is paid.'), patient).toBe(true)
  expect(seen.paid).toBe(1)
}, 120_000)

test('who has nothing to pay with hears so, and the call goes on', async () => {
  const { user, sessionId, model } = await callApp(['Never said.'], {
    plugins: [payments],
    env: { PAYMENTS_TURN_PRICE: '5000', PAYMENTS_FIRST_CREDIT: '0' },
  })
  const { page, callId } = await call(user, sessionId)
  page.send({ type: 'say', id: 'a', text: 'Hello' })
  await expect.poll(() => page.of('notice').length, patient).toBe(1)
  const [{ code, text } = { code: '', text: '' }] = page.of('notice')
  expect(code).toBe('PAYMENT_REQUIRED')
  expect(text).not.toMatch(/at .*\.ts|Error:/)
  // It is said as it is shown.
  await expect.poll(() => page.said, patient).toBe(text)
  await expect.poll(() => page.beeps, patient).toBeGreaterThan(3)
  expect(model.requests).toHaveLength(0)
  await expect.poll(() => page.of('state').at(-1)?.state, patient).toBe('listening')
  expect((await user.get(`/calls/${callId}`)).body.callStatus).toBe('active')
}, 120_000)

import { expect, onTestFinished, test } from 'vitest'
import { scriptedModel, testApp } from '#core/testing'
import { call } from '../../../test/support/call-page.ts'
import payments from '../../payments/index.ts'
import calls from '../index.ts'

const patient = { timeout: 30_000, interval: 50 }

test('the minutes of a call are charged in its turns, each of them once', async () => {
  const app = await testApp({
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
  const { page, callId } = await call(user, sessionId)
  const state = async () => (await user.get(`/calls/${callId}`)).body.callStatus
  await expect.poll(state, patient).toBe('active')
  const charges = async () => {
    const { body } = await user.get('/payments/charges')
    return body.charges.filter(({ status }: { status: string }) => status !== 'held')
  }
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

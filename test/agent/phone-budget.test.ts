import { expect, onTestFinished, test } from 'vitest'
import { scriptedModel, testApp } from '#core/testing'
import usage from '../../plugins/usage/index.ts'
import ussd from '../../plugins/ussd/index.ts'
import { Phone } from '../../plugins/ussd/phone.ts'

const patient = { timeout: 60_000, interval: 50 }
const refusal = "Today's allowance of 1,000 tokens is used up; it begins anew at 00:00 UTC."
const spent = { inputTokens: 900, outputTokens: 100 }
const talker = () => scriptedModel([0, 1].map((n) => ({ text: `Answer ${n}.`, usage: spent })))

test('a phone shows why there is no answer', async () => {
  const app = await testApp({
    plugins: [usage, ussd],
    model: talker(),
    env: { USAGE_TOKENS_PER_USER_PER_DAY: '1000', PIN_ENCRYPTION_KEY: 'ab'.repeat(32) },
  })
  onTestFinished(() => app.close())
  const phone = new Phone(
    '+254711000111',
    async (request) => (await app.post('/api/ussd', request)).body,
  )
  /** Asks, and types 1 as long as the screen says to wait: the machine may be busy. */
  const ask = async (question: string) => {
    let screen = await phone.type(question)
    await expect
      .poll(async () => {
        if (screen.startsWith('CON Still working')) screen = await phone.type('1')
        return screen
      }, patient)
      .not.toMatch(/^CON Still working/)
    return screen
  }
  await phone.dial()
  await phone.type('3')
  expect(await ask('What is there?')).toBe('CON Answer 0.\n1. Ask again\n0. Back')
  await phone.type('1')
  expect(await ask('And now?')).toBe(`CON ${refusal}\n1. Ask again\n0. Back`)
})

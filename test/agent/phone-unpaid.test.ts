import { expect, onTestFinished, test } from 'vitest'
import { scriptedModel, testApp } from '#core/testing'
import payments from '../../plugins/payments/index.ts'
import ussd from '../../plugins/ussd/index.ts'
import { Phone } from '../../plugins/ussd/phone.ts'

test('a phone shows the sentence of a 402 in place of "ask again"', async () => {
  const app = await testApp({
    plugins: [ussd, payments],
    model: scriptedModel([]),
    env: {
      PIN_ENCRYPTION_KEY: 'ab'.repeat(32),
      USSD_RATE_LIMIT_PER_MINUTE: '1000000',
      PAYMENTS_TURN_PRICE: '5000',
    },
  })
  onTestFinished(() => app.close())
  const phone = new Phone(
    '+254711000111',
    async (request) => (await app.post('/api/ussd', request)).body,
  )
  await phone.dial()
  await phone.type('3')
  let screen = await phone.type('Will it rain?')
  while (/^CON Still working/.test(screen)) screen = await phone.type('1')
  expect(screen).toMatch(/^CON Payment needed: 0\.05 DEV for 1 claim\./)
  expect(screen).not.toContain('Please ask again')
})

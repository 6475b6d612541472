import { expect, onTestFinished, test } from 'vitest'
import { definePlugin, RuntimeError } from '#core'
import { scriptedModel, testApp } from '#core/testing'
import { lookedThrough, sentence } from '../support/nothing-kept.ts'
import payments from '../../plugins/payments/index.ts'
import ussd from '../../plugins/ussd/index.ts'
import { Phone } from '../../plugins/ussd/phone.ts'

const till = definePlugin({
  name: 'till',
  summary: 'Wants money.',
  runs: {
    admit() {
      throw new RuntimeError('PAYMENT_REQUIRED', 'Payment needed: 0.05 DEV for 1 claim.', {
        details: { claims: ['c1'], outstandingClaims: ['c1'] },
      })
    },
  },
})

test.each([
  ['another plugin of the same hook', till, {}],
  ['payments', payments, { PAYMENTS_TURN_PRICE: '5000' }],
])('who has to pay first reads how much, in place of "ask again": %s', async (_, plugin, price) => {
  const app = await testApp({
    plugins: [ussd, plugin, ...(plugin === payments ? [lookedThrough(() => app.log)] : [])],
    model: scriptedModel([]),
    env: { PIN_ENCRYPTION_KEY: 'ab'.repeat(32), USSD_RATE_LIMIT_PER_MINUTE: '1000000', ...price },
  })
  onTestFinished(() => app.close())
  const phone = new Phone(
    '+254711000111',
    async (request) => (await app.post('/api/ussd', request)).body,
  )
  await phone.dial()
  await phone.type('3')
  let screen = await phone.type(`Will it rain? ${sentence}`)
  while (/^CON Still working/.test(screen)) screen = await phone.type('1')
  expect(screen).toMatch(/^CON Payment needed: 0\.05 DEV for 1 claim\./)
  expect(screen).not.toContain('Please ask again')
})

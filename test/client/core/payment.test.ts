import { describe, expect, it } from 'vitest'
import { definePlugin, RuntimeError } from '#core'
import { scriptedModel } from '#core/testing'
import { testOracle } from '../oracle.ts'
import { chatOf, plain } from './chats.ts'

describe('a turn that must be paid for', () => {
  const paywall = (paid: () => boolean, delayMs = 0) =>
    definePlugin({
      name: 'paywall',
      summary: 'Wants to be paid.',
      visibility: 'always',
      middleware: {
        async turn(_, next) {
          await new Promise((resolve) => setTimeout(resolve, delayMs))
          if (!paid())
            throw new RuntimeError('PAYMENT_REQUIRED', 'Pay first.', {
              details: { claims: ['claim-1', 'claim-2'] },
            })
          return next()
        },
      },
    })

  it.each([
    ['at the door', 0],
    ['in the stream', 400],
  ])(
    '%s asks the app to pay, keeps the message and is ready for it to be said again',
    async (_, delayMs) => {
      let paid = false
      const model = scriptedModel(['Thank you.'])
      await using oracle = await testOracle({ plugins: [paywall(() => paid, delayMs)], model })
      const chat = await chatOf(oracle)
      const asked: string[][] = []
      const use = { onPaymentRequiredError: (claims: string[]) => void asked.push(claims) }
      await chat.sendMessage('Hi', use)
      expect(asked).toEqual([['claim-1', 'claim-2']])
      expect(chat.getSnapshot()).toMatchObject({
        status: 'ready',
        error: null,
        sendMessageError: { code: 'payment_required', claimIds: ['claim-1', 'claim-2'] },
      })
      expect(plain(chat).map(({ content }) => content)).toEqual(['Hi'])
      paid = true
      await chat.sendMessage('Hi', use)
      expect(plain(chat).map(({ content }) => content)).toEqual(['Hi', 'Thank you.'])
      expect(asked).toHaveLength(1)
    },
  )
})

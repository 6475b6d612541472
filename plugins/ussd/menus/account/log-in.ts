import { z } from 'zod'
import type { Accounts } from '../../accounts/accounts.ts'
import { defineScreens, Refusal } from '../../screens/menu.ts'
import { pinSchema } from './pin.ts'

/** The screens that log a customer in, and the first screen of who is logged in. */
export const logInScreens = (accounts: Pick<Accounts, 'logIn'>) =>
  defineScreens({
    customerId: {
      title: 'logIn',
      ask: 'askCustomerId',
      input: z.string().regex(/^[0-9]{9}$/, 'customerIdWrong'),
      effect: 'read',
      next(customerId, { memory }) {
        memory.customerId = customerId
        return 'logInPin'
      },
    },
    logInPin: {
      ask: 'askLogInPin',
      input: pinSchema,
      secret: true,
      async next(digits, ctx) {
        const found = await accounts.logIn(ctx.memory.customerId ?? '', ctx.phoneNumber, digits)
        if (found === 'wrong') throw new Refusal('logInWrong')
        if ('lockedUntil' in found) throw lockedRefusal(found.lockedUntil - Date.now())
        ctx.account = found.account
        ctx.memory.name = found.name
        return 'home'
      },
    },
    home: {
      text: 'home',
      values: ({ memory }) => ({ name: memory.name ?? '' }),
      // The longest name in letters of the GSM alphabet; a name in other letters may need a second page.
      sample: { name: 'M'.repeat(60) },
      long: true,
      options: { '1': 'balance', '2': 'language' },
    },
  })

/** The refusal of a locked account, which gives the wait in minutes, or from ninety minutes on in hours, rounded up. */
export function lockedRefusal(ms: number): Refusal {
  const minutes = Math.max(1, Math.ceil(ms / 60_000))
  if (minutes === 1) return new Refusal('lockedMinute')
  if (minutes < 90) return new Refusal('lockedMinutes', { n: String(minutes) })
  return new Refusal('lockedHours', { n: String(Math.ceil(minutes / 60)) })
}

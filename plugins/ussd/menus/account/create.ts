import { z } from 'zod'
import { type Accounts, newCustomerId } from '../../accounts/accounts.ts'
import { type Pins, weakness } from '../../accounts/pins.ts'
import { defineScreens, Refusal } from '../../screens/menu.ts'
import { pinSchema } from './pin.ts'

const skip = '1'
const emailSchema = z.union(
  [z.literal(skip), z.email('emailWrong').max(100, 'emailWrong')],
  'emailWrong',
)

/**
 * The screens that create an account: a name, an e-mail address that may be skipped, a PIN twice. The menu remembers the
 * first PIN only sealed, and forgets it once the account is there.
 */
export const createScreens = (accounts: Accounts, pins: Pins) =>
  defineScreens({
    name: {
      title: 'create',
      ask: 'askName',
      input: z.string().min(2, 'nameWrong').max(60, 'nameWrong'),
      effect: 'read',
      next(name, { memory }) {
        memory.name = name
        return 'email'
      },
    },
    email: {
      ask: 'askEmail',
      input: emailSchema,
      effect: 'read',
      next(address, { memory }) {
        if (address === skip) delete memory.email
        else memory.email = address
        return 'pin'
      },
    },
    pin: {
      ask: 'askPin',
      input: pinSchema,
      secret: true,
      effect: 'read',
      async next(digits, { memory, phoneNumber }) {
        const reason = weakness(digits, phoneNumber)
        if (reason) throw new Refusal(reason)
        const customerId = newCustomerId()
        memory.sealed = await pins.seal(digits, customerId)
        memory.customerId = customerId
        return 'pinAgain'
      },
    },
    pinAgain: {
      ask: 'askPinAgain',
      input: pinSchema,
      secret: true,
      async next(digits, ctx) {
        const { name = '', email, sealed = '', customerId = '' } = ctx.memory
        const { right } = await pins.verify(digits, sealed, customerId)
        if (!right) throw new Refusal('pinsDiffer')
        const phone = ctx.phoneNumber
        ctx.account = await accounts.create({ customerId, name, email, phone, pin: sealed })
        delete ctx.memory.sealed
        return 'created'
      },
    },
    created: {
      text: 'created',
      values: ({ memory }) => ({ id: memory.customerId ?? '' }),
      sample: { id: '123456789' },
    },
  })

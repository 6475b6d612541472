import { z } from 'zod'
import { type Accounts, newCustomerId } from '../accounts/accounts.ts'
import { isLanguage, languages } from '../screens/catalogue.ts'
import { defineMenu, type Menu, Refusal } from '../screens/menu.ts'
import { type Pins, weakness } from '../accounts/pins.ts'
import { accountTexts } from './account-texts.ts'

const pin = z.string().regex(/^[0-9]{5}$/, 'pinDigits')
const skip = '1'
const email = z.union([z.literal(skip), z.email('emailWrong').max(100, 'emailWrong')], 'emailWrong')

/** Says in whole minutes, or from ninety on in whole hours, when to try again: never too early. */
function lockedRefusal(ms: number): Refusal {
  const minutes = Math.max(1, Math.ceil(ms / 60_000))
  if (minutes === 1) return new Refusal('lockedMinute')
  if (minutes < 90) return new Refusal('lockedMinutes', { n: String(minutes) })
  return new Refusal('lockedHours', { n: String(Math.ceil(minutes / 60)) })
}

/**
 * Accounts over the phone: create one, log in, choose a language, see the demonstration's balance. The function is as
 * long as the menu has screens: they are data in one table, in the order in which a caller meets them.
 */
export function accountMenu(accounts: Accounts, pins: Pins): Menu {
  return defineMenu({
    name: 'account',
    title: 'title',
    start: 'menu',
    texts: accountTexts,
    screens: {
      menu: {
        text: 'menu',
        options: { '1': 'name', '2': 'customerId', '3': 'language', '4': 'balance' },
      },

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
        input: email,
        effect: 'read',
        next(address, { memory }) {
          if (address === skip) delete memory.email
          else memory.email = address
          return 'pin'
        },
      },
      pin: {
        ask: 'askPin',
        input: pin,
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
        input: pin,
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
        input: pin,
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
        // The longest name there is, in letters of the GSM alphabet; others run over to a second page.
        sample: { name: 'M'.repeat(60) },
        long: true,
        options: { '1': 'balance', '2': 'language' },
      },

      language: {
        title: 'language',
        ask: 'askLanguage',
        input: z.enum(['1', '2', '3'], 'wrongOption'),
        effect: 'read',
        next(number, ctx) {
          const language = languages[Number(number) - 1] ?? ''
          if (isLanguage(language)) ctx.language = language
          return 'languageSet'
        },
      },
      languageSet: { text: 'languageSet' },

      balance: {
        title: 'balance',
        text: 'balanceText',
        values: ({ account, t }) => ({
          balance: account ? t('balanceOf', { id: account.customerId }) : t('logInFirst'),
        }),
        sample: { balance: 'x'.repeat(150) },
      },
    },
  })
}

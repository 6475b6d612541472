import { z } from 'zod'
import type { Accounts } from '../accounts/accounts.ts'
import type { Catalogues } from '../screens/catalogue.ts'
import { defineMenu, type Menu, type ScreenContext } from '../screens/menu.ts'
import type { Answer, Oracle, Owner } from '../oracle/oracle.ts'

const screenOf: Record<Answer['status'], string> = {
  none: 'question',
  working: 'waiting',
  answered: 'answer',
  consent: 'consent',
  lost: 'lost',
}

/** The texts of the menu that asks the oracle. */
export const askTexts: Catalogues = {
  en: {
    title: 'Ask the oracle',
    question: 'Your question:',
    tooShort: 'Please type a question.',
    waiting: 'Still working. You can also hang up and dial again later.\n1. Continue',
    answer: '{answer}',
    again: 'Ask again',
    consent: 'That needs a consent that cannot be given by phone. It was not done.',
    lost: 'There is no answer this time. Please ask again.',
  },
  sw: {
    title: 'Uliza oracle',
    question: 'Swali lako:',
    tooShort: 'Tafadhali andika swali.',
    waiting: 'Bado inaendelea. Unaweza kukata simu na kupiga tena baadaye.\n1. Endelea',
    answer: '{answer}',
    again: 'Uliza tena',
    consent: 'Hilo linahitaji idhini isiyoweza kutolewa kwa simu. Halikufanyika.',
    lost: 'Hakuna jibu safari hii. Tafadhali uliza tena.',
  },
  fr: {
    title: "Demander à l'oracle",
    question: 'Votre question :',
    tooShort: 'Veuillez écrire une question.',
    waiting: 'Toujours en cours. Vous pouvez raccrocher et rappeler plus tard.\n1. Continuer',
    answer: '{answer}',
    again: 'Autre question',
    consent: "Cela demande un accord qu'on ne peut donner par téléphone. Cela n'a pas été fait.",
    lost: 'Pas de réponse cette fois. Veuillez redemander.',
  },
}

/** The menu that asks the agent. An answer that comes after the call waits behind the same entry for the next call. */
export function askMenu(oracle: Oracle, accounts: Accounts): Menu {
  const ownerOf = async ({ account, phoneNumber, language }: ScreenContext): Promise<Owner> =>
    account
      ? { did: account.did, isGuest: false }
      : { did: await accounts.guestDid(phoneNumber, language), isGuest: true }

  return defineMenu({
    name: 'ask',
    title: 'title',
    texts: askTexts,
    start: async (ctx) => screenOf[(await oracle.answer(await ownerOf(ctx))).status],
    screens: {
      question: {
        title: 'again',
        ask: 'question',
        input: z.string().min(2, 'tooShort'),
        async next(question, ctx) {
          const owner = await ownerOf(ctx)
          await oracle.ask(owner, question)
          return screenOf[(await oracle.settled(owner)).status]
        },
      },
      waiting: {
        ask: 'waiting',
        input: z.string(),
        effect: 'read',
        next: async (_, ctx) => screenOf[(await oracle.settled(await ownerOf(ctx))).status],
      },
      answer: {
        text: 'answer',
        long: true,
        async values(ctx) {
          const answer = await oracle.answer(await ownerOf(ctx))
          return { answer: answer.status === 'answered' ? answer.text : ctx.t('lost') }
        },
        sample: { answer: 'word '.repeat(100) },
        options: { '1': 'question' },
      },
      consent: { text: 'consent', options: { '1': 'question' } },
      lost: { text: 'lost', options: { '1': 'question' } },
    },
  })
}

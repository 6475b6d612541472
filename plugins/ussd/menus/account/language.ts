import { z } from 'zod'
import { isLanguage, languages } from '../../screens/catalogue.ts'
import { defineScreens } from '../../screens/menu.ts'

/** The screens that choose the language of this call and of later ones. */
export const languageScreens = defineScreens({
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
})

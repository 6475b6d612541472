/** The languages of the screens; the first is the default. */
export const languages = ['en', 'sw', 'fr'] as const
/** A language of the screens. */
export type Language = (typeof languages)[number]

/** Sentences by their keys. `{name}` in a sentence is a placeholder for a value. */
export type Catalogue = Readonly<Record<string, string>>
/** A catalogue for each language. */
export type Catalogues = Readonly<Record<Language, Catalogue>>
/** The values for the placeholders of a sentence, by their names. */
export type Values = Readonly<Record<string, string>>

/** Whether a text is the name of a language of the screens. */
export function isLanguage(value: string): value is Language {
  return languages.some((language) => language === value)
}

/** Replaces the placeholders of a sentence by values. A placeholder without a value stays, so that testers notice it. */
export function fill(sentence: string, values: Values = {}): string {
  return sentence.replace(/\{(\w+)\}/g, (place, name: string) => values[name] ?? place)
}

/** The gateway's own texts, which appear on the screens of every menu. */
export const common: Catalogues = {
  en: {
    welcome: 'Welcome to {name}',
    serviceName: 'the oracle',
    exit: 'Exit',
    back: 'Back',
    more: 'More',
    goodbye: 'Thank you. Goodbye.',
    wrongOption: 'Not an option.',
    wrongInput: 'Not valid.',
    working: 'Still working.',
    continue: 'Continue',
    interrupted: 'That was interrupted. Please check before you try again.',
    resume: 'You left this unfinished.',
    startAgain: 'Start again',
  },
  sw: {
    welcome: 'Karibu {name}',
    serviceName: 'kwenye oracle',
    exit: 'Ondoka',
    back: 'Rudi',
    more: 'Zaidi',
    goodbye: 'Asante. Kwaheri.',
    wrongOption: 'Chaguo hilo halipo.',
    wrongInput: 'Si sahihi.',
    working: 'Bado inaendelea.',
    continue: 'Endelea',
    interrupted: 'Imekatizwa. Tafadhali hakikisha kabla ya kujaribu tena.',
    resume: 'Hukumaliza sehemu hii.',
    startAgain: 'Anza upya',
  },
  fr: {
    welcome: 'Bienvenue chez {name}',
    serviceName: "l'oracle",
    exit: 'Quitter',
    back: 'Retour',
    more: 'Suite',
    goodbye: 'Merci. Au revoir.',
    wrongOption: 'Choix inconnu.',
    wrongInput: 'Non valable.',
    working: 'Toujours en cours.',
    continue: 'Continuer',
    interrupted: 'Interrompu. Veuillez verifier avant de recommencer.',
    resume: "Vous n'aviez pas fini.",
    startAgain: 'Recommencer',
  },
}

import type { ViewWords } from 'oracle-runtime-client/view'

const english: ViewWords = {
  asking: 'Asking…',
  readAgain: 'Read again',
  tryAgain: 'Try again',
  notThere: 'Not there',
}

const languages: Readonly<Record<string, ViewWords>> = {
  sw: {
    asking: 'Inauliza…',
    readAgain: 'Soma tena',
    tryAgain: 'Jaribu tena',
    notThere: 'Haipo',
  },
  fr: {
    asking: 'Un instant…',
    readAgain: 'Relire',
    tryAgain: 'Réessayer',
    notThere: 'Absente',
  },
}

/** The words that the page and its views share, in the language of the browser, else in English. */
export const words: ViewWords = languages[navigator.language.slice(0, 2)] ?? english

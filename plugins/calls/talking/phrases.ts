/** What the agent says by itself, without a model. */
export interface Phrases {
  readonly moment: string
  readonly stillThere: string
  readonly goodbye: string
  readonly minuteLeft: string
  readonly cannotHear: string
  /** Asks for a tool that does not ask by a sentence of its own. */
  readonly wish: (tool: string) => string
  readonly decide: string
  readonly decideFirst: string
  readonly rejected: string
  /** Words that are no interruption: a listener says them. */
  readonly nods: ReadonlySet<string>
  /** Words that stop the agent and ask nothing. */
  readonly stops: ReadonlySet<string>
  /** Words that refuse what is asked. */
  readonly refusals: ReadonlySet<string>
  /** Words after which somebody goes on speaking. */
  readonly goesOn: ReadonlySet<string>
}

const set = (words: string) => new Set(words.split(','))
/** How a listener sounds, as recognizers write it, in whatever language. */
const sounds = 'mhm,mhmm,mm,mmm,mmh,hm,hmm,uh huh,uhuh,aha,ah,oh,ok,okay,ja'

const english: Phrases = {
  moment: 'One moment.',
  stillThere: 'Are you still there?',
  goodbye: 'I hang up now. Goodbye.',
  minuteLeft: 'One minute is left of this call.',
  cannotHear: 'I can hear you but cannot understand speech right now; please type.',
  wish: (tool) => `I would like to use ${tool}.`,
  decide: 'Please decide on the page.',
  decideFirst: 'Please decide on the page first.',
  rejected: 'All right, I leave it.',
  nods: set(
    `${sounds},yes,yeah,yep,yup,right,all right,alright,sure,of course,i see,good,fine,exactly,got it`,
  ),
  stops: set('stop,be quiet,quiet,wait,hold on,enough'),
  refusals: set("no,nope,no thanks,no thank you,do not,don't"),
  goesOn: set('and,or,but,so,um,uh,because,then'),
}
const french: Phrases = {
  moment: 'Un instant.',
  stillThere: 'Êtes-vous toujours là ?',
  goodbye: 'Je raccroche. Au revoir.',
  minuteLeft: 'Il reste une minute à cet appel.',
  cannotHear:
    'Je vous entends mais ne comprends pas la parole en ce moment ; écrivez, s’il vous plaît.',
  wish: (tool) => `Je voudrais utiliser ${tool}.`,
  decide: 'Décidez sur la page, s’il vous plaît.',
  decideFirst: 'Décidez d’abord sur la page, s’il vous plaît.',
  rejected: 'Bien, je ne le fais pas.',
  nods: set(
    `${sounds},hum,oui,ouais,d'accord,bien,très bien,bien sûr,voilà,je vois,exact,exactement,c'est ça`,
  ),
  stops: set('stop,arrête,arrêtez,attendez,attends,silence'),
  refusals: set('non,non merci'),
  goesOn: set('et,ou,mais,donc,euh,parce que,puis'),
}
const swahili: Phrases = {
  moment: 'Subiri kidogo.',
  stillThere: 'Bado uko hapo?',
  goodbye: 'Nakata simu sasa. Kwaheri.',
  minuteLeft: 'Dakika moja imebaki katika simu hii.',
  cannotHear: 'Ninakusikia lakini sielewi maneno kwa sasa; tafadhali andika.',
  wish: (tool) => `Ningependa kutumia ${tool}.`,
  decide: 'Tafadhali amua kwenye ukurasa.',
  decideFirst: 'Tafadhali amua kwanza kwenye ukurasa.',
  rejected: 'Sawa, naacha.',
  nods: set(`${sounds},ndiyo,ndio,sawa,sawasawa,ee,eeh,ehe,naam,haya,vizuri,kweli,naelewa`),
  stops: set('acha,simama,subiri,nyamaza'),
  refusals: set('hapana,la'),
  goesOn: set('na,au,lakini,kwa sababu,halafu'),
}

/** The phrases of a language; English where there are none. */
export const phrasesIn = (language: string | undefined): Phrases =>
  ({ fr: french, sw: swahili })[(language ?? '').slice(0, 2).toLowerCase()] ?? english

/** Words as the lists have them: in small letters, without marks at their ends. */
export const wordsOf = (text: string): string =>
  text
    .toLowerCase()
    .replace(/^[\p{P}\s]+|[\p{P}\s]+$/gu, '')
    .replace(/\s+/g, ' ')

/** Of how many words a phrase of a list may be, the longest first. */
const lengths = [3, 2, 1]

/** How many words are no phrases of a list, counted from the first one that is none. */
function afterPhrases(list: ReadonlySet<string>, words: string): readonly string[] {
  const all = words
    .replaceAll('’', "'")
    .replace(/[^\p{L}\p{M}\p{N}']+/gu, ' ')
    .trim()
    .split(' ')
  for (let at = 0; at < all.length;) {
    const length = lengths.find((count) => list.has(all.slice(at, at + count).join(' ')))
    if (length === undefined) return all.slice(at)
    at += length
  }
  return []
}

/** Whether words are phrases of a list and nothing else, one or several: "mhm, mhm". */
export const saysOnly = (list: ReadonlySet<string>, words: string): boolean =>
  afterPhrases(list, words).length === 0

/** Whether words are phrases of a list, as far as they are understood: "uh" becomes "uh-huh". */
export function mayBecome(list: ReadonlySet<string>, words: string): boolean {
  const rest = afterPhrases(list, words).join(' ')
  return [...list].some((phrase) => phrase.startsWith(rest))
}

/** Whether a text ends in a question. */
export const isQuestion = (text: string): boolean => /[?？؟]\W*$/u.test(text)

/** How many characters are taken of what somebody says at once. */
const longestWords = 8_000

/** What somebody said, as a message: without control characters, and not longer than a message of a call may be. */
export const plainWords = (said: string): string =>
  said
    .slice(0, longestWords)
    .replace(/\p{Cc}+/gu, ' ')
    .trim()

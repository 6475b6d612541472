/**
 * Words that do not tell what a sentence is about: words of grammar and courtesy, and words that every description of a tool
 * has.
 */
const empty = new Set(
  `a an the this that these those it its he she they them their there here i me my mine we us our you
  your yours yourself and or but nor so if then than as of in on at to for from by with without into
  about over under between per via is are was were be been being am do does did done has have had can
  could will would shall should may might must not no yes what which who whom whose when where why
  how please thanks thank hello hi hey ok okay just also too very really now right today some any all
  each every more most much many other same own let want wants wanted need needs like likes tell give
  gives show get gets got make makes know say says said ask asks asked asking use uses used using user
  users agent tool tools plugin plugins call calls called name named new one two first last next it
  out up down off again only such still good great data info information thing things`.split(/\s+/),
)

/** The words of a text in lower case: `get_currentRate` is get, current, rate. Accents are dropped. */
export function words(text: string): string[] {
  const plain = text.normalize('NFKD').replace(/\p{M}/gu, '')
  const apart = plain.replace(/(\p{Ll}|\p{N})(\p{Lu})/gu, '$1 $2')
  return apart.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []
}

/** A word without its endings, so that walk, walks and walking have the same stem. */
export function stem(word: string): string {
  if (word.length < 4) return word
  const singular = word
    .replace(/ies$/, 'y')
    .replace(/(ss|x|ch|sh)es$/, '$1')
    .replace(/([^su])s$/, '$1')
  const bare = singular.length > 5 ? singular.replace(/(ing|ed|ion|or|er)$/, '') : singular
  return bare.length > 3 ? bare.replace(/e$/, '') : bare
}

/** The stems of the words of a text, without the `empty` words and without numbers. */
export function meaning(text: string): string[] {
  return words(text)
    .filter((word) => !empty.has(word) && !/^\d+$/.test(word))
    .map(stem)
}

/** How many words of a question the model looks for in descriptions. */
export const mostWords = 64
/** How many characters of a description the model reads. */
export const mostDescription = 1000

/** A set of stems in which to look up others. Related stems begin with the same five letters. */
export class Stems {
  readonly #all: ReadonlySet<string>
  readonly #related = new Map<string, string[]>()

  constructor(stems: readonly string[]) {
    this.#all = new Set(stems)
    for (const stem of this.#all) {
      const begin = stem.slice(0, 5)
      const others = this.#related.get(begin)
      if (others) others.push(stem)
      else this.#related.set(begin, [stem])
    }
  }

  /** How alike a stem is to the stem of this set that is most like it, from 0 to 1. */
  likeness(stem: string): number {
    if (this.#all.has(stem)) return 1
    const related = this.#related.get(stem.slice(0, 5)) ?? []
    return related.reduce((most, one) => Math.max(most, likeness(one, stem)), 0)
  }
}

/** How alike two stems are, from 0 to 1. Long stems that begin with the same letters count as related. */
function likeness(a: string, b: string): number {
  if (a === b) return 1
  const shorter = Math.min(a.length, b.length)
  let same = 0
  while (same < shorter && a[same] === b[same]) same++
  return same >= 5 && same / shorter >= 0.8 ? 0.6 : 0
}

const kinds = {
  read:
    'get list show tell give find search read look lookup query check fetch view see ' +
    'what which who where when how is are current describe display',
  create:
    'create add new make register write save remember note put insert book order submit start instantiate record open',
  change: 'set update change edit rename call prefer switch adjust modify turn',
  remove: 'delete remove clear forget cancel drop unset erase close',
  send: 'send post notify email message share publish forward',
  compute: 'calculate compute estimate determine size convert count plan design translate',
} as const

type Deed = keyof typeof kinds

const deedOf = new Map<string, Deed>(
  Object.entries(kinds).flatMap(([kind, list]) =>
    list.split(' ').map((word): [string, Deed] => [word, kind as Deed]),
  ),
)

const fillers = new Set(
  'please can could would will you i we to want need like let us me just now also kindly'.split(
    ' ',
  ),
)

/** Whether a clause begins with a verb or a question word, so that it is a request of its own. */
export function beginsARequest(clause: string): boolean {
  const first = words(clause).find((word) => !fillers.has(word))
  return first !== undefined && deedOf.has(first)
}

/** The kind of deed that the first verb of a text names; undefined when no word names one. */
export function deed(text: string): Deed | undefined {
  for (const word of words(text)) {
    const found = deedOf.get(word)
    if (found) return found
  }
  return undefined
}

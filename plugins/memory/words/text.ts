/** A text as two mentions are compared: one form of each letter, small, without accents, with single spaces. */
export function plain(text: string): string {
  return text
    .normalize('NFKD')
    .replace(/\p{M}+/gu, '')
    .normalize('NFKC')
    .toLowerCase()
    .replace(/[’‘`´]/g, "'")
    .replace(/\s+/g, ' ')
    .trim()
}

/** A text for finding a quote in it: as `plain`, but accents stay, because a quote is given letter by letter. */
export const sameLetters = (text: string): string =>
  text
    .normalize('NFKC')
    .toLowerCase()
    .replace(/[’‘`´]/g, "'")
    .replace(/\s+/g, ' ')
    .trim()

/** Words that carry nothing by themselves, in English, Swahili and French. */
const empty = new Set(
  (
    'a an the and or but of to in on at by for from with as is am are was were be been being do does did have has had i me my ' +
    'mine you your he she it we they his her its our their this that these those there here what which who whom whose when ' +
    'where why how not no so if then than too very can could will would shall should may might must just about please ' +
    'remember tell know now that’s ' +
    'ni na ya wa za la kwa katika mimi yangu wangu langu sana hii hiyo ambayo ' +
    'le la les un une des du de et ou mais je tu il elle nous vous ils elles mon ma mes ton ta tes son sa ses ce cette ces que ' +
    'qui ne pas dans sur pour par avec est suis sont'
  ).split(' '),
)

/** Takes common endings off, so that `lives` and `living` are one word. */
function stem(word: string): string {
  if (word.length < 4 || /\d/.test(word)) return word
  for (const end of ['ings', 'ing', 'edly', 'ied', 'ies', 'ed', 'es', 's', 'e'])
    if (word.endsWith(end) && word.length - end.length >= 3)
      return word.slice(0, -end.length) + (end === 'ied' || end === 'ies' ? 'y' : '')
  return word
}

/** How many words of one text are looked at. */
const mostWords = 400

/** The words of a text that carry something, stemmed, in their order. */
export function contentWords(text: string): string[] {
  const found = plain(text.slice(0, 8_000)).match(/[\p{L}\p{N}]+/gu) ?? []
  return found
    .filter((word) => (word.length > 1 || /\d/.test(word)) && !empty.has(word))
    .slice(0, mostWords)
    .map(stem)
}

const denied = new RegExp(
  [
    String.raw`\b(not|no longer|never|don't|do not|doesn't|isn't|aren't|can't|cannot|without|anymore|sio|si|hapana|`,
    String.raw`siku hizi si|sipendi|sili|si[a-z]+ tena|ne|pas|plus|jamais)\b`,
  ].join(''),
)

/** Whether a text, made plain before, says no to something. */
export const denies = (plainText: string): boolean => denied.test(plainText)

/** A text as it is compared with many others: its letters, in triples. */
export interface Letters {
  readonly text: string
  readonly plain: string
  readonly triples: ReadonlySet<string>
  /** A bit for each triple, in two numbers: texts with many different bits share too few triples. */
  readonly bits: readonly [number, number]
  /** Its numbers, and whether it says no: texts that differ in these say something else, however alike their letters are. */
  readonly says: string
}

/** The letters of a text. */
export function lettersOf(text: string): Letters {
  const letters = plain(text)
  const padded = ` ${letters} `
  const triples = new Set<string>()
  const bits: [number, number] = [0, 0]
  for (let i = 0; i + 3 <= padded.length; i++) {
    triples.add(padded.slice(i, i + 3))
    const hash =
      padded.charCodeAt(i) * 31 + padded.charCodeAt(i + 1) * 17 + padded.charCodeAt(i + 2)
    const bit = 1 << ((hash >> 1) & 31)
    if (hash & 1) bits[1] |= bit
    else bits[0] |= bit
  }
  const says = `${letters.match(/\d+/g)?.join(' ') ?? ''}${denies(letters) ? ' no' : ''}`
  return { text, plain: letters, triples, bits, says }
}

/** Whether two texts are the same, or have so many triples of letters in common, of all that they have. */
export function areAlike(one: Letters, other: Letters, least: number): boolean {
  if (one.plain === other.plain) return true
  if (one.says !== other.says) return false
  const all = one.triples.size + other.triples.size
  // Each triple that one of them lacks changes one bit at most.
  const different = ones(one.bits[0] ^ other.bits[0]) + ones(one.bits[1] ^ other.bits[1])
  if (all === 0 || different > (1 - least) * all) return false
  let both = 0
  for (const triple of one.triples) if (other.triples.has(triple)) both++
  return (2 * both) / all >= least
}

/** How many bits of a number are set. */
function ones(bits: number): number {
  let rest = bits - ((bits >>> 1) & 0x55555555)
  rest = (rest & 0x33333333) + ((rest >>> 2) & 0x33333333)
  return Math.imul((rest + (rest >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24
}

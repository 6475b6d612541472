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

/** How alike two texts are by their triples of letters, from 0 to 1. */
export function likeness(one: string, other: string): number {
  const [a, b] = [triples(one), triples(other)]
  if (a.size === 0 || b.size === 0) return one === other ? 1 : 0
  let both = 0
  for (const triple of a) if (b.has(triple)) both++
  return (2 * both) / (a.size + b.size)
}

function triples(text: string): Set<string> {
  const letters = ` ${plain(text)} `
  const found = new Set<string>()
  for (let i = 0; i + 3 <= letters.length; i++) found.add(letters.slice(i, i + 3))
  return found
}

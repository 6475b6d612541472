// The default alphabet of GSM 03.38. A character of the second table costs two septets: an escape
// goes before it.
const basic = new Set(
  '@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !"#¤%&\'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà',
)
const extended = new Set('^{}\\[]~|€\f')

/** What fits on one USSD screen in the GSM alphabet. */
export const mostSeptets = 182
/** What fits once a single character is outside of it. */
export const mostCharacters = 80

/** How much room a text takes, and how much there is. */
export interface Measure {
  readonly size: number
  readonly most: number
  readonly unit: 'septets' | 'characters'
}

/** Measures a text as a phone receives it. */
export function measure(text: string): Measure {
  let septets = 0
  for (const character of text) {
    if (basic.has(character)) septets++
    else if (extended.has(character)) septets += 2
    // Sent as UCS-2, where one beyond the first plane takes two.
    else return { size: text.length, most: mostCharacters, unit: 'characters' }
  }
  return { size: septets, most: mostSeptets, unit: 'septets' }
}

/** Whether a text fits on one screen. */
export function fits(text: string): boolean {
  const { size, most } = measure(text)
  return size <= most
}

const plainer: Readonly<Record<string, string>> = {
  '\u2018': "'",
  '\u2019': "'",
  '\u201c': '"',
  '\u201d': '"',
  '\u00ab': '"',
  '\u00bb': '"',
  '\u2010': '-',
  '\u2011': '-',
  '\u2013': '-',
  '\u2014': '-',
  '\u2022': '-',
  '\u2026': '...',
  '\u0153': 'oe',
  '\u0152': 'OE',
}

/**
 * A text with the letters of the GSM alphabet wherever one stands for another: a single `ê` would leave room
 * for 80 characters instead of 182. What has no such letter, another script for one, stays as it is.
 */
export function folded(text: string): string {
  let result = ''
  for (const character of text.normalize('NFC'))
    result += isGsm(character) ? character : fold(character)
  return result
}

const isGsm = (character: string) => basic.has(character) || extended.has(character)

function fold(character: string): string {
  const base = plainer[character] ?? character.normalize('NFKD').replace(/\p{M}+/gu, '')
  return base !== '' && [...base].every(isGsm) ? base : character
}

// The default alphabet of GSM 03.38. A character of the second table costs two septets, because an escape
// precedes the character.
const basic = new Set(
  '@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !"#¤%&\'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà',
)
const extended = new Set('^{}\\[]~|€\f')

/** How many septets one USSD screen holds in the GSM alphabet. */
const mostSeptets = 182
/** How many UTF-16 code units one USSD screen holds when a single character is outside the GSM alphabet. */
export const mostCharacters = 80

/** The size of a text, and the most that a screen holds. */
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
    // Gateways send such a text as UCS-2, where a character beyond the first plane takes two units.
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
 * Replaces characters by similar letters of the GSM alphabet, because a single `ê` would leave room for 80 characters
 * instead of 182. A character without a similar letter, such as one of another script, stays as it is.
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

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

export function fits(text: string): boolean {
  const { size, most } = measure(text)
  return size <= most
}

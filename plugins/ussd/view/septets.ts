const basic =
  '@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !"#¤%&\'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà'
const extended = '^{}\\[~]|€'

/**
 * How much of a screen a text takes, in septets of GSM 03.38. A letter outside that alphabet makes the whole text UCS-2, and
 * 80 letters of UCS-2 fill a screen of 182 septets.
 */
export function septetsOf(text: string): number {
  let septets = 0
  for (const letter of text) {
    if (basic.includes(letter)) septets += 1
    else if (extended.includes(letter)) septets += 2
    else return Math.ceil((text.length * 182) / 80)
  }
  return septets
}

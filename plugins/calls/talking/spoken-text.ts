/**
 * What a voice says of a text: without code, addresses, marks of Markdown and pictures. Whoever reads along has all of it in the
 * caption. `isCode` says whether the text begins within a block of code; the answer says whether it ends there.
 */
export function spokenText(
  text: string,
  isCode: boolean,
): { readonly text: string; readonly isCode: boolean } {
  const parts = text.split('```')
  const kept = parts.filter((_, i) => (i % 2 === 0) !== isCode)
  return { text: plain(kept.join(' ')), isCode: parts.length % 2 === 0 ? !isCode : isCode }
}

const plain = (text: string): string =>
  text
    .replace(/!?\[([^\]]{0,500})\]\([^)]{0,2000}\)/g, '$1')
    .replace(/\b(?:https?:\/\/|www\.)\S+/gi, '')
    .replace(/<[^<>]{0,500}>/g, ' ')
    .replace(/^[ \t]{0,3}(?:#{1,6}|>|[-*+]|\d{1,3}[.)])[ \t]+/gm, '')
    .replace(/[|*_~`]+/g, ' ')
    .replace(/\p{Extended_Pictographic}/gu, '')
    .replace(/[\p{Cc}\p{Cf}]/gu, ' ')
    .replace(/\s+/g, ' ')
    .trim()

/** Whether a text has a word that can be said. */
export const isSpeakable = (text: string): boolean => /[\p{L}\p{N}]/u.test(text)

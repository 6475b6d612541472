/** How many characters of what others say are kept. */
const mostCharacters = 300

/** Words of a ledger or a facilitator, so that both databases can keep them: PostgreSQL has no U+0000. */
export const keepable = (words: string): string =>
  words.replaceAll('\0', '').toWellFormed().slice(0, mostCharacters)

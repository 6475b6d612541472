/** How many characters of an entity the filter `q` searches. */
const longest = 2000

/** The text that the filter `q` searches: the id, the type and the texts among the properties, in lower case. */
export function searchText(
  did: string,
  type: string,
  properties: Readonly<Record<string, unknown>>,
): string {
  let text = `${did}\n${type}`
  const add = (value: unknown): void => {
    if (text.length > longest) return
    if (typeof value === 'string') text += `\n${value}`
    else if (typeof value === 'object' && value !== null) Object.values(value).forEach(add)
  }
  Object.values(properties).forEach(add)
  // The cut may leave half of a surrogate pair, which PostgreSQL refuses to store as text.
  return text.slice(0, longest).toWellFormed().toLowerCase()
}

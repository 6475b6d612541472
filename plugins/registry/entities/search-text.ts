/** How much of an entity `q` looks in. */
const longest = 2000

/** What `q` looks in: the id, the type and the texts among the properties, in lower case. */
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
  // Cut before it is stored: half of a surrogate pair is no text.
  return text.slice(0, longest).toWellFormed().toLowerCase()
}

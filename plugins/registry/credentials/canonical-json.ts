/**
 * A JSON value in its one canonical form (RFC 8785): keys sorted by their UTF-16 units, no spaces, numbers
 * and strings as ECMAScript writes them. What has no such form throws.
 */
export function canonicalJson(value: unknown): string {
  if (value === null || typeof value === 'boolean') return String(value)
  if (typeof value === 'number' && Number.isFinite(value)) return JSON.stringify(value)
  if (typeof value === 'string' && value.isWellFormed()) return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join()}]`
  if (typeof value === 'object') {
    const members = Object.entries(value)
      .filter(([, member]) => member !== undefined)
      .sort(([a], [b]) => (a < b ? -1 : 1))
    return `{${members.map(([key, member]) => `${canonicalJson(key)}:${canonicalJson(member)}`).join()}}`
  }
  throw new TypeError(`${String(value)} has no form in JSON`)
}

/** Whether the canonical form of a value is certainly longer than `most`. The count stops there, so a huge value costs little. */
export function isLongerThan(most: number, value: unknown): boolean {
  let length = 0
  function grows(one: unknown): boolean {
    // Brackets or quotes, or a digit and the comma beside it.
    length += typeof one === 'string' ? one.length + 2 : 2
    if (length > most + 1) return true
    if (typeof one !== 'object' || one === null) return false
    if (Array.isArray(one)) return one.some(grows)
    return Object.keys(one).some((key) => {
      length += key.length + 3
      return grows(Reflect.get(one, key))
    })
  }
  return grows(value)
}

/**
 * Whether the `If-Match` header of a request names this ETag: one tag, a list, or `*`. A weak tag
 * never matches, on either side (RFC 9110, 13.1.1). Without a current tag (`undefined`: the thing
 * does not exist) nothing matches, `*` included.
 */
export function matchesEtag(header: string, etag: string | undefined): boolean {
  if (etag === undefined) return false
  return header.trim() === '*' || (!etag.startsWith('W/') && tagsOf(header).includes(etag))
}

/** Whether `If-None-Match` names this ETag, so that a GET is answered 304. Weak tags compare equal. */
export function isUnchanged(header: string, etag: string): boolean {
  if (header.trim() === '*') return true
  const strong = opaque(etag)
  return tagsOf(header).some((tag) => opaque(tag) === strong)
}

const opaque = (tag: string) => (tag.startsWith('W/') ? tag.slice(2) : tag)

/** A comma may stand inside a tag, so the list is read tag by tag. */
function tagsOf(header: string): string[] {
  return header.match(/(?:W\/)?"[^"]*"/g) ?? []
}

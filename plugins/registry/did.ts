/** The parts of the DID grammar, exactly as section 3 of W3C DID Core 1.0 gives the grammar. */
const idchar = '(?:[A-Za-z0-9._-]|%[0-9A-Fa-f]{2})'
const did = `did:[a-z0-9]+:(?:${idchar}*:)*${idchar}+`
const pchar = "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
const didGrammar = new RegExp(`^${did}$`)
const entityGrammar = new RegExp(`^${did}(?:/${pchar}*)*$`)

/** The most characters of an id: longer ids do not fit into the indexes of a database. */
export const longestId = 1024

/** Whether a text is a DID. */
export const isDid = (text: string): boolean => text.length <= longestId && didGrammar.test(text)

/** Whether a text can name an entity: a DID, or a DID URL with a path and nothing after it. */
export const isEntityId = (text: string): boolean =>
  text.length <= longestId && entityGrammar.test(text)

/** The address of an entity in this API. The id of the entity stands in one segment, so `/` and `%` are percent-encoded. */
export const entityPath = (id: string): string => `/v1/entities/${encodeURIComponent(id)}`

/** The address of an edge. */
export const edgePath = (id: string, { role, target }: { role: string; target: string }): string =>
  `${entityPath(id)}/relationships/${encodeURIComponent(role)}/${encodeURIComponent(target)}`

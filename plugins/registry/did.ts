/** Identifiers by the grammar of W3C DID Core 1.0, section 3, and no more. */
const idchar = '(?:[A-Za-z0-9._-]|%[0-9A-Fa-f]{2})'
const did = `did:[a-z0-9]+:(?:${idchar}*:)*${idchar}+`
const pchar = "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
const didGrammar = new RegExp(`^${did}$`)
const entityGrammar = new RegExp(`^${did}(?:/${pchar}*)*$`)
const urlGrammar = new RegExp(
  `^${did}(?:/${pchar}*)*(?:\\?(?:${pchar}|[/?])*)?(?:#(?:${pchar}|[/?])*)?$`,
)

/** Longer ids do not fit the indexes of a database, nor a URL in comfort. */
export const longestId = 1024

/** Whether a text is a DID. */
export const isDid = (text: string): boolean => text.length <= longestId && didGrammar.test(text)

/** Whether a text can name an entity: a DID, or a DID URL with a path and nothing after it. */
export const isEntityId = (text: string): boolean =>
  text.length <= longestId && entityGrammar.test(text)

/** Whether a text is a DID URL: a DID with path, query and fragment as it likes. */
export const isDidUrl = (text: string): boolean => urlGrammar.test(text)

/** The address of an entity here. Its id stands in one segment, so `/` and `%` are encoded. */
export const entityPath = (id: string): string => `/v1/entities/${encodeURIComponent(id)}`

/** The address of an edge. */
export const edgePath = (id: string, { role, target }: { role: string; target: string }): string =>
  `${entityPath(id)}/relationships/${encodeURIComponent(role)}/${encodeURIComponent(target)}`

import { z } from 'zod'
import { isEntityId } from '../did.ts'

/** A DID URL in its parts. */
export interface DidUrl {
  /** The id that resolves to a document: the DID, with the path that some entities have in their ids. */
  readonly id: string
  readonly method: string
  readonly fragment?: string
  readonly service?: string
  readonly relativeRef?: string
  /** The number of the wanted version, or in `versionTime` a moment at which the wanted version was the present one. */
  readonly versionId?: string
  readonly versionTime?: string
}

/** The parameters of a DID URL, as a query has them. */
export const didParameters = z.object({
  service: z.string().optional(),
  relativeRef: z.string().optional(),
  versionId: z.string().optional(),
  versionTime: z.string().optional(),
})
/** The parameters of a DID URL that passed the schema. */
export type DidParameters = z.output<typeof didParameters>

/**
 * Parses a DID URL; undefined when the text is no DID URL. The query of the DID URL may stand percent-encoded in the path
 * of the HTTP address, or be the query of the HTTP address (`beside`).
 */
export function readDidUrl(text: string, beside: DidParameters): DidUrl | undefined {
  const [, id = '', query, fragment] = /^([^?#]*)(?:\?([^#]*))?(?:#(.*))?$/s.exec(text) ?? []
  if (!isEntityId(id)) return undefined
  const inside = new URLSearchParams(query)
  const one = (name: keyof DidParameters) => inside.get(name) ?? beside[name]
  return {
    id,
    method: id.split(':', 2)[1] ?? '',
    fragment,
    service: one('service'),
    relativeRef: one('relativeRef'),
    versionId: one('versionId'),
    versionTime: one('versionTime'),
  }
}

/** The address of a service with the relative reference applied; undefined when the result is on another host or scheme. */
export function endpointOf(endpoint: string, relativeRef?: string): string | undefined {
  if (relativeRef === undefined) return new URL(endpoint).href
  if (!URL.canParse(relativeRef, endpoint)) return undefined
  const base = new URL(endpoint)
  const target = new URL(relativeRef, endpoint)
  const same = target.protocol === base.protocol && target.host === base.host
  return same ? target.href : undefined
}

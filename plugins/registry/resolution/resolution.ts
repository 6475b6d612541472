import { RuntimeError, text, type RouteContext } from '#core'
import { stateOf } from '../entity.ts'
import type { RegistryDatabase } from '../tables.ts'
import { endpointOf, readDidUrl, type DidParameters, type DidUrl } from './did-url.ts'
import { entityDocument, keyDocument, type DidDocument } from './document.ts'

/** Why a DID does not resolve, in the words of W3C's DID Resolution, and the status that each has there. */
const errors = {
  INVALID_DID: { status: 400, code: 'BAD_REQUEST' },
  INVALID_DID_URL: { status: 400, code: 'BAD_REQUEST' },
  NOT_FOUND: { status: 404, code: 'NOT_FOUND' },
  REPRESENTATION_NOT_SUPPORTED: { status: 406, code: 'NOT_ACCEPTABLE' },
  METHOD_NOT_SUPPORTED: { status: 501, code: 'NOT_IMPLEMENTED' },
  FEATURE_NOT_SUPPORTED: { status: 501, code: 'NOT_IMPLEMENTED' },
} as const

type Koa = RouteContext['koa']

class Unresolved extends Error {
  readonly type: keyof typeof errors
  constructor(type: keyof typeof errors, message: string) {
    super(message)
    this.type = type
  }
}

/** A document and what is known of it; the document is gone when the entity was deactivated. */
interface Resolved {
  readonly document?: DidDocument
  readonly metadata: Readonly<Record<string, unknown>>
}

const results = [
  'application/did-resolution',
  'application/ld+json;profile="https://w3id.org/did-resolution"',
  'application/json',
]
const dereferencing = 'application/did-url-dereferencing'
const documents = ['application/did', 'application/did+ld+json', 'application/did+json']

/** DID resolution and the dereferencing of DID URLs over HTTP, as W3C binds them. */
export function resolution(db: RegistryDatabase) {
  async function resolve({ id, method, version }: DidUrl): Promise<Resolved> {
    const row = await db
      .selectFrom('registry_entities')
      .selectAll()
      .where('did', '=', id)
      .executeTakeFirst()
    if (version !== undefined)
      throw new Unresolved('FEATURE_NOT_SUPPORTED', 'Only the present version is resolved.')
    if (!row && method === 'key') {
      const document = keyDocument(id)
      if (document) return { document, metadata: {} }
      throw new Unresolved('INVALID_DID', `${id} holds no Ed25519 key.`)
    }
    if (!row && method !== 'ixo')
      throw new Unresolved('METHOD_NOT_SUPPORTED', `The method "${method}" is not resolved here.`)
    if (!row) throw new Unresolved('NOT_FOUND', `There is no ${id} here.`)
    const { controller, services } = stateOf(row)
    const metadata = {
      created: wholeSeconds(row.created_at),
      updated: wholeSeconds(row.updated_at),
      versionId: String(row.version),
    }
    return row.status === 'deactivated'
      ? { metadata: { ...metadata, deactivated: true } }
      : { document: entityDocument(id, controller, services), metadata }
  }

  /** Answers a request for a DID or a DID URL, refusals included. */
  return async (did: string, parameters: DidParameters, koa: Koa): Promise<unknown> => {
    const result = koa.accepts(...results, dereferencing)
    try {
      const url = readDidUrl(did, parameters)
      if (!url)
        throw new Unresolved(
          /[/?#]/.test(did) ? 'INVALID_DID_URL' : 'INVALID_DID',
          `"${shortened(did)}" is not a DID.`,
        )
      const found = await resolve(url)
      if (found.document && (url.service !== undefined || url.fragment !== undefined))
        return dereference(url, found.document, koa)
      return answer(found, koa)
    } catch (error) {
      if (!(error instanceof Unresolved)) throw error
      const { status, code } = errors[error.type]
      if (!result || result === 'application/json')
        throw new RuntimeError(code, error.message, { details: { error: typeOf(error.type) } })
      const told = { type: typeOf(error.type), title: error.type, detail: error.message }
      koa.status = status
      koa.set('Content-Type', result)
      return result === dereferencing
        ? { content: null, dereferencingMetadata: { error: told }, contentMetadata: {} }
        : { didDocument: null, didResolutionMetadata: { error: told }, didDocumentMetadata: {} }
    }
  }
}
export type Resolution = ReturnType<typeof resolution>

const typeOf = (type: string) => `https://www.w3.org/ns/did#${type}`
const wholeSeconds = (at: string) => at.replace(/\.\d+Z$/, 'Z')
const shortened = (text: string) => (text.length > 100 ? `${text.slice(0, 97)}...` : text)

function answer({ document, metadata }: Resolved, koa: Koa): unknown {
  const type = koa.accepts(...results, ...documents, dereferencing)
  if (!type) throw unacceptable([...results, ...documents])
  if (!document) koa.status = 410
  koa.set('Content-Type', type)
  const contentType = 'application/did'
  if (type === dereferencing)
    return {
      content: document ?? null,
      dereferencingMetadata: { contentType },
      contentMetadata: metadata,
    }
  if (results.includes(type))
    return {
      ...(type.startsWith('application/ld') && {
        '@context': 'https://w3id.org/did-resolution/v1',
      }),
      didDocument: document ?? null,
      didResolutionMetadata: { contentType },
      didDocumentMetadata: metadata,
    }
  return document ?? {}
}

/** A service becomes its address, a fragment the part of the document that has it. */
function dereference(
  { id, fragment, service, relativeRef }: DidUrl,
  document: DidDocument,
  koa: Koa,
): unknown {
  const parts = [...(document.service ?? []), ...(document.verificationMethod ?? [])]
  const wanted = service ?? fragment ?? ''
  const part = parts.find((one) => one.id === `${id}#${wanted.replace(/^#/, '')}`)
  if (!part) throw new Unresolved('NOT_FOUND', `${id} has no part "${shortened(wanted)}".`)
  if (service === undefined) {
    const type = koa.accepts(...documents, 'application/json', dereferencing)
    if (!type) throw unacceptable([...documents, dereferencing])
    koa.set('Content-Type', type)
    return type === dereferencing
      ? {
          content: part,
          dereferencingMetadata: { contentType: 'application/did' },
          contentMetadata: {},
        }
      : part
  }
  if (!('serviceEndpoint' in part)) throw new Unresolved('NOT_FOUND', `"${wanted}" is no service.`)
  const address = endpointOf(part.serviceEndpoint, relativeRef)
  if (address === undefined)
    throw new Unresolved('INVALID_DID_URL', 'The relativeRef leads away from the service.')
  if (koa.accepts('text/uri-list', dereferencing) === dereferencing) {
    koa.set('Content-Type', dereferencing)
    return {
      content: address,
      dereferencingMetadata: { contentType: 'text/uri-list' },
      contentMetadata: {},
    }
  }
  koa.set('Location', address)
  return text('', 303)
}

const unacceptable = (types: readonly string[]) =>
  new Unresolved('REPRESENTATION_NOT_SUPPORTED', `The types here are ${types.join(', ')}.`)

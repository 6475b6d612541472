import { RuntimeError, text, type Oracle, type RouteContext } from '#core'
import { stateOf } from '../entities/entity.ts'
import type { EntityRow, RegistryDatabase } from '../tables.ts'
import { endpointOf, readDidUrl, type DidParameters, type DidUrl } from './did-url.ts'
import { entityDocument, keyDocument, type DidDocument } from './document.ts'
import { oracleDocuments } from './oracle-document.ts'
import { dereferencing, documents } from './answers.ts'

/** The error types of W3C's DID Resolution, with the HTTP status that W3C binds to each and our error code. */
const errors = {
  INVALID_DID: { status: 400, code: 'BAD_REQUEST' },
  INVALID_DID_URL: { status: 400, code: 'BAD_REQUEST' },
  INVALID_OPTIONS: { status: 400, code: 'BAD_REQUEST' },
  NOT_FOUND: { status: 404, code: 'NOT_FOUND' },
  REPRESENTATION_NOT_SUPPORTED: { status: 406, code: 'NOT_ACCEPTABLE' },
  METHOD_NOT_SUPPORTED: { status: 501, code: 'NOT_IMPLEMENTED' },
} as const

type Koa = RouteContext['koa']

class Unresolved extends Error {
  readonly type: keyof typeof errors
  constructor(type: keyof typeof errors, message: string) {
    super(message)
    this.type = type
  }
}

/** A document and its metadata; a deactivated entity has only metadata. */
interface Resolved {
  readonly document?: DidDocument
  readonly metadata: Readonly<Record<string, unknown>>
  /** Whether only the operator has written the document, so that a redirect to one of its services is safe. */
  readonly isOurs?: boolean
}

const prefix = '/1.0/identifiers/'
const results = [
  'application/did-resolution',
  'application/ld+json;profile="https://w3id.org/did-resolution"',
  'application/json',
]
/** DID resolution and the dereferencing of DID URLs over HTTP, as W3C binds them. */
export class Resolution {
  readonly #db: RegistryDatabase
  readonly #oracleDocument: ReturnType<typeof oracleDocuments>

  constructor(db: RegistryDatabase, oracle: Oracle) {
    this.#db = db
    this.#oracleDocument = oracleDocuments(oracle)
  }

  /** The row of an id; undefined for a did:key, a did:web and the oracle's own DIDs, whose documents no entity replaces. */
  async #find(id: string): Promise<EntityRow | undefined> {
    return /^did:(?:key|web):/.test(id) || this.#oracleDocument(id)
      ? undefined
      : this.#db
          .selectFrom('registry_entities')
          .selectAll()
          .where('did', '=', id)
          .executeTakeFirst()
  }

  /** Whether only holders of API keys have ever changed an entity. */
  async #isByOperator(id: string): Promise<boolean> {
    const other = await this.#db
      .selectFrom('registry_changes')
      .select('version')
      .where('did', '=', id)
      .where('kind', '=', 'entity')
      .where('actor', 'not like', 'key:%')
      .limit(1)
      .executeTakeFirst()
    return other === undefined
  }

  /** Reads a DID URL that a client may have sent unencoded: a percent-encoding is then part of the DID, not of the address. */
  async #asSent(did: string, parameters: DidParameters, { path }: Koa) {
    const url = readDidUrl(did, parameters)
    const sent = path.slice(prefix.length)
    if (!sent.includes('%') || (url && (await this.#find(url.id)))) return url
    const other = readDidUrl(sent, parameters)
    return other && (await this.#find(other.id)) ? other : url
  }

  async #resolve(url: DidUrl): Promise<Resolved> {
    const { id, method } = url
    const own = this.#oracleDocument(id)
    if (own) return { document: own, metadata: {}, isOurs: true }
    const row = await this.#find(id)
    if (row) {
      const isPresent = url.versionId === undefined && url.versionTime === undefined
      const found = isPresent ? resolved(row) : await this.#past(row, url)
      return { ...found, isOurs: url.service !== undefined && (await this.#isByOperator(id)) }
    }
    if (method === 'key') {
      const document = keyDocument(id)
      if (document) return { document, metadata: {} }
      throw new Unresolved('INVALID_DID', `${id} holds no Ed25519 key.`)
    }
    if (method === 'web')
      throw new Unresolved('NOT_FOUND', `${id} is resolved at its own host, and not here.`)
    if (method !== 'ixo')
      throw new Unresolved('METHOD_NOT_SUPPORTED', `The method "${method}" is not resolved here.`)
    throw new Unresolved('NOT_FOUND', `There is no ${id} here.`)
  }

  /** An earlier version of an entity: the state after the last change up to that version or moment. */
  async #past(row: EntityRow, { id, versionId, versionTime }: DidUrl): Promise<Resolved> {
    const time = versionTime === undefined ? undefined : new Date(versionTime)
    if (versionId !== undefined && !/^[1-9]\d{0,8}$/.test(versionId))
      throw new Unresolved('INVALID_OPTIONS', 'A versionId is the number of a version.')
    if (time && Number.isNaN(time.getTime()))
      throw new Unresolved(
        'INVALID_OPTIONS',
        'A versionTime is a date and time, such as 2026-01-31T12:00:00Z.',
      )
    let query = this.#db
      .selectFrom('registry_changes')
      .selectAll()
      .where('kind', '=', 'entity')
      .where('did', '=', id)
      .orderBy('version', 'desc')
    if (versionId !== undefined) query = query.where('version', '<=', Number(versionId))
    // versionTime has whole seconds, so it covers every change up to the end of its second.
    if (time) query = query.where('at', '<=', new Date(time.getTime() + 999).toISOString())
    const changes = await query.limit(1).execute()
    const [change] = changes
    if (!change || (versionId !== undefined && change.version !== Number(versionId)))
      throw new Unresolved('NOT_FOUND', `There is no such version of ${id}.`)
    const state = await query.where('controller', 'is not', null).limit(1).executeTakeFirst()
    return resolved({
      ...row,
      status: change.action === 'deactivated' ? 'deactivated' : 'active',
      version: change.version,
      updated_at: change.at,
      controller: state?.controller ?? row.controller,
      details: state ? state.details : row.details,
    })
  }

  /** Answers a request for a DID or a DID URL, refusals included. */
  async answer(did: string, parameters: DidParameters, koa: Koa): Promise<unknown> {
    const result = koa.accepts(...results, dereferencing)
    try {
      const url = await this.#asSent(did, parameters, koa)
      if (!url)
        throw new Unresolved(
          /[/?#]/.test(did) ? 'INVALID_DID_URL' : 'INVALID_DID',
          `"${shortened(did)}" is not a DID.`,
        )
      const found = await this.#resolve(url)
      if (found.document && (url.service !== undefined || url.fragment !== undefined))
        return dereference(url, found.document, found.isOurs === true, koa)
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

function resolved(row: EntityRow): Resolved {
  const { controller, services } = stateOf(row)
  const metadata = {
    created: wholeSeconds(row.created_at),
    updated: wholeSeconds(row.updated_at),
    versionId: String(row.version),
  }
  return row.status === 'deactivated'
    ? { metadata: { ...metadata, deactivated: true } }
    : { document: entityDocument(row.did, controller, services), metadata }
}

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

/** Answers a DID URL with a service by the address of the service, and one with a fragment by that part of the document. */
function dereference(
  { id, fragment, service, relativeRef }: DidUrl,
  document: DidDocument,
  isOurs: boolean,
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
  // A redirect to an address that a stranger wrote would be an open redirect, so the answer only tells the address.
  if (!isOurs || !redirectable.has(new URL(address).protocol)) {
    koa.set('Content-Type', 'text/uri-list')
    return text(`${address}\r\n`)
  }
  koa.set('Location', address)
  return text('', 303)
}

/** Schemes of addresses in which a browser runs no code that stands in the address. */
const redirectable = new Set(['https:', 'http:', 'mailto:'])

const unacceptable = (types: readonly string[]) =>
  new Unresolved('REPRESENTATION_NOT_SUPPORTED', `The types here are ${types.join(', ')}.`)

import { OracleError } from '../core/error.ts'
import type { OracleConfig } from '../core/records.ts'
import { ask, readJson, trimmed } from '../core/request.ts'

const json = <T>(url: string) =>
  readJson<T>({ headers: { accept: 'application/did-resolution, application/json' } }, (call) =>
    ask(url, call),
  )

/** Finds by its DID where an oracle answers, and what the oracle says of itself. */
export async function resolveOracle(
  oracleDid: string,
  resolverUrl: string | undefined,
): Promise<OracleConfig> {
  try {
    const document = documentAddress(oracleDid, resolverUrl)
    const apiUrl = document ? apiOf(await json(document)) : location.origin
    const config = await json<OracleConfig & { entityDid?: string }>(
      `${apiUrl}/.well-known/oracle.json`,
    )
    if (config.did !== oracleDid && config.entityDid !== oracleDid)
      throw new Error(`${apiUrl} is the oracle ${config.did}`)
    return { ...config, apiUrl: trimmed(config.apiUrl) }
  } catch (cause) {
    throw new OracleError(
      'config_unresolved',
      `The address of the oracle ${oracleDid} cannot be found: ${(cause as Error).message}`,
      { cause, hint: 'Give overrides.baseUrl, or a client with a resolverUrl.' },
    )
  }
}

/**
 * The address of a DID's document. The DID of a did:web says it; a resolver knows every other. Without a resolver there
 * is none, and the server that the page came from may be the oracle.
 */
function documentAddress(did: string, resolverUrl: string | undefined) {
  const [, method, name = '', ...path] = did.split(':')
  if (method === 'web')
    return `https://${decodeURIComponent(name)}/${path.length ? path.join('/') : '.well-known'}/did.json`
  if (!resolverUrl) return undefined
  const base = new URL(resolverUrl)
  if (base.pathname === '/') base.pathname = '/1.0/identifiers/'
  return `${trimmed(base.href)}/${did}`
}

interface DidDocument {
  readonly didDocument?: DidDocument
  readonly service?: readonly { readonly id: string; readonly serviceEndpoint: unknown }[]
}

function apiOf({ didDocument, service = [] }: DidDocument): string {
  if (didDocument) return apiOf(didDocument)
  const endpoint = service.find(({ id }) => id.endsWith('#api'))?.serviceEndpoint
  if (typeof endpoint !== 'string') throw new Error('its document names no service "#api"')
  return trimmed(endpoint)
}

import { trimmed } from '../core/request.ts'

/** The parts of a DID document, or of a resolver's answer, that say where an oracle is. */
export interface DidDocument {
  readonly didDocument?: DidDocument | null
  readonly didDocumentMetadata?: { readonly deactivated?: boolean }
  readonly service?: readonly Service[]
}

interface Service {
  readonly id: string
  readonly type?: unknown
  readonly serviceEndpoint: unknown
}

/** Where an oracle answers, as its document has it. */
export interface Endpoints {
  readonly apiUrl: string
  readonly wsUrl?: string
}

/** The endpoints of a document, by the types of its services, else by their ids. Throws what is wrong with the document. */
export function endpointsOf(document: DidDocument): Endpoints {
  if (document.didDocumentMetadata?.deactivated) throw new Error('it is deactivated')
  const { service = [] } = document.didDocument ?? document
  const apiUrl = endpoint(service, 'oracleService', '#api', /^https?:$/)
  if (!apiUrl) throw new Error('its document names no service "oracleService" or "#api"')
  const wsUrl = endpoint(service, 'wsService', '#ws', /^(https?|wss?):$/)
  return { apiUrl, ...(wsUrl && { wsUrl }) }
}

function endpoint(
  services: readonly Service[],
  type: string,
  id: string,
  scheme: RegExp,
): string | undefined {
  const found =
    services.find((one) => [one.type].flat().includes(type)) ??
    services.find((one) => String(one.id).endsWith(id))
  if (!found) return undefined
  const [first] = [found.serviceEndpoint].flat()
  const text = String(Object(first).uri ?? first)
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (!url || !scheme.test(url.protocol) || url.username || url.password)
    throw new Error(`the endpoint of its service "${found.id}" is no address that a page can use`)
  return trimmed(url.origin + url.pathname)
}

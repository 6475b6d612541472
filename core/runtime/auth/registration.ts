import type { Log } from '../../plugin.ts'
import type { DidResolver } from './did/resolver.ts'

/** The addresses at which the server tells clients to find the oracle. */
export interface Addresses {
  readonly apiUrl: string
  readonly wsUrl: string
}

/**
 * Compares the address that the oracle's DID document registers with the one that clients are told, and logs what to
 * change. A newly created oracle registers port 4000 while the runtime listens on 3000: clients that follow the
 * registration then reach no server.
 */
export async function compareRegistration(
  resolver: DidResolver,
  did: string | undefined,
  { apiUrl }: Addresses,
  log: Log,
): Promise<void> {
  // The document of a did:web is what this server serves, wherever the name leads.
  if (did === undefined || /^did:(key|web):/.test(did)) return
  const document = await resolver.document(did)
  if (!document)
    return log.warn(
      `the DID document of ${did} cannot be had, so its registered address was not compared; check RESOLVER_URL`,
    )
  const service = document.service.find(({ id }) => id === '#api' || id === `${did}#api`)
  const registered =
    typeof service?.serviceEndpoint === 'string' ? service.serviceEndpoint : undefined
  if (registered === undefined)
    return log.warn(`${did} registers no #api service: clients cannot find ${apiUrl}; register it`)
  if (sameAddress(registered, apiUrl))
    return log.info(`${did} registers ${registered}, which is this server`)
  const port = portOf(registered)
  log.warn(
    `${did} registers its #api at ${registered}, but this server tells clients ${apiUrl}. ` +
      `Set ${port ? `PORT=${port}` : 'PORT'} (or PUBLIC_URL=${registered} behind a proxy), or change the registered address to ${apiUrl}.`,
  )
}

function sameAddress(a: string, b: string): boolean {
  if (!URL.canParse(a) || !URL.canParse(b)) return a === b
  const [left, right] = [new URL(a), new URL(b)]
  const host = (url: URL) => url.hostname.replace(/^(localhost|\[::1\])$/, '127.0.0.1')
  return left.protocol === right.protocol && host(left) === host(right) && left.port === right.port
}

function portOf(address: string): string {
  return URL.canParse(address) ? new URL(address).port : ''
}

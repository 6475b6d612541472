import type { DidDocumentRead } from './did-document.ts'

/**
 * Compares the address that the oracle's DID document registers for clients with the one that this
 * runtime serves, and says which of the two to change. Nothing to say when they agree, or when no
 * address is registered. New oracles register port 4000, while the runtime listens on 3000.
 */
export function registeredAddressAdvice(
  document: DidDocumentRead,
  { publicUrl, port }: { publicUrl: string; port: number },
): string | undefined {
  const registered = document.service.find(({ id }) => id === '#api' || id === `${document.id}#api`)
  const endpoint = URL.parse(String(registered?.serviceEndpoint))
  const own = URL.parse(publicUrl)
  if (!endpoint || !own || endpoint.origin === own.origin) return undefined
  const both = `The DID document of ${document.id} sends clients to ${endpoint.origin}, and this server is at ${own.origin}.`
  return endpoint.hostname === own.hostname
    ? `${both} Start it with PORT=${portOf(endpoint)}, or register port ${port} in the document's #api service.`
    : `${both} Set PUBLIC_URL if a proxy forwards to it, or register its address in the document's #api service.`
}

function portOf({ port, protocol }: URL): string {
  return port || (protocol === 'https:' ? '443' : '80')
}

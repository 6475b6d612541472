import type { Oracle } from '#core'
import { keyDocument, type DidDocument } from './document.ts'

/** Makes the documents of the oracle's own DIDs, which take precedence over entities with the same ids. */
export function oracleDocuments(oracle: Oracle) {
  return (id: string): DidDocument | undefined => {
    const { did, aliases, key } = oracle
    const isKey = id.startsWith('did:key:')
    if (id !== did && !aliases.includes(id) && id !== webDid(oracle.url())) return undefined
    const document = key && keyDocument(key.did)
    // The did:key has its own document; the document of another DID of the oracle says that this key signs for that DID.
    const signing = document && (isKey ? document : inTheNameOf(id, document))
    const others = [did, ...aliases].filter((other) => other !== id)
    return {
      ...(signing ?? { '@context': ['https://www.w3.org/ns/did/v1'], id }),
      ...(others.length > 0 && { alsoKnownAs: [...new Set(others)] }),
      service: [{ id: `${id}#api`, type: 'oracleService', serviceEndpoint: oracle.url() }],
    }
  }
}

/** The document of a key, rewritten for another DID: the ids of its methods begin with that DID. */
function inTheNameOf(id: string, document: DidDocument): DidDocument {
  const verificationMethod = document.verificationMethod?.map((method) => ({
    ...method,
    id: `${id}#${method.publicKeyMultibase}`,
    controller: id,
  }))
  const methods = verificationMethod?.map((method) => method.id)
  return {
    ...document,
    id,
    verificationMethod,
    authentication: methods,
    assertionMethod: methods,
    capabilityInvocation: methods,
    capabilityDelegation: methods,
  }
}

/** The did:web of the host at which clients reach this oracle; undefined while the oracle's URL is not valid. */
function webDid(url: string): string | undefined {
  const host = URL.parse(url)?.host
  return host && `did:web:${host.replace(':', '%3A')}`
}

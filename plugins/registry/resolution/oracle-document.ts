import type { Oracle } from '#core'
import { keyDocument, type DidDocument } from './document.ts'

/** The documents of the oracle itself, which no entity of any name stands in for. */
export function oracleDocuments(oracle: Oracle) {
  return (id: string): DidDocument | undefined => {
    const { did, aliases, key } = oracle
    const isKey = id.startsWith('did:key:')
    if (id !== did && !aliases.includes(id) && id !== webDid(oracle.url())) return undefined
    const document = key && keyDocument(key.did)
    // The key has its own document; other names of the oracle say that this key signs for them.
    const signing = document && (isKey ? document : inTheNameOf(id, document))
    const others = [did, ...aliases].filter((other) => other !== id)
    return {
      ...(signing ?? { '@context': ['https://www.w3.org/ns/did/v1'], id }),
      ...(others.length > 0 && { alsoKnownAs: [...new Set(others)] }),
      service: [{ id: `${id}#api`, type: 'oracleService', serviceEndpoint: oracle.url() }],
    }
  }
}

/** A document of a key as that of another DID: its methods are named after the DID. */
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

/** The did:web of the host that clients find us at; undefined while that is no address. */
function webDid(url: string): string | undefined {
  const host = URL.parse(url)?.host
  return host && `did:web:${host.replace(':', '%3A')}`
}

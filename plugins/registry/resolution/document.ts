import { base58btc } from 'multiformats/bases/base58'
import type { Service } from '../entities/entity.ts'

/** A W3C DID document, with the members that documents of twins and keys have. */
export interface DidDocument {
  readonly '@context': readonly string[]
  readonly id: string
  readonly controller?: string
  readonly alsoKnownAs?: readonly string[]
  readonly verificationMethod?: readonly {
    readonly id: string
    readonly type: 'Multikey'
    readonly controller: string
    readonly publicKeyMultibase: string
  }[]
  readonly authentication?: readonly string[]
  readonly assertionMethod?: readonly string[]
  readonly capabilityInvocation?: readonly string[]
  readonly capabilityDelegation?: readonly string[]
  readonly service?: readonly {
    readonly id: string
    readonly type: string
    readonly serviceEndpoint: string
  }[]
}

/** The document of an entity: its controller, and its services under absolute ids. */
export const entityDocument = (
  id: string,
  controller: string,
  services: readonly Service[],
): DidDocument => ({
  '@context': ['https://www.w3.org/ns/did/v1'],
  id,
  controller,
  ...(services.length > 0 && {
    service: services.map(({ id: fragment, type, endpoint }) => ({
      id: id + fragment,
      type,
      serviceEndpoint: endpoint,
    })),
  }),
})

const ed25519 = Buffer.from('ed01', 'hex')

/** The document that a did:key of an Ed25519 key stands for; undefined when the DID holds no such key. */
export function keyDocument(did: string): DidDocument | undefined {
  const multibase = did.slice('did:key:'.length)
  if (!/^z[1-9A-HJ-NP-Za-km-z]{40,60}$/.test(multibase)) return undefined
  const bytes = base58btc.decode(multibase)
  if (bytes.length !== 34 || !ed25519.equals(bytes.subarray(0, 2))) return undefined
  const id = `${did}#${multibase}`
  return {
    '@context': ['https://www.w3.org/ns/did/v1', 'https://w3id.org/security/multikey/v1'],
    id: did,
    verificationMethod: [{ id, type: 'Multikey', controller: did, publicKeyMultibase: multibase }],
    authentication: [id],
    assertionMethod: [id],
    capabilityInvocation: [id],
    capabilityDelegation: [id],
  }
}

import { base58btc } from 'multiformats/bases/base58'
import { z } from 'zod'
import { didOf, publicKeyOf } from './did.ts'

const method = z.object({
  id: z.string(),
  type: z.string(),
  controller: z.string().optional(),
  publicKeyMultibase: z.string().optional(),
  publicKeyBase58: z.string().optional(),
  publicKeyHex: z.string().optional(),
  publicKeyJwk: z
    .object({ kty: z.string(), crv: z.string().optional(), x: z.string().optional() })
    .optional(),
})
const relationship = z
  .array(z.union([z.string(), method]))
  .max(32)
  .default([])
const document = z.object({
  id: z.string(),
  verificationMethod: z.array(method).max(32).default([]),
  authentication: relationship,
  assertionMethod: relationship,
  capabilityInvocation: relationship,
  capabilityDelegation: relationship,
  // A fault in the services must not make the keys unreadable.
  service: z
    .array(z.object({ id: z.string(), serviceEndpoint: z.unknown().optional() }))
    .max(32)
    .catch([]),
})
const resolution = z.object({
  didDocument: document,
  didDocumentMetadata: z.object({ deactivated: z.boolean().optional() }).optional(),
})

type Method = z.output<typeof method>
/** The parts of a DID document that the runtime looks at. */
export type DidDocumentRead = z.output<typeof document>

const mostKeys = 8

/** What a resolver says of a DID that it could not resolve. */
const failure = z.object({
  didResolutionMetadata: z.object({ error: z.union([z.string(), z.object({ type: z.string() })]) }),
})
/** The errors that say something of the DID; any other error is the resolver's own. */
const definite =
  /(notFound|not_found|invalidDid|invalid_did|deactivated|methodNotSupported|method_not_supported)$/i

/**
 * Reads a resolver's answer: a resolution result or the document alone, of this DID and no other. Throws when the
 * resolver says that it failed.
 */
export function readDidAnswer(did: string, answer: unknown): DidDocumentRead | undefined {
  const { error } = failure.safeParse(answer).data?.didResolutionMetadata ?? {}
  const why = typeof error === 'object' ? error.type : error
  if (why !== undefined && why !== '' && !definite.test(why))
    throw new Error('The resolver failed at the DID.')
  const result = resolution.safeParse(answer)
  const found = result.success ? result.data.didDocument : document.safeParse(answer).data
  if (!found || found.id !== did) return undefined
  if (result.success && result.data.didDocumentMetadata?.deactivated) return undefined
  return found
}

/**
 * The Ed25519 keys that may sign for the DID, as did:keys. A key counts when the DID controls it and
 * it stands in a relationship that is about signing; a key for encryption alone signs nothing.
 */
export function keysOf(found: DidDocumentRead): readonly string[] {
  const absolute = (id: string) => (id.startsWith('#') ? found.id + id : id)
  const known = new Map(found.verificationMethod.map((entry) => [absolute(entry.id), entry]))
  const signing = [
    found.authentication,
    found.assertionMethod,
    found.capabilityInvocation,
    found.capabilityDelegation,
  ].flat()
  const keys = signing
    .map((entry) => (typeof entry === 'string' ? known.get(absolute(entry)) : entry))
    .filter((entry) => entry !== undefined)
    .filter(({ controller = found.id }) => controller === found.id)
    .map(didKeyOf)
    .filter((key) => key !== undefined)
  return [...new Set(keys)].slice(0, mostKeys)
}

function didKeyOf(entry: Method): string | undefined {
  if (entry.publicKeyMultibase !== undefined) {
    const did = `did:key:${entry.publicKeyMultibase}`
    return publicKeyOf(did) ? did : undefined
  }
  const raw = rawKeyOf(entry)
  return raw?.length === 32 ? didOf(raw) : undefined
}

function rawKeyOf({ type, publicKeyJwk, publicKeyBase58, publicKeyHex }: Method) {
  if (publicKeyJwk)
    return publicKeyJwk.kty === 'OKP' && publicKeyJwk.crv === 'Ed25519'
      ? Buffer.from(publicKeyJwk.x ?? '', 'base64url')
      : undefined
  // The key itself has no tag, so the type has to say that the key is Ed25519.
  if (!type.startsWith('Ed25519')) return undefined
  if (publicKeyHex !== undefined) return Buffer.from(publicKeyHex, 'hex')
  if (publicKeyBase58 === undefined || !/^[1-9A-HJ-NP-Za-km-z]{32,44}$/.test(publicKeyBase58))
    return undefined
  return base58btc.decode(`z${publicKeyBase58}`)
}

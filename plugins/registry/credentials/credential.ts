import type { Claim, Evaluation } from '../claims/claim.ts'
import type { StatusEntry } from './status-list.ts'
import { withProof, wholeSeconds, type Key, type Proof } from './data-integrity.ts'

/**
 * W3C's context for credentials, and W3C's context that defines every other name. Both are addresses: common verifiers
 * compare contexts by their addresses, so a context that is written out in place makes a sound proof fail.
 */
const context = [
  'https://www.w3.org/ns/credentials/v2',
  'https://www.w3.org/ns/credentials/undefined-terms/v2',
] as const

/** A verifiable credential (VC Data Model 2.0) of a claim that an oracle approved. */
export interface Credential {
  readonly '@context': typeof context
  readonly id: string
  readonly type: readonly ['VerifiableCredential', 'EvaluatedClaim']
  readonly issuer: string
  readonly validFrom: string
  readonly credentialSubject: {
    readonly id: string
    readonly claim: {
      readonly id: string
      readonly claimType: string
      readonly protocol?: { readonly id: string; readonly version: number }
      readonly submitter: string
      readonly submitted: string
      readonly properties: Readonly<Record<string, unknown>>
    }
    readonly evaluation: {
      readonly oracle: string
      readonly status: 'approved'
      readonly evaluated: string
      readonly notes?: string
    }
  }
  readonly evidence?: Claim['evidence']
  readonly credentialStatus: StatusEntry
  readonly proof: Proof
}

/** Makes and signs the credential of an approved claim. */
export function issue(
  id: string,
  claim: Claim,
  { oracle, notes, timestamp }: Evaluation,
  credentialStatus: StatusEntry,
  key: Key,
): Credential {
  const at = new Date(timestamp)
  const { protocol, evidence } = claim
  return withProof(
    {
      '@context': context,
      id: `urn:uuid:${id}`,
      type: ['VerifiableCredential', 'EvaluatedClaim'],
      issuer: key.did,
      validFrom: wholeSeconds(at),
      credentialSubject: {
        id: claim.subject,
        claim: {
          id: `urn:uuid:${claim.id}`,
          claimType: claim.type,
          ...(protocol && { protocol: { id: protocol.did, version: protocol.version } }),
          submitter: claim.submitter ?? claim.subject,
          submitted: claim.createdAt,
          properties: claim.properties,
        },
        evaluation: {
          oracle,
          status: 'approved',
          evaluated: wholeSeconds(at),
          ...(notes !== undefined && { notes }),
        },
      },
      ...(evidence && { evidence }),
      credentialStatus,
    } as const,
    key,
    at,
  )
}

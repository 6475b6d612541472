import type { Claim, Evaluation } from '../claims/claim.ts'
import { withProof, wholeSeconds, type Key, type Proof } from './data-integrity.ts'

/**
 * W3C's context for credentials; its companion, which gives every other name of ours a meaning; and that the properties
 * of a claim are one JSON value, whose keys are nobody's terms.
 */
const context = [
  'https://www.w3.org/ns/credentials/v2',
  'https://www.w3.org/ns/credentials/undefined-terms/v2',
  {
    properties: {
      '@id': 'https://www.w3.org/ns/credentials/undefined-term#properties',
      '@type': '@json',
    },
  },
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
  readonly proof: Proof
}

/** Makes and signs the credential of an approved claim. */
export function issue(
  id: string,
  claim: Claim,
  { oracle, notes }: Evaluation,
  key: Key,
  at: Date,
): Credential {
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
          submitter: claim.submitter,
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
    } as const,
    key,
    at,
  )
}

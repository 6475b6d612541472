import type { User } from '../../plugin.ts'
import { denials, grants } from './capabilities.ts'
import type { Did } from './did.ts'
import type { Link } from './token.ts'

/** Where the delegation comes from that `can` looks at. */
export type DelegationSource = 'header' | 'stored'
/** Why there is none in force: what `delegation_required` tells the client. */
export type DelegationState = 'missing' | 'expired' | 'revoked' | 'refused'

/** What a credential has proved. */
export interface Caller {
  readonly did: Did
  /** Which token proved it. */
  readonly via: 'invocation' | 'delegation'
  /** When that proof ends, in milliseconds since 1970. A socket closes then. */
  readonly expiresAt: number
  /** The links of every token that came along; a socket closes when one of them is revoked. */
  readonly cids: readonly string[]
  /** Whether the delegation that came in the header is this very token. */
  carries(raw: string): boolean
}

/** The caller, with what his delegation lets him do. */
export interface AuthenticatedUser extends User, Caller {
  readonly did: Did
  /** Where the delegation in force comes from; undefined when there is none. */
  readonly delegation: DelegationSource | undefined
  /** Why there is none. */
  readonly delegationState: DelegationState | undefined
}

/** A delegation in force. */
export interface InForce {
  readonly root: Link
  readonly source: DelegationSource
  /** Milliseconds since 1970. */
  readonly expiresAt: number
}

/** Makes the user that handlers see out of the caller and his delegation, or the lack of one. */
export function createUser(
  { did, via, expiresAt, cids, carries }: Caller,
  delegation: InForce | DelegationState,
  now: () => number,
): AuthenticatedUser {
  const lacking = typeof delegation === 'string'
  // A turn can outlive the delegation that it began with.
  const inForce = () => !lacking && now() < delegation.expiresAt
  return {
    did,
    via,
    expiresAt,
    cids,
    carries,
    delegation: lacking ? undefined : delegation.source,
    delegationState: lacking ? delegation : undefined,
    can: (ability, resource = did) =>
      !lacking && inForce() && grants(delegation.root, ability, resource),
    denial: (ability, resource = did) => {
      if (lacking) return [`No delegation of ${did} is in force: ${delegation}.`]
      if (!inForce()) return [`The delegation of ${did} has expired.`]
      return denials(delegation.root, ability, resource)
    },
  }
}

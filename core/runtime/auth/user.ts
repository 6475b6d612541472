import type { User } from '../../plugin.ts'
import { denials } from './capabilities.ts'
import type { Did } from './did.ts'
import type { Link } from './token.ts'

/** Where the delegation comes from that `can` looks at. */
export type DelegationSource = 'header' | 'stored'
/** Why there is none: what `delegation_required` tells the client. */
export type DelegationState = 'missing' | 'expired' | 'revoked' | 'refused'

/** The caller, once a credential has proved who that is. */
export interface AuthenticatedUser extends User {
  readonly did: Did
  /** Which token proved it. */
  readonly via: 'invocation' | 'delegation'
  /** When that proof ends, in milliseconds since 1970. A socket closes then. */
  readonly expiresAt: number
  /** Where the delegation in force comes from; undefined when there is none. */
  readonly delegation: DelegationSource | undefined
  /** Why there is none. */
  readonly delegationState: DelegationState | undefined
  /** Whether the delegation that came in the header is this very token. */
  carries(raw: string): boolean
}

/** A delegation in force. */
export interface Grant {
  readonly root: Link
  readonly source: DelegationSource
  /** Milliseconds since 1970. */
  readonly until: number
}

export interface Caller {
  readonly did: Did
  readonly via: 'invocation' | 'delegation'
  readonly expiresAt: number
  /** The delegation header, as it came. */
  readonly raw: string | undefined
}

/** Makes the user that handlers see out of a proved caller and the delegation in force, if any. */
export function createUser(
  { did, via, expiresAt, raw }: Caller,
  grant: Grant | DelegationState,
  now: () => number,
): AuthenticatedUser {
  const state = typeof grant === 'string' ? grant : undefined
  const denial = (ability: string, resource: string = did): readonly string[] => {
    if (typeof grant === 'string') return [`No delegation of ${did} is in force: ${grant}.`]
    // A turn can outlive the delegation that it began with.
    if (now() >= grant.until) return [`The delegation of ${did} has expired.`]
    return denials(grant.root, ability, resource)
  }
  return {
    did,
    via,
    expiresAt,
    delegation: typeof grant === 'string' ? undefined : grant.source,
    delegationState: state,
    carries: (other) => raw !== undefined && other === raw,
    denial,
    can: (ability, resource) => denial(ability, resource).length === 0,
  }
}

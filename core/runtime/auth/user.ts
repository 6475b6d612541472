import type { User } from '../../plugin.ts'
import { denials, grants, type OracleDids } from './token/capabilities.ts'
import type { Did } from './did/did.ts'
import type { Rights } from './grants/rights.ts'
import { isKeyAbility, type KeyHolder } from './personal/personal-keys.ts'
import type { Link } from './token/token.ts'

/**
 * Where the delegation comes from that `can` looks at: the caller's own in the header or the database, or one that
 * somebody else made out to the caller, such as the CAR of a grant.
 */
export type DelegationSource = 'header' | 'stored' | 'received'
/** Why no delegation is in force: what `delegation_required` tells the client. */
export type DelegationState = 'missing' | 'expired' | 'revoked' | 'refused'

/** What a credential has proved. */
export interface Caller {
  readonly did: Did
  /** Which token proved the caller. */
  readonly via: 'invocation' | 'delegation' | 'key'
  /** The personal key that proved the caller, where one did. */
  readonly key?: KeyHolder
  /** Whether a key of the DID itself signed the call: not another one, to whom the user has delegated calling. */
  readonly isSelf: boolean
  /** When that proof ends, in milliseconds since 1970. A socket closes then. */
  readonly expiresAt: number
  /** The links of every token that came along; a socket closes when one of them is revoked. */
  readonly cids: readonly string[]
  /** Whether the delegation that came in the header is this very token. */
  carries(raw: string): boolean
}

/** The caller, with what a delegation lets the caller do. */
export interface AuthenticatedUser extends User, Caller {
  readonly did: Did
  /** Where the delegation in force comes from; undefined when there is none. */
  readonly delegation: DelegationSource | undefined
  /** Why no delegation is in force. */
  readonly delegationState: DelegationState | undefined
}

/** A delegation in force. */
export interface InForce {
  readonly root: Link
  readonly source: DelegationSource
  /** Milliseconds since 1970. */
  readonly expiresAt: number
}

/** What decides on users' rights beside their own delegations. */
export interface Judgement {
  readonly oracle: OracleDids
  /** What the operator has granted; without it no user has a grant. */
  readonly rights: Rights | undefined
  readonly now: () => number
}

/** Makes the user that handlers see out of the caller and the caller's delegation, or the lack of one. */
export function createUser(
  { did, via, key, isSelf, expiresAt, cids, carries }: Caller,
  delegation: InForce | DelegationState,
  { oracle, rights, now }: Judgement,
): AuthenticatedUser {
  const lacking = typeof delegation === 'string'
  // A turn can outlive the delegation with which the turn began.
  const inForce = () => !lacking && now() < delegation.expiresAt
  // Asked anew every time: a grant ends when the operator takes it back, also in the middle of a turn.
  const granted = (ability: string, resource: string) =>
    resource === oracle.did && rights?.granted(did, ability) === true
  const lack = (ability: string, resource: string): readonly string[] => {
    if (lacking) return [`No delegation of ${did} is in force: ${delegation}.`]
    if (!inForce()) return [`The delegation of ${did} has expired.`]
    return denials(delegation.root, ability, resource, oracle)
  }
  return {
    did,
    via,
    ...(key && { key }),
    isSelf,
    expiresAt,
    cids,
    carries,
    delegation: lacking ? undefined : delegation.source,
    get delegationState() {
      if (lacking) return delegation
      return inForce() ? undefined : 'expired'
    },
    can(ability, resource = did) {
      // What keys have abilities for, a key opens by its own alone, whatever its user may do.
      if (key && isKeyAbility(ability)) return resource === did && key.can.includes(ability)
      return (
        granted(ability, resource) ||
        (!lacking && inForce() && grants(delegation.root, ability, resource, oracle))
      )
    },
    denial(ability, resource = did) {
      if (key && isKeyAbility(ability))
        return key.can.includes(ability) ? [] : [`The key lacks "${ability}".`]
      if (granted(ability, resource)) return []
      const causes = lack(ability, resource)
      if (causes.length === 0 || resource !== oracle.did) return causes
      return [`No grant of the operator to ${did} covers "${ability}".`, ...causes]
    },
  }
}

import type { User } from '../../plugin.ts'
import type { Rights } from '../auth/grants/rights.ts'

/** A user without a token may do what needs no capability, and what the operator has granted the DID. */
export function asUser(user: User | { readonly did: string }, rights?: Rights): User {
  if ('can' in user) return user
  const { did } = user
  const can = (ability: string, resource = did) =>
    resource === rights?.oracleDid && rights.granted(did, ability)
  return {
    did,
    can,
    denial: (ability, resource) =>
      can(ability, resource) ? [] : ['No delegation of the user came with this turn.'],
  }
}

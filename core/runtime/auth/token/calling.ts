import { grants, hasCaveats } from './capabilities.ts'
import { talkAbility } from '../../../manifest/abilities.ts'
import { isCallerDid, type Did } from '../did/did.ts'
import { refuse } from '../did/refusal.ts'
import type { Link } from './token.ts'

/** The capability in the published client's tokens: it says who calls, and grants nothing more. */
export const identityCapability = { can: '*', with: 'ixo:oracle' } as const

/**
 * The DID that an invocation speaks for: its issuer, when it carries the identity capability and no
 * proofs; the owner of the resource, when it carries `oracle/call` and its proofs lead to that owner. Nobody calls for the
 * oracle itself by proofs: a grant of `oracle/call` on its DID lets its holder talk to the oracle, not be it.
 */
export function callerOf(invocation: Link, oracleDids: ReadonlySet<string>): Did {
  const [capability, ...others] = invocation.ucan.capabilities
  if (!capability || others.length > 0 || hasCaveats(capability)) refuse('does not grant calling')
  if (isIdentity(capability)) {
    if (invocation.proofs.length > 0) refuse('does not grant calling')
    return invocation.issuer
  }
  const user: string = capability.with
  if (oracleDids.has(user) && user !== invocation.issuer) refuse('does not grant calling')
  if (
    capability.can !== talkAbility ||
    !isCallerDid(user) ||
    !grants(invocation, talkAbility, user)
  )
    refuse('does not grant calling')
  return user
}

/** Whether a delegation lets its bearer call as its issuer. */
export function grantsCalling(delegation: Link): boolean {
  return (
    delegation.ucan.capabilities.some((grant) => isIdentity(grant) && !hasCaveats(grant)) ||
    grants(delegation, talkAbility, delegation.issuer)
  )
}

function isIdentity(capability: { can: string; with: string }): boolean {
  return capability.can === identityCapability.can && capability.with === identityCapability.with
}

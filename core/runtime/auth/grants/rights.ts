import { RuntimeError } from '../../../errors.ts'
import type { User } from '../../../plugin.ts'

/** What the operator has granted to callers, by their DID. */
export interface Rights {
  /** The DID that every grant is about. */
  readonly oracleDid: string
  /** Whether a grant in force covers the ability, as far as this process has read. */
  granted(did: string, ability: string): boolean
  /** Reads the grants of a DID unless this process has read them a moment ago: for requests that may never use a grant. */
  load(did: string): void | Promise<void>
  /** Reads the grants of a DID as they are now, also when another server has changed them. Before every decision. */
  refresh(did: string): void | Promise<void>
}

/** Refuses a caller who lacks a right on the oracle's DID, and says who can give it. */
export function notGranted(
  user: User,
  ability: string,
  oracleDid: string,
  forWhat = 'This',
): RuntimeError {
  const { did } = user
  return new RuntimeError(
    'NOT_GRANTED',
    `${forWhat} needs "${ability}" on ${oracleDid}, which ${did} was not granted.`,
    {
      hint: `The operator of the oracle grants it: npm run grant -- ${did} '${ability}' --days 90`,
      details: { ability, resource: oracleDid, causes: user.denial(ability, oracleDid) },
    },
  )
}

import type { User } from '#core'

/** A user who may do everything, or only what is granted here. */
export function anybody(did: string, grants?: readonly string[]): User {
  const can = (ability: string) => grants === undefined || grants.includes(ability)
  return {
    did,
    can,
    denial: (ability) => (can(ability) ? [] : [`The delegation lacks ${ability}.`]),
  }
}

import type { User } from '../../plugin.ts'

/**
 * Makes a user who brought no token: the `verify` of a plugin's route vouches for the DID. Nothing may be done in the name
 * of this user, so `can` is always false.
 */
export const userWithoutRights = (did: string): User => ({
  did,
  can: () => false,
  denial: () => [`${did} is here by the word of a plugin, without a delegation.`],
})

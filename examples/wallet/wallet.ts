import { delegate } from '@ucanto/core'
import type * as API from '@ucanto/interface'
import { ed25519 } from '@ucanto/principal'

/** The result of `createDelegation` and `createInvocation`, as the client library expects it. */
export interface Serialized {
  serialized: string
  /** The end of the token's validity, in milliseconds since 1970. */
  expiresAt: number
}

/** Makes the wallet of a user from 32 random bytes. Everybody who has these bytes can act as the user, so keep them secret. */
export async function createWallet(seed: Uint8Array) {
  const user = await ed25519.derive(seed)

  async function mint(oracleDid: string, lifetime: number, capabilities: API.Capabilities) {
    const expiration = Math.floor(Date.now() / 1000) + lifetime // in seconds
    const token = await delegate({
      issuer: user,
      audience: { did: () => oracleDid as API.DID },
      capabilities,
      expiration,
    })
    const { ok: bytes, error } = await token.archive()
    if (!bytes) throw error
    return { serialized: btoa(String.fromCharCode(...bytes)), expiresAt: expiration * 1000 }
  }

  return {
    did: user.did(),

    /** Makes a token that says who calls. The token is valid for five minutes, for any number of requests. */
    createInvocation: (oracleDid: string): Promise<Serialized> =>
      mint(oracleDid, 5 * 60, [{ can: '*', with: 'ixo:oracle' }]),

    /** Makes a token that lets the oracle act for the user, here with everything that the user controls in the registry. */
    createDelegation: (oracleDid: string): Promise<Serialized> =>
      mint(oracleDid, 7 * 86_400, [{ can: 'registry/*', with: user.did() }]),
  }
}

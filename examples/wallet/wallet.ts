import { delegate } from '@ucanto/core'
import type * as API from '@ucanto/interface'
import { ed25519 } from '@ucanto/principal'

/** What the client library takes from `createDelegation` and `createInvocation`. */
export interface Serialized {
  serialized: string
  /** Milliseconds since 1970. */
  expiresAt: number
}

/** A user is 32 random bytes. Whoever has them is the user: keep them where only he can read. */
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

    /** Says who calls. It lives for minutes and may be sent with every request until it ends. */
    createInvocation: (oracleDid: string): Promise<Serialized> =>
      mint(oracleDid, 5 * 60, [{ can: '*', with: 'ixo:oracle' }]),

    /** Lets the oracle act for the user: here, change everything that is his in the registry. */
    createDelegation: (oracleDid: string): Promise<Serialized> =>
      mint(oracleDid, 7 * 86_400, [{ can: 'registry/*', with: user.did() }]),
  }
}

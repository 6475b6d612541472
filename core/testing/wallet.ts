import { createHash, randomBytes } from 'node:crypto'
import { delegate } from '@ucanto/core'
import type * as API from '@ucanto/interface'
import { ed25519 } from '@ucanto/principal'

/** What a token permits: an ability on a resource. */
export interface Permission {
  /** The ability: `registry/read`, or `*` for all. */
  readonly can: string
  /** The resource, a DID as a rule. */
  readonly with: string
}

/** What delegations and invocations both take. */
export interface TokenOptions {
  /** The DID of the oracle, or of the session key that is granted something. */
  readonly audience: string
  /** How many seconds from now the token is valid. */
  readonly lifetime?: number
  /** Delegations that the capabilities rest on, as tokens of this or another wallet made them. */
  readonly proofs?: readonly Minted[]
  /** Facts that the token states beside its capabilities. */
  readonly facts?: readonly Record<string, unknown>[]
  /** A text that makes the token different from others of the same content. */
  readonly nonce?: string
}

/** A token: the text for a header, and what other tokens are proven with. */
export interface Minted {
  readonly text: string
  /**
   * ucanto's view of the token.
   * @internal The declarations of ucanto do not compile in a strict project, so the package's own leave them out.
   */
  readonly delegation: API.Delegation
}

/** A user with an Ed25519 key, for tests and for development. */
export interface Wallet {
  /** The user's did:key. */
  readonly did: string
  /**
   * ucanto's view of the key.
   * @internal For the same reason as a token's `delegation`.
   */
  readonly signer: API.Signer
  /** Makes a delegation. Without `capabilities` it grants everything that is the user's own, and calling an oracle. */
  delegate(options: TokenOptions & { capabilities?: readonly Permission[] }): Promise<Minted>
  /** Makes an invocation. Without a `capability` it has the one that the published client sends. */
  invoke(options: TokenOptions & { capability?: Permission }): Promise<Minted>
  /** The headers of a request to an oracle: a fresh invocation, and a delegation beside it. */
  headers(oracleDid: string): Promise<Record<string, string>>
}

const identityCapability: Permission = { can: '*', with: 'ixo:oracle' }

/**
 * Makes a wallet. The same words make the same user; without words the user is a new one. The words become a key in the same
 * way as an oracle's mnemonic.
 */
export async function createWallet(words?: string): Promise<Wallet> {
  const seed =
    words === undefined ? randomBytes(32) : createHash('sha256').update(words.trim()).digest()
  const signer = await ed25519.derive(new Uint8Array(seed))
  const did = signer.did()

  async function mint(
    { audience, lifetime = 300, proofs = [], facts = [], nonce }: TokenOptions,
    capabilities: readonly Permission[],
  ): Promise<Minted> {
    const delegation = await delegate({
      issuer: signer,
      audience: { did: () => audience as API.DID }, // callers pass DIDs as they read them
      capabilities: [...capabilities] as API.Capabilities, // never empty: see the callers
      expiration: Math.floor(Date.now() / 1000) + lifetime,
      proofs: proofs.map((proof) => proof.delegation),
      facts: facts as API.Fact[], // JSON; ucanto's type lists what CBOR can hold
      ...(nonce === undefined ? {} : { nonce }),
    })
    return { text: await textOf(delegation), delegation }
  }

  const wallet: Wallet = {
    did,
    signer,
    delegate: ({ capabilities = [identityCapability, { can: '*', with: did }], ...options }) =>
      mint({ lifetime: 86_400, ...options }, capabilities),
    invoke: ({ capability = identityCapability, ...options }) => mint(options, [capability]),
    async headers(oracleDid) {
      const invocation = await wallet.invoke({ audience: oracleDid })
      const delegation = await wallet.delegate({ audience: oracleDid })
      return {
        authorization: `Bearer ${invocation.text}`,
        'x-auth-type': 'ucan',
        'x-ucan-delegation': delegation.text,
      }
    },
  }
  return wallet
}

/**
 * The text of a token: its archive in padded base64.
 * @internal For the same reason as a token's `delegation`.
 */
export async function textOf(delegation: API.Delegation): Promise<string> {
  const archive = await delegation.archive()
  if (archive.error) throw archive.error
  return Buffer.from(archive.ok).toString('base64')
}

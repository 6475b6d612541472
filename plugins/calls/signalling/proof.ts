import { type Oracle, RuntimeError } from '#core'

/** What shows a page that it talks to the oracle and to nobody in between. */
export interface Proof {
  /** The DID that the oracle goes by. */
  readonly did: string
  /** The did:key that signed. */
  readonly key: string
  /** The Ed25519 signature over the lines of the call, in base64url. */
  readonly signature: string
}

/** The two ends of a call, by the fingerprints of their certificates. */
export interface Ends {
  readonly callId: string
  readonly sessionId: string
  readonly offered: string
  readonly answered: string
}

/** The text that is signed for a call. */
export const provenText = ({ callId, sessionId, offered, answered }: Ends): string =>
  ['oracle-call-v1', callId, sessionId, offered, answered].join('\n')

/** Signs who the two ends of a call are. */
export function proofOf({ did, key }: Oracle, ends: Ends): Proof {
  if (!key)
    throw new RuntimeError('SIGNING_KEY_NOT_LOADED', 'The oracle has no key to prove a call with.')
  const signature = key.sign(new TextEncoder().encode(provenText(ends)))
  return { did, key: key.did, signature: Buffer.from(signature).toString('base64url') }
}

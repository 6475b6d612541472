import { RuntimeError } from '../../../errors.ts'

/** Why a credential was refused. A closed list: the log names one of these reasons, and the caller never sees the reason. */
export type Reason =
  | 'no credential'
  | 'not a bearer token'
  | 'delegations alone do not authenticate here'
  | 'too long'
  | 'not standard padded base64'
  | 'not a canonical archive'
  | 'a block does not match its hash'
  | 'not a canonical UCAN'
  | 'not an Ed25519 signature'
  | 'a DID of an unsupported kind'
  | 'too many blocks'
  | 'too deep'
  | 'too many proofs'
  | 'too many capabilities'
  | 'a proof is missing, repeated, out of order or not referenced'
  | 'a proof is for another audience'
  | 'for another audience'
  | 'of another user'
  | 'never expires'
  | 'expired'
  | 'not valid yet'
  | 'lives too long'
  | 'does not grant calling'
  | 'too many issuers to look up'
  | 'the keys of the issuer cannot be resolved'
  | 'a key or signature of small order'
  | 'a signature does not hold'
  | 'revoked'
  | 'bound to another request'
  | 'used before'
  | 'too many bound tokens at once'

/** One credential is refused. Carries a reason and nothing of what was sent. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  readonly reason: Reason

  constructor(reason: Reason) {
    super(reason)
    this.reason = reason
  }
}

/** Ends the examination of a credential. */
export function refuse(reason: Reason): never {
  throw new Refusal(reason)
}

/** What every 401 carries, whichever check failed and whichever kind of credential was asked for. */
export const challenge = {
  'WWW-Authenticate': 'Bearer realm="oracle", error="invalid_token"',
  'Cache-Control': 'no-store',
}

/** The one 401 of the runtime: the same words for every reason. */
export function unauthorized(): RuntimeError {
  return new RuntimeError('UNAUTHORIZED', 'No valid credential came with the request.', {
    hint: 'Send "Authorization: Bearer <UCAN invocation>" with "X-Auth-Type: ucan".',
    headers: { ...challenge },
  })
}

/** The 401 of an oracle without a signing key. */
export function signingKeyNotLoaded(): RuntimeError {
  return new RuntimeError('SIGNING_KEY_NOT_LOADED', 'The oracle has no signing key.', {
    hint: 'Set ORACLE_MNEMONIC and start again.',
    headers: { ...challenge },
  })
}

import { delegate, Signature } from '@ucanto/core'
import type * as API from '@ucanto/interface'
import type { Did } from '../did/did.ts'
import type { Signer } from '../did/signer.ts'

/** What the oracle's key is to sign. */
interface Minting {
  readonly audience: Did
  readonly abilities: readonly string[]
  readonly resource: Did
  /** Seconds since 1970. */
  readonly expiration: number
  readonly nonce: string
}

/** Signs a delegation by the oracle's key. `car` is the text that its holder can carry or prove others with. */
export async function mint(
  signer: Signer,
  { audience, abilities, resource, expiration, nonce }: Minting,
): Promise<{ readonly cid: string; readonly car: string }> {
  const delegation = await delegate({
    issuer: issuerOf(signer),
    audience: { did: () => audience },
    capabilities: abilities.map((can) => ({ can, with: resource })) as API.Capabilities, // never empty: the schema of a grant says so
    expiration,
    nonce,
  })
  const archive = await delegation.archive()
  if (archive.error) throw archive.error
  return {
    cid: delegation.cid.toString(),
    car: Buffer.from(archive.ok).toString('base64'),
  }
}

/** The part of ucanto's signer that signing a delegation needs: the key itself stays in the signer. */
function issuerOf(signer: Signer): API.Signer {
  const { did } = signer
  const part: Pick<API.Signer, 'did' | 'signatureCode' | 'signatureAlgorithm' | 'sign'> = {
    did: () => did,
    signatureCode: Signature.EdDSA,
    signatureAlgorithm: 'EdDSA',
    sign: (payload) => Signature.create(Signature.EdDSA, signer.sign(payload)),
  }
  return part as API.Signer
}

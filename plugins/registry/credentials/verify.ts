import { createPublicKey, verify } from 'node:crypto'
import { base58btc } from 'multiformats/bases/base58'
import { z } from 'zod'
import { faultsOf, giveWay, type Oracle } from '#core'
import { canonicalJson } from './canonical-json.ts'
import { digest, proofBytesOf } from './data-integrity.ts'

/** How many proofs of one credential, and how many keys of one issuer, the registry reads at most. */
const mostProofs = 4
const mostKeys = 8

const instant = z.string().refine((text) => !Number.isNaN(Date.parse(text)), 'is no date')
const proof = z.looseObject({
  type: z.literal('DataIntegrityProof'),
  cryptosuite: z.literal('eddsa-jcs-2022'),
  proofPurpose: z.literal('assertionMethod'),
  verificationMethod: z.string().max(2048),
  // An Ed25519 signature has 64 bytes, at most 88 digits in base58. Decoding base58 takes quadratic time, so longer texts are refused.
  proofValue: z.string().regex(/^z[1-9A-HJ-NP-Za-km-z]{60,90}$/),
  expires: instant.optional(),
})

/** The members of a credential that say who issued the credential, and when it is valid. */
const document = z.looseObject({
  type: z.union([z.literal('VerifiableCredential'), z.array(z.string())]),
  issuer: z.string(),
  validFrom: instant.optional(),
  validUntil: instant.optional(),
  issuanceDate: instant.optional(),
  expirationDate: instant.optional(),
})

/** The parts of the oracle that the verification of other issuers' credentials uses. */
export type Verifying = Pick<Oracle, 'did' | 'aliases' | 'key' | 'keysOf'>

/** Whether a credential carries a proof, be the proof valid or not. */
export const carriesProof = (credential: object): boolean => 'proof' in credential

/**
 * The reason why a credential is not valid; undefined when its proofs hold. The registry fetches no address that stands in
 * the credential: the keys come from a did:key itself, from this oracle, or from the oracle's resolver.
 */
export async function whyNot(
  credential: Readonly<Record<string, unknown>>,
  oracle: Verifying,
  now: number,
): Promise<string | undefined> {
  const read = document.safeParse(credential)
  if (!read.success) return `its ${faultsOf(read.error)[0]?.path} is not one of a credential`
  const { issuer, type } = read.data
  if (![type].flat().includes('VerifiableCredential'))
    return 'its type does not say VerifiableCredential'
  const { validFrom, issuanceDate, validUntil, expirationDate } = read.data
  for (const begins of [validFrom, issuanceDate])
    if (begins !== undefined && Date.parse(begins) > now + clockSkewMs) return 'it is not valid yet'
  for (const ends of [validUntil, expirationDate])
    if (ends !== undefined && Date.parse(ends) <= now) return 'it has expired'

  const { proof: proofs, ...unproven } = credential
  const list = Array.isArray(proofs) ? proofs : [proofs]
  if (list.length === 0 || list.length > mostProofs)
    return `it carries ${list.length} proofs; 1 to ${mostProofs} are read`
  const keys = await keysOf(issuer, oracle)
  if (keys.length === 0) return `the keys of its issuer ${issuer} are not known here`
  let hashed: Uint8Array | undefined
  // Hashes the document once for all proofs, and only after a proof has passed its schema.
  const digestOfAll = () => (hashed ??= digest(unproven))
  for (const one of list) {
    await giveWay()
    const fault = whyNotProof(one, unproven, digestOfAll, issuer, keys, now)
    if (fault !== undefined) return fault
  }
  return undefined
}

/** How far the clock of an honest issuer may be ahead of this server's clock. */
const clockSkewMs = 60_000

function whyNotProof(
  given: unknown,
  unproven: object,
  digestOfAll: () => Uint8Array,
  issuer: string,
  keys: readonly string[],
  now: number,
): string | undefined {
  const read = proof.safeParse(given)
  if (!read.success)
    return (
      `the ${faultsOf(read.error)[0]?.path || 'form'} of its proof is not read here; proofs ` +
      'are of the cryptosuite eddsa-jcs-2022'
    )
  const { proofValue, ...options } = read.data
  if (options.expires !== undefined && Date.parse(options.expires) <= now)
    return 'its proof has expired'
  const [method, fragment] = options.verificationMethod.split('#', 2)
  if (method !== issuer || !fragment) return 'its proof is by another key than the issuer’s'
  const candidates = keys.filter((key) => issuer !== key || key.endsWith(`:${fragment}`))
  const signature = base58btc.decode(proofValue)
  if (signature.length !== 64) return 'its signature is not one of an Ed25519 key'
  if ('@context' in options && !isSame(options['@context'], contextOf(unproven)))
    return 'its proof is about another @context'
  const bytes = proofBytesOf(digestOfAll(), options)
  const holds = candidates.some((key) => verify(null, bytes, publicKeyOf(key), signature))
  return holds ? undefined : 'its signature does not hold'
}

const contextOf = (unproven: object) => ('@context' in unproven ? unproven['@context'] : undefined)
const isSame = (a: unknown, b: unknown) => b !== undefined && canonicalJson(a) === canonicalJson(b)

/** The keys of an issuer, as did:keys. */
async function keysOf(
  issuer: string,
  { did, aliases, key, keysOf }: Verifying,
): Promise<readonly string[]> {
  if (issuer === did || aliases.includes(issuer)) return key ? [key.did] : []
  if (rawKeyOf(issuer)) return [issuer]
  if (!issuer.startsWith('did:ixo:')) return []
  return (await keysOf(issuer)).filter((one) => rawKeyOf(one) !== undefined).slice(0, mostKeys)
}

/** The 32 bytes of an Ed25519 key in a did:key. */
function rawKeyOf(did: string): Uint8Array | undefined {
  if (!/^did:key:z6Mk[1-9A-HJ-NP-Za-km-z]{40,48}$/.test(did)) return undefined
  const bytes = base58btc.decode(did.slice('did:key:'.length))
  return bytes.length === 34 && bytes[0] === 0xed && bytes[1] === 0x01
    ? bytes.subarray(2)
    : undefined
}

const publicKeyOf = (did: string) =>
  createPublicKey({
    key: {
      kty: 'OKP',
      crv: 'Ed25519',
      x: Buffer.from(rawKeyOf(did) ?? []).toString('base64url'),
    },
    format: 'jwk',
  })

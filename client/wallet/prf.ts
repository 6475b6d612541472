import { OracleError } from '../core/error.ts'
import { type Key, keyOf } from './ucan.ts'

/** What the passkey computes its secret over. Other words are another user. */
const salt = new TextEncoder().encode('oracle-runtime wallet 1')
const purpose = new TextEncoder().encode('ed25519')
/** EdDSA, ES256, RS256: what authenticators of today sign with. The signature of the passkey itself is not used. */
const algorithms = [-8, -7, -257]
/** How long a person may take over the gesture. */
const gestureMs = 120_000

/** The site of the passkey, and how the browser names it to its user. */
export interface PasskeySite {
  /** The domain that the passkey belongs to; without it, the page's own. A parent domain serves all its pages. */
  readonly rpId?: string
  /** The name of the site. */
  readonly rpName: string
  /** The name of the account, as the browser lists it. */
  readonly userName: string
}

/** What one gesture gives: the user's key for this moment, and which passkey it was. */
interface Gesture {
  readonly key: Key
  readonly credential: Uint8Array<ArrayBuffer>
}

/** Makes a passkey. Where it cannot compute secrets (PRF) it is of no use, and the error says so. */
export async function newPasskey({ rpId, rpName, userName }: PasskeySite): Promise<Gesture> {
  demandPasskeys()
  const credential = await asked(() =>
    navigator.credentials.create({
      publicKey: {
        rp: { name: rpName, ...(rpId !== undefined && { id: rpId }) },
        user: { id: random(), name: userName, displayName: userName },
        challenge: random(),
        pubKeyCredParams: algorithms.map((alg) => ({ type: 'public-key', alg })),
        authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
        extensions: { prf: { eval: { first: salt } } },
        timeout: gestureMs,
      },
    }),
  )
  const { prf } = credential.getClientExtensionResults()
  if (!prf?.enabled && !prf?.results) throw unsupported('This passkey computes no secret (PRF).')
  // Some authenticators say at creation only that they can, and compute at the next gesture.
  return prf.results ? gestureOf(credential) : usePasskey(rpId, new Uint8Array(credential.rawId))
}

/** Asks for the passkey: a certain one, or whichever the user picks. */
export async function usePasskey(rpId?: string, credential?: Uint8Array): Promise<Gesture> {
  demandPasskeys()
  const allowed = credential && [{ type: 'public-key' as const, id: new Uint8Array(credential) }]
  return gestureOf(
    await asked(() =>
      navigator.credentials.get({
        publicKey: {
          ...(rpId !== undefined && { rpId }),
          challenge: random(),
          userVerification: 'required',
          extensions: { prf: { eval: { first: salt } } },
          timeout: gestureMs,
          ...(allowed && { allowCredentials: allowed }),
        },
      }),
    ),
  )
}

async function gestureOf(credential: PublicKeyCredential): Promise<Gesture> {
  const secret = credential.getClientExtensionResults().prf?.results?.first
  if (!secret) throw unsupported('This passkey computes no secret (PRF).')
  const bytes = ArrayBuffer.isView(secret)
    ? new Uint8Array(secret.buffer, secret.byteOffset, secret.byteLength)
    : new Uint8Array(secret)
  const base = await crypto.subtle.importKey('raw', bytes, 'HKDF', false, ['deriveBits'])
  bytes.fill(0)
  const derivation = { name: 'HKDF', hash: 'SHA-256', salt: new Uint8Array(), info: purpose }
  const seed = new Uint8Array(await crypto.subtle.deriveBits(derivation, base, 256))
  try {
    return { key: await keyOf(seed), credential: new Uint8Array(credential.rawId) }
  } finally {
    seed.fill(0)
  }
}

/** Runs a gesture; what the browser throws becomes an error that says what to do. */
async function asked(ask: () => Promise<Credential | null>): Promise<PublicKeyCredential> {
  let credential: Credential | null
  try {
    credential = await ask()
  } catch (cause) {
    const { name, message } = cause as Error // the browser's own
    if (name === 'NotAllowedError' || name === 'AbortError')
      throw new OracleError('passkey_cancelled', 'The passkey was not given.', {
        cause,
        hint: 'It was cancelled, took too long, or this device has none for this site. Try again, or make one.',
      })
    if (name === 'NotSupportedError' || name === 'ConstraintError')
      throw unsupported(`This device makes no such passkey: ${message}`, cause)
    throw new OracleError('invalid_request', `The browser refused the passkey: ${message}`, {
      cause,
      hint: 'Check `rpId`: it must be the domain of the page, or a parent domain.',
    })
  }
  if (!(credential instanceof PublicKeyCredential))
    throw unsupported('The browser gave no passkey.')
  return credential
}

function demandPasskeys(): void {
  if (typeof PublicKeyCredential === 'undefined' || !globalThis.crypto?.subtle)
    throw unsupported(
      'This page has no passkeys: it is not served by https, or the browser is old.',
    )
}

const unsupported = (message: string, cause?: unknown) =>
  new OracleError('passkey_unsupported', message, {
    cause,
    hint: 'Offer `createGuestWallet()`, or another wallet.',
  })

const random = () => crypto.getRandomValues(new Uint8Array(32))

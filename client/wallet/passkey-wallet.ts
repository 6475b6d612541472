import { OracleError } from '../core/error.ts'
import { seal, unsealed } from '../core/kept.ts'
import { forget, type Kept, keptWallets } from './kept.ts'
import { newPasskey, type PasskeySite, usePasskey } from './prf.ts'
import {
  invocation,
  newPair,
  secondsOf,
  sessionMs,
  signedOut,
  type Wallet,
  walletOf,
} from './session-key.ts'
import { type Grant, type Key, keyOfPair, mint, proofOf } from './ucan.ts'

/** An oracle that the user is signed in to. */
export interface PasskeyOracle {
  readonly did: string
  /** Where the oracle answers. */
  readonly baseUrl: string
}

/** The options of the functions that make a passkey wallet. */
export interface PasskeyWalletOptions extends PasskeySite {
  /** The oracles of the page, ten at most: the gesture signs a delegation for each. */
  readonly oracles: readonly PasskeyOracle[]
  /** What an oracle may do for the user; without it, everything with what is the user's own. */
  readonly grants?: readonly Grant[]
}

/** A user with a passkey. */
export interface PasskeyWallet extends Wallet {
  /** False where the browser keeps nothing (a private window): then the session ends with the page. */
  readonly isKept: boolean
  /** When the next gesture is due, in milliseconds since 1970. */
  readonly until: number
  /** Asks for the gesture now. A request that finds the session over does so itself, when the user has just acted. */
  renew(): Promise<void>
  /** Ends the session in this browser, in all its tabs. */
  signOut(): Promise<void>
  /** Ends every session of the user with these oracles, on every device. Rejects, and stays signed in, where one does not answer. */
  signOutEverywhere(): Promise<void>
}

const mostOracles = 10
const patienceMs = 30_000

/** The tokens of a session: the proof that its key speaks for the user, and what each oracle may do. */
interface Tokens {
  readonly proof: string
  readonly delegations: Readonly<Record<string, string>>
}

/** Makes a passkey, and with it a new user. One gesture. */
export async function createPasskeyWallet(options: PasskeyWalletOptions): Promise<PasskeyWallet> {
  checkOracles(options)
  return begin(options, await newPasskey(options))
}

/** Signs in a user who has a passkey of this site, made here or on another device. One gesture. */
export async function signInWithPasskey(options: PasskeyWalletOptions): Promise<PasskeyWallet> {
  checkOracles(options)
  return begin(options, await usePasskey(options.rpId))
}

/** The user who is signed in in this browser, without a question; undefined where nobody is. */
export async function openPasskeyWallet(
  options: PasskeyWalletOptions,
): Promise<PasskeyWallet | undefined> {
  checkOracles(options)
  const kept = await keptWallets.get(nameOf(options))
  return kept && walletFrom(options, kept, true)
}

type Gesture = Awaited<ReturnType<typeof usePasskey>>

async function begin(options: PasskeyWalletOptions, gesture: Gesture): Promise<PasskeyWallet> {
  const { kept, isKept } = await newSession(options, gesture)
  return walletFrom(options, kept, isKept)
}

/** Lets a key of this browser speak for the user until the session ends, and signs what the oracles may do. */
async function newSession(options: PasskeyWalletOptions, { key, credential }: Gesture) {
  const pair = await newPair()
  const session = await keyOfPair(pair)
  const { did } = key
  const until = Date.now() + sessionMs
  const exp = secondsOf(until)
  const calling: Grant[] = [{ can: 'oracle/call', with: did }]
  const proof = await mint(key, session.did, calling, exp)
  const delegations: Record<string, string> = {}
  for (const oracle of options.oracles)
    delegations[oracle.did] = await delegation(options, oracle.did, { key, session, proof, exp })
  const tokens: Tokens = { proof, delegations }
  const kept = { did, pair, until, credential, sealed: await seal(tokens) }
  const isKept = await keptWallets.set(nameOf(options), kept)
  await Promise.all(options.oracles.map((oracle) => handIn(oracle, kept, tokens)))
  return { kept, isKept }
}

/**
 * What an oracle may do for the user. It rests on the session's proof, by way of the session's key: so whoever revokes it
 * revokes the session too, and the oracle needs to know of no other token.
 */
async function delegation(
  { grants }: PasskeyWalletOptions,
  oracleDid: string,
  made: { key: Key; session: Key; proof: string; exp: number },
): Promise<string> {
  const { key, session, proof, exp } = made
  const { did } = key
  const own = grants ?? [
    { can: '*', with: 'ixo:oracle' },
    { can: '*', with: did },
  ]
  const calling = [{ can: 'oracle/call', with: did }]
  const back = await mint(session, did, calling, exp, [proofOf(proof)])
  return mint(key, oracleDid, own, exp, [proofOf(back)])
}

/** Gives an oracle the delegation to keep, so that another device can end this session. An oracle that is away is told later. */
async function handIn({ did, baseUrl }: PasskeyOracle, kept: Kept, tokens: Tokens): Promise<void> {
  const body = JSON.stringify({ raw: tokens.delegations[did] })
  await send(did, `${baseUrl}/delegation`, kept, tokens, { method: 'POST', body }).catch(() => {})
}

async function send(
  oracleDid: string,
  url: string,
  kept: Kept,
  tokens: Tokens,
  request: RequestInit,
): Promise<void> {
  const { serialized } = await invocation(kept.pair, kept, [proofOf(tokens.proof)], oracleDid)
  const response = await fetch(url.replace(/([^:])\/\/+/g, '$1/'), {
    ...request,
    headers: {
      authorization: `Bearer ${serialized}`,
      'x-auth-type': 'ucan',
      'x-ucan-delegation': tokens.delegations[oracleDid] ?? '',
      ...(request.body !== undefined && { 'content-type': 'application/json' }),
    },
    signal: AbortSignal.timeout(patienceMs),
  })
  if (!response.ok && response.status !== 401)
    throw new OracleError('server', `${oracleDid} answered ${response.status}.`)
}

function walletFrom(options: PasskeyWalletOptions, first: Kept, isKept: boolean): PasskeyWallet {
  const name = nameOf(options)
  const { did } = first
  let { until } = first
  let renewing: Promise<void> | undefined
  const acts = actsOf()

  const renew = () =>
    (renewing ??= (async () => {
      const gesture = await usePasskey(options.rpId, first.credential)
      if (gesture.key.did !== did)
        throw new OracleError('unauthorized', 'This passkey is another user’s.')
      until = (await newSession(options, gesture)).kept.until
    })().finally(() => {
      renewing = undefined
      acts.used()
    }))

  /** The session as it stands: another tab may have ended or renewed it. */
  const current = async (): Promise<{ kept: Kept; tokens: Tokens }> => {
    const kept = await keptWallets.get(name)
    if (!kept || kept.did !== did) throw signedOut()
    const tokens = await unsealed<Tokens>(kept.sealed)
    if (tokens && Date.now() < kept.until) return { kept, tokens }
    // Nobody is asked out of the blue: only who has just clicked or typed.
    if (!acts.isNew())
      throw new OracleError('unauthorized', 'Your session has ended.', { hint: 'Sign in again.' })
    await renew()
    return current()
  }

  const signOut = () => forget(name, did)

  return {
    ...walletOf(did, 'The passkey wallet'),
    isKept,
    get until() {
      return until
    },
    renew,
    signOut,
    async createInvocation(oracleDid) {
      const { kept, tokens } = await current()
      return invocation(kept.pair, kept, [proofOf(tokens.proof)], oracleDid)
    },
    async createDelegation(oracleDid) {
      const { kept, tokens } = await current()
      const serialized = tokens.delegations[oracleDid]
      if (serialized === undefined)
        throw new OracleError('delegation_required', `Nothing was signed for ${oracleDid}.`, {
          hint: 'Name the oracle in `oracles`, and sign in again.',
        })
      return { serialized, expiresAt: kept.until }
    },
    async signOutEverywhere() {
      const { kept, tokens } = await current()
      // A delegation that an oracle has not heard of yet is ended by the header as well.
      for (const { did: oracleDid, baseUrl } of options.oracles)
        await send(oracleDid, `${baseUrl}/delegation`, kept, tokens, { method: 'DELETE' })
      await signOut()
    },
  }
}

/** Whether the user has just clicked or typed, and not yet been asked for it: who cancels a gesture is not asked again at once. */
function actsOf(): { isNew(): boolean; used(): void } {
  let isUsed = false
  for (const name of ['pointerdown', 'keydown'])
    document.addEventListener(name, () => (isUsed = false), { capture: true, passive: true })
  return {
    isNew: () => !isUsed && navigator.userActivation?.isActive !== false,
    used: () => void (isUsed = true),
  }
}

const nameOf = ({ rpId }: PasskeySite) => `passkey ${rpId ?? location.hostname}`

function checkOracles({ oracles }: PasskeyWalletOptions): void {
  if (oracles.length === 0 || oracles.length > mostOracles)
    throw new OracleError('invalid_request', `A wallet is for 1 to ${mostOracles} oracles.`)
}

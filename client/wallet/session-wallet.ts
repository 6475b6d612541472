import { seal, unsealed } from '../core/kept.ts'
import { forget, type Kept, keptWallets } from './kept.ts'
import {
  invocation,
  newPair,
  secondsOf,
  sessionMs,
  signedOut,
  type Wallet,
  walletOf,
} from './session-key.ts'
import { type Grant, keyOfPair, proofOf } from './ucan.ts'

/** The options of `createSessionWallet`. */
export interface SessionWalletOptions {
  /** The user. */
  readonly did: string
  /**
   * Asks the user's own wallet, an extension for example, to sign a delegation: a CAR in base64. `expiration` is in seconds
   * since 1970.
   */
  readonly delegate: (
    audience: string,
    capabilities: readonly Grant[],
    expiration: number,
  ) => Promise<string>
  /** What oracles may do for the user. With it the wallet is asked once more for each oracle; without it, no oracle may do anything. */
  readonly grants?: readonly Grant[]
}

/** A user whose own wallet is asked once in thirty days. */
export interface SessionWallet extends Wallet {
  /** False where the browser keeps nothing (a private window): then the wallet is asked at each load. */
  readonly isKept: boolean
  /** Ends the session in this browser, in all its tabs. */
  signOut(): Promise<void>
}

interface Tokens {
  readonly proof: string
  readonly delegations: Readonly<Record<string, string>>
}

/** Lets a key of this browser call for a user whose wallet asks at every signature. */
export async function createSessionWallet(options: SessionWalletOptions): Promise<SessionWallet> {
  const { did, delegate, grants } = options
  const name = `session ${did}`
  let isKept = true
  let opening: Promise<{ kept: Kept; tokens: Tokens }> | undefined
  let isOut = false

  const keep = async (pair: CryptoKeyPair, until: number, tokens: Tokens) => {
    const kept: Kept = { did, pair, until, sealed: await seal(tokens) }
    isKept = await keptWallets.set(name, kept)
    return { kept, tokens }
  }
  const begin = async () => {
    const pair = await newPair()
    const until = Date.now() + sessionMs
    const { did: key } = await keyOfPair(pair)
    const proof = await delegate(key, [{ can: 'oracle/call', with: did }], secondsOf(until))
    proofOf(proof)
    return keep(pair, until, { proof, delegations: {} })
  }
  const found = async () => {
    const kept = await keptWallets.get(name)
    if (!kept && isOut) throw signedOut()
    const tokens = kept && Date.now() < kept.until && (await unsealed<Tokens>(kept.sealed))
    return kept && tokens ? { kept, tokens } : begin()
  }
  const current = () => (opening ??= found().finally(() => (opening = undefined)))

  const delegation = async (oracleDid: string): Promise<string> => {
    if (!grants) return ''
    const { kept, tokens } = await current()
    const known = tokens.delegations[oracleDid]
    if (known !== undefined) return known
    const made = await delegate(oracleDid, grants, secondsOf(kept.until))
    await keep(kept.pair, kept.until, {
      ...tokens,
      delegations: { ...tokens.delegations, [oracleDid]: made },
    })
    return made
  }

  await current()
  return {
    ...walletOf(did, 'The session wallet'),
    get isKept() {
      return isKept
    },
    async createInvocation(oracleDid) {
      const { kept, tokens } = await current()
      return invocation(kept.pair, kept, [proofOf(tokens.proof)], oracleDid)
    },
    async createDelegation(oracleDid) {
      const serialized = await delegation(oracleDid)
      return { serialized, expiresAt: (await current()).kept.until }
    },
    async signOut() {
      isOut = true
      await forget(name, did)
    },
  }
}

import { forget, keptWallets } from './kept.ts'
import { newPair, secondsOf, signedOut, type Wallet, walletOf } from './session-key.ts'
import { type Grant, keyOfPair, mint } from './ucan.ts'

/** A user without an account: a key in this browser. */
export interface GuestWallet extends Wallet {
  /** False where the browser keeps nothing (a private window): then the account ends with the page. */
  readonly isKept: boolean
  /** Throws the key away, and with it the account. */
  signOut(): Promise<void>
}

const invocationMs = 5 * 60 * 1000
const delegationMs = 7 * 24 * 60 * 60 * 1000
const name = 'guest'

/** A guest, the same at every visit. The key cannot be exported, and clearing the browser's data ends the account: say so. */
export async function createGuestWallet({
  grants,
}: { readonly grants?: readonly Grant[] } = {}): Promise<GuestWallet> {
  const found = await keptWallets.get(name)
  const pair = found?.pair ?? (await newPair())
  const key = await keyOfPair(pair)
  const { did } = key
  // Written again at each visit, so that it is known whether the browser keeps it.
  const isKept = await keptWallets.set(name, { did, pair, until: Infinity })
  const identity: Grant = { can: '*', with: 'ixo:oracle' }
  const minted = async (oracleDid: string, att: readonly Grant[], ms: number) => {
    if ((await keptWallets.get(name))?.did !== did) throw signedOut()
    const exp = secondsOf(Date.now() + ms)
    return { serialized: await mint(key, oracleDid, att, exp), expiresAt: exp * 1000 }
  }
  return {
    ...walletOf(did, 'The guest’s wallet'),
    isKept,
    createInvocation: (oracleDid) => minted(oracleDid, [identity], invocationMs),
    createDelegation: (oracleDid) =>
      minted(oracleDid, grants ?? [identity, { can: '*', with: did }], delegationMs),
    signOut: () => forget(name, did),
  }
}

import { OracleError } from '../core/error.ts'
import type { IWalletProps, MintFn, Serialized, TransactionFn } from '../core/records.ts'
import { type Key, keyOfPair, mint, type Proof } from './ucan.ts'
import { signsNothing } from './without-ledger.ts'

/** What every wallet here gives `OraclesProvider`: `<OraclesProvider {...wallet}>`. */
export interface Wallet {
  readonly initialWallet: IWalletProps
  readonly transactSignX: TransactionFn
  readonly createDelegation: MintFn
  readonly createInvocation: MintFn
}

/** How long a session lasts without another gesture or question. */
export const sessionMs = 30 * 24 * 60 * 60 * 1000
const invocationMs = 5 * 60 * 1000

/** Seconds since 1970, as tokens have them. */
export const secondsOf = (ms: number): number => Math.floor(ms / 1000)

/** A key pair whose private half cannot be exported. */
export async function newPair(): Promise<CryptoKeyPair> {
  try {
    return (await crypto.subtle.generateKey('Ed25519', false, ['sign', 'verify'])) as CryptoKeyPair
  } catch (cause) {
    throw new OracleError('passkey_unsupported', 'This browser keeps no key of this kind.', {
      cause,
      hint: 'Serve the page by https, or update the browser (Ed25519 in Web Crypto).',
    })
  }
}

/** The token of a call by a session key, which ends with the session at the latest. */
export async function invocation(
  pair: CryptoKeyPair,
  { did, until }: { readonly did: string; readonly until: number },
  proofs: readonly Proof[],
  oracleDid: string,
): Promise<Serialized> {
  const exp = secondsOf(Math.min(Date.now() + invocationMs, until))
  const key: Key = await keyOfPair(pair)
  const capability = { can: 'oracle/call', with: did }
  return {
    serialized: await mint(key, oracleDid, [capability], exp, proofs),
    expiresAt: exp * 1000,
  }
}

/** What the provider wants beside the tokens. */
export const walletOf = (
  did: string,
  name: string,
): Pick<Wallet, 'initialWallet' | 'transactSignX'> => ({
  initialWallet: { address: did, did, matrix: { accessToken: '', homeServer: '' } },
  transactSignX: signsNothing(name, 'Give `OraclesProvider` a `transactSignX` of your own.'),
})

/** The error of a wallet whose user is not there any more. */
export const signedOut = (): OracleError =>
  new OracleError('unauthorized', 'You are signed out.', { hint: 'Sign in again.' })

import type { IWalletProps, MintFn, TransactionFn } from '../core/records.ts'
import { fromBase64, type Grant, keyOf, mint, toBase64 } from './ucan.ts'
import { signsNothing } from './without-ledger.ts'

export type { Grant } from './ucan.ts'

/** The options of `createDevelopmentWallet`. */
export interface DevelopmentWalletOptions {
  /** Where the wallet keeps its key, so that the user is the same at the next visit. Any script of the page can read it there. */
  readonly storage?: Pick<Storage, 'getItem' | 'setItem'>
  /** The user's 32 secret bytes; a wallet that gets them stores nothing. */
  readonly seed?: Uint8Array
  /** What the oracle may do for the user; without it, everything with what is the user's own. */
  readonly grants?: readonly Grant[]
  /**
   * The address of a server on whose development ledger the user has an account. The server keeps the key of the account
   * and signs with it whatever the page asks for.
   */
  readonly ledger?: string
}

/** The props of `OraclesProvider`: `<OraclesProvider {...wallet}>`. */
export interface DevelopmentWallet {
  readonly initialWallet: IWalletProps
  readonly transactSignX: TransactionFn
  readonly createDelegation: MintFn
  readonly createInvocation: MintFn
}

const invocationSeconds = 5 * 60
const delegationSeconds = 7 * 24 * 60 * 60
const storageKey = 'oracle-development-wallet'

/** A wallet with an Ed25519 key, for development: it signs whatever the page asks for, and does not ask the user. */
export async function createDevelopmentWallet({
  storage,
  seed,
  grants,
  ledger,
}: DevelopmentWalletOptions = {}): Promise<DevelopmentWallet> {
  const key = await keyOf(seed ?? seedIn(storage ?? localStorage))
  const { did } = key

  const minting =
    (seconds: number, att: readonly Grant[]): MintFn =>
    async (oracleDid) => {
      const exp = Math.floor(Date.now() / 1000) + seconds
      return { serialized: await mint(key, oracleDid, att, exp), expiresAt: exp * 1000 }
    }
  const identity: Grant = { can: '*', with: 'ixo:oracle' }
  const minted = {
    createInvocation: minting(invocationSeconds, [identity]),
    createDelegation: minting(delegationSeconds, grants ?? [identity, { can: '*', with: did }]),
  }
  const account = ledger === undefined ? undefined : await accountOn(ledger, minted)
  return {
    initialWallet: {
      address: account?.address ?? did,
      did,
      matrix: { accessToken: '', homeServer: '' },
    },
    transactSignX:
      account?.transactSignX ??
      signsNothing(
        'The development wallet',
        'Give it the address of a server with a development ledger: { ledger }.',
      ),
    ...minted,
  }
}

const accountOn = async (
  ledger: string,
  minted: Pick<DevelopmentWallet, 'createDelegation' | 'createInvocation'>,
) => (await import('../later/development-ledger.ts')).accountAt(ledger, minted)

function seedIn(storage: Pick<Storage, 'getItem' | 'setItem'>): Uint8Array {
  const kept = storage.getItem(storageKey)
  if (kept !== null) return fromBase64(kept)
  const seed = crypto.getRandomValues(new Uint8Array(32))
  storage.setItem(storageKey, toBase64(seed))
  return seed
}

import type { LedgerKey } from '../ledger/keys.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { TypedBytes } from '../ledger/messages.ts'
import { type SignedTx, signTx } from '../ledger/tx.ts'

/** What the oracle signs its transactions with. */
export interface SignerParts {
  readonly key: LedgerKey
  readonly address: string
  readonly chainId: string
  readonly denom: string
  /** What one unit of gas costs, in the smallest unit; 0 where transactions cost nothing. */
  readonly gasPrice: number
}

/** A signed transaction, and the sequence that it uses up. */
export type SequencedTx = SignedTx & { readonly sequence: number }

/** Signs transactions of the oracle's account. */
export class Signer {
  readonly address: string
  readonly #parts: SignerParts

  constructor(parts: SignerParts) {
    this.#parts = parts
    this.address = parts.address
  }

  /** Signs messages by the sequence that the ledger has now. Undefined where the ledger does not know the account. */
  async sign(
    ledger: Ledger,
    messages: readonly TypedBytes[],
    memo: string,
  ): Promise<SequencedTx | undefined> {
    const { key, address, chainId, denom, gasPrice } = this.#parts
    const account = await ledger.account(address)
    if (!account) return undefined
    const { number: accountNumber, sequence } = account
    const made = (gas: number) => {
      const fee = Math.ceil(gas * gasPrice)
      const coins = fee > 0 ? [{ denom, amount: String(fee) }] : []
      return signTx({ messages, memo, fee: coins, gas, chainId, accountNumber, sequence }, key)
    }
    // A transaction takes somewhat more than it took when it was tried.
    const gas = Math.ceil((await ledger.simulate(made(0).bytes)) * 1.4)
    return { ...made(gas), sequence }
  }
}

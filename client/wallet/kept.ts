import { refused, type Sealed, within } from '../core/kept.ts'

const database = 'oracle-wallet'

/** What one wallet keeps in this browser: keys that nothing can export, and texts that such a key has sealed. */
export interface Kept {
  /** The user. */
  readonly did: string
  /** Signs for the user; its private half cannot be exported. */
  readonly pair: CryptoKeyPair
  /** Milliseconds since 1970: the end of what the key may do. */
  readonly until: number
  /** The passkey that the user came with. */
  readonly credential?: Uint8Array
  /** What `seal` made of the tokens, and the key that opens it. */
  readonly sealed?: Sealed
}

/** The browser's database of wallets. Where the browser refuses one (a private window), this page's memory stands in. */
export const keptWallets = {
  async get(name: string): Promise<Kept | undefined> {
    const found = await within<Kept | undefined>(database, 'readonly', (rows) => rows.get(name))
    return found === refused ? memory.get(name) : found
  },
  /** Whether the browser kept it; else it is gone at the next load of the page. */
  async set(name: string, kept: Kept): Promise<boolean> {
    const isKept = (await within(database, 'readwrite', (rows) => rows.put(kept, name))) !== refused
    if (!isKept) memory.set(name, kept)
    return isKept
  },
  async delete(name: string): Promise<void> {
    memory.delete(name)
    await within(database, 'readwrite', (rows) => rows.delete(name))
  },
}

const memory = new Map<string, Kept>()

/** Forgets a wallet, and the tokens that the provider keeps for its user: the end of a session in this browser. */
export async function forget(name: string, did: string): Promise<void> {
  await keptWallets.delete(name)
  const { forgetTokens } = await import('../later/kept-tokens.ts')
  await forgetTokens(did)
}

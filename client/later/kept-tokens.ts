import { refused, seal, type Sealed, unsealed, within } from '../core/kept.ts'
import type { Serialized } from '../core/records.ts'

const database = 'oracle-tokens'
/** A token that ends so soon is not worth keeping, nor reading. */
const leastMs = 60_000

/** The tokens of one user that outlive a reload. */
export class KeptTokens {
  readonly #did: string
  /** The tokens of everybody else are forgotten before this user's are looked at. */
  readonly #ready: Promise<unknown>
  /** What is being forgotten: the database may still have it for a moment. */
  readonly #refused = new Set<string>()

  constructor(did: string) {
    this.#did = did
    this.#ready = forgetOthers(did)
  }

  /** A token that this browser keeps and that is good for a while. */
  async get(name: string): Promise<Serialized | undefined> {
    await this.#ready
    if (this.#refused.has(name)) return undefined
    const key = [this.#did, name]
    const found = await within<Sealed | undefined>(database, 'readonly', (rows) => rows.get(key))
    const token = found === refused ? undefined : await unsealed<Serialized>(found)
    return token && token.expiresAt - Date.now() > leastMs ? token : undefined
  }

  /** Keeps a token, encrypted; where the browser keeps nothing the token lives as long as the page. */
  async set(name: string, token: Serialized): Promise<void> {
    if (token.expiresAt - Date.now() <= leastMs) return
    this.#refused.delete(name)
    const sealed = await seal(token).catch(() => undefined)
    const key = [this.#did, name]
    if (sealed) await within(database, 'readwrite', (rows) => rows.put(sealed, key))
  }

  /** Forgets a token that an oracle has refused. */
  async delete(name: string): Promise<void> {
    this.#refused.add(name)
    await within(database, 'readwrite', (rows) => rows.delete([this.#did, name]))
  }
}

/** Forgets the tokens that this browser keeps for a user, or for everybody: what a wallet does when its user signs out. */
export async function forgetTokens(did?: string): Promise<void> {
  await within(database, 'readwrite', (rows) =>
    did === undefined ? rows.clear() : rows.delete(IDBKeyRange.bound([did], [did, []])),
  )
}

/** Keys are lists of a DID and a name, and a list sorts behind every text. */
async function forgetOthers(did: string): Promise<void> {
  await within(database, 'readwrite', (rows) => {
    rows.delete(IDBKeyRange.upperBound([did], true))
    return rows.delete(IDBKeyRange.lowerBound([did, []], true))
  })
}

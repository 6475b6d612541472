import { OracleError } from './error.ts'
import type { MintFn, Serialized } from './records.ts'

type Kind = 'delegation' | 'invocation'

/** The client makes a new token so long before the old one expires, or a tenth of its life when that is shorter. */
const earlyMs = 30_000

/** Where tokens outlive a reload. */
export interface TokenBox {
  get(name: string): Promise<Serialized | undefined>
  set(name: string, token: Serialized): Promise<void>
  delete(name: string): Promise<void>
}

interface Held {
  readonly made: Promise<Serialized>
  /** The token, once it is made. */
  token?: string
  until: number
}

/** The tokens of one user: a delegation and an invocation for each oracle. */
export class Tokens {
  readonly #mint: (kind: Kind) => MintFn | undefined
  readonly #box: (() => Promise<TokenBox | undefined>) | undefined
  readonly #held = new Map<string, Held>()

  /** Without a box, tokens live as long as the page. */
  constructor(mint: (kind: Kind) => MintFn | undefined, box?: () => Promise<TokenBox | undefined>) {
    this.#mint = mint
    this.#box = box
  }

  /** The token to call an oracle with; undefined when the wallet makes none of the kind. */
  async get(kind: Kind, oracleDid: string): Promise<string | undefined> {
    const mint = this.#mint(kind)
    if (!mint) return undefined
    const name = `${kind} ${oracleDid}`
    const before = this.#held.get(name)
    const held = before && Date.now() < before.until ? before : this.#make(name, mint, oracleDid)
    try {
      return (await held.made).serialized
    } catch (cause) {
      throw new OracleError(
        kind === 'delegation' ? 'delegation_required' : 'unauthorized',
        `The wallet made no ${kind}: ${(cause as Error)?.message ?? cause}`,
        { cause },
      )
    }
  }

  #make(name: string, mint: MintFn, oracleDid: string): Held {
    const begun = Date.now()
    const make = async () => {
      const box = await this.#box?.()
      const kept = await box?.get(name)
      const token = kept ?? (await mint(oracleDid))
      if (!kept) void box?.set(name, token)
      return token
    }
    const held: Held = { made: make(), until: Infinity }
    this.#held.set(name, held)
    held.made.then(
      ({ serialized, expiresAt }) => {
        held.token = serialized
        held.until = expiresAt - Math.min(earlyMs, (expiresAt - begun) / 10)
      },
      () => this.#held.delete(name),
    )
    return held
  }

  /** Forgets the tokens that an oracle refused, or all tokens for that oracle; a token made meanwhile stays. */
  drop(oracleDid: string, refused?: Readonly<Record<string, string>>): void {
    for (const kind of ['delegation', 'invocation']) {
      const name = `${kind} ${oracleDid}`
      const token = this.#held.get(name)?.token
      const isRefused = (value: string) => token && value.endsWith(token)
      if (refused && !Object.values(refused).some(isRefused)) continue
      this.#held.delete(name)
      void this.#box?.().then((box) => box?.delete(name))
    }
  }

  /** The headers of a request that carry both tokens. */
  async headers(oracleDid: string): Promise<Record<string, string>> {
    const [delegation, invocation] = await Promise.all([
      this.get('delegation', oracleDid),
      this.get('invocation', oracleDid),
    ])
    return {
      ...(invocation && { authorization: `Bearer ${invocation}`, 'x-auth-type': 'ucan' }),
      ...(delegation && { 'x-ucan-delegation': delegation }),
    }
  }
}

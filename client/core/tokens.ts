import { OracleError } from './error.ts'
import type { MintFn, Serialized } from './records.ts'

type Kind = 'delegation' | 'invocation'

/** The client makes a new token so long before the old one expires, or a tenth of its life when that is shorter. */
const earlyMs = 30_000

/** The tokens of one user: a delegation and an invocation for each oracle. */
export class Tokens {
  readonly #mint: (kind: Kind) => MintFn | undefined
  readonly #minting = new Map<string, Promise<Serialized>>()
  readonly #held = new Map<string, { token: string; until: number }>()

  constructor(mint: (kind: Kind) => MintFn | undefined) {
    this.#mint = mint
  }

  /** The token to call an oracle with; undefined when the wallet makes none of the kind. */
  async get(kind: Kind, oracleDid: string): Promise<string | undefined> {
    const mint = this.#mint(kind)
    if (!mint) return undefined
    const key = `${kind} ${oracleDid}`
    const held = this.#held.get(key)
    if (held && Date.now() < held.until) return held.token
    let minting = this.#minting.get(key)
    if (!minting) {
      minting = (async () => mint(oracleDid))().finally(() => this.#minting.delete(key))
      this.#minting.set(key, minting)
      const begun = Date.now()
      void minting.then(
        ({ serialized, expiresAt }) =>
          this.#held.set(key, {
            token: serialized,
            until: expiresAt - Math.min(earlyMs, (expiresAt - begun) / 10),
          }),
        () => {},
      )
    }
    try {
      return (await minting).serialized
    } catch (cause) {
      throw new OracleError(
        kind === 'delegation' ? 'delegation_required' : 'unauthorized',
        `The wallet made no ${kind}: ${(cause as Error)?.message ?? cause}`,
        { cause },
      )
    }
  }

  /** Forgets the tokens that an oracle refused, or all tokens for that oracle; a token made meanwhile stays. */
  drop(oracleDid: string, refused?: Readonly<Record<string, string>>): void {
    for (const kind of ['delegation', 'invocation']) {
      const key = `${kind} ${oracleDid}`
      const token = this.#held.get(key)?.token
      if (!refused || (token && Object.values(refused).some((value) => value.endsWith(token))))
        this.#held.delete(key)
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

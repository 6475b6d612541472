import { Cache } from '../base/cache.ts'
import type { Delegations } from './grants/delegations.ts'

/** How long an answer counts: what another replica stores meanwhile, this process sees no later than this. */
const livesMs = 2_000
const mostUsers = 10_000

/** Which delegation each user has stored, remembered for a moment, so that a request costs no query of its own. */
export class StoredDelegations {
  readonly #delegations: Delegations
  readonly #oracleDid: string
  readonly #known = new Cache<{ readonly raw: string | undefined; readonly until: number }>(
    mostUsers,
  )

  constructor(delegations: Delegations, oracleDid: string) {
    this.#delegations = delegations
    this.#oracleDid = oracleDid
  }

  /** The delegation that a user has posted, as it came; undefined when there is none. What is known is answered at once. */
  of(user: string): string | undefined | Promise<string | undefined> {
    const entry = this.#known.get(user)
    return entry && Date.now() < entry.until ? entry.raw : this.#read(user)
  }

  async #read(user: string): Promise<string | undefined> {
    const raw = (await this.#delegations.current(user, this.#oracleDid))?.raw
    this.#known.set(user, { raw, until: Date.now() + livesMs })
    return raw
  }

  /** Makes the next request of this user ask the database again. */
  forget(user: string): void {
    this.#known.delete(user)
  }
}

import { RuntimeError } from '#core'
import type { UsageRow } from '../tables.ts'
import type { Writing } from '../writing.ts'

/** The most that one DID makes of each kind, ever. */
export type Quotas = Readonly<Record<Kind, number>>
type Kind = Exclude<keyof UsageRow, 'did'>

/** The variables that set the quotas. */
export const variables = {
  entities: 'REGISTRY_ENTITIES_PER_DID',
  protocols: 'REGISTRY_PROTOCOLS_PER_DID',
  edges: 'REGISTRY_EDGES_PER_DID',
  claims: 'REGISTRY_CLAIMS_PER_DID',
} as const satisfies Record<Kind, string>
const kinds = Object.keys(variables) as Kind[] // the keys of the object above

/**
 * What the writer of a transaction may still make. DIDs cost nothing, so each has a quota, which counts what it
 * ever made: what is removed leaves its history behind. The holder of an API key has none.
 */
export class Allowance {
  readonly #writing: Writing
  readonly #quotas: Quotas
  readonly #used: Record<Kind, number>
  #changed = false

  private constructor(writing: Writing, quotas: Quotas, used: Record<Kind, number>) {
    this.#writing = writing
    this.#quotas = quotas
    this.#used = used
  }

  static async open(writing: Writing, quotas: Quotas): Promise<Allowance> {
    const { did } = writing.actor
    const row =
      did === undefined
        ? undefined
        : await writing.db
            .selectFrom('registry_usage')
            .selectAll()
            .where('did', '=', did)
            .executeTakeFirst()
    const { entities = 0, protocols = 0, edges = 0, claims = 0 } = row ?? {}
    return new Allowance(writing, quotas, { entities, protocols, edges, claims })
  }

  /** Counts what is made, or throws and counts nothing. */
  take(wanted: Partial<Readonly<Record<Kind, number>>>): void {
    const { did } = this.#writing.actor
    if (did === undefined) return
    for (const kind of kinds) {
      const most = this.#quotas[kind]
      if (!wanted[kind] || this.#used[kind] + wanted[kind] <= most) continue
      throw new RuntimeError(
        'QUOTA_EXCEEDED',
        `${did} has made ${this.#used[kind]} ${kind}, and one DID makes ${most} at most.`,
        {
          status: 429,
          // Only the operator gives more, and nobody knows when: whoever asks by machine asks seldom.
          headers: { 'Retry-After': '3600' },
          hint: `Ask the operator, who can raise ${variables[kind]} or make it with an API key.`,
          details: { quota: variables[kind], limit: most, used: this.#used[kind] },
        },
      )
    }
    for (const kind of kinds) this.#used[kind] += wanted[kind] ?? 0
    this.#changed = true
  }

  /** Keeps the count, in the transaction that makes what was counted. */
  async keep(): Promise<void> {
    const { did } = this.#writing.actor
    if (did === undefined || !this.#changed) return
    await this.#writing.db
      .insertInto('registry_usage')
      .values({ did, ...this.#used })
      .onConflict((conflict) => conflict.column('did').doUpdateSet(this.#used))
      .execute()
  }
}

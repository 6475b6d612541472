import { RuntimeError } from '#core'
import type { UsageRow } from '../tables.ts'
import type { Writing } from '../writing.ts'

/** How much of each kind one DID may ever make. */
export type Quotas = Readonly<Record<Kind, number>>
type Kind = Exclude<keyof UsageRow, 'did'>

/** The variables that set the quotas. */
export const variables = {
  entities: 'REGISTRY_ENTITIES_PER_DID',
  protocols: 'REGISTRY_PROTOCOLS_PER_DID',
  edges: 'REGISTRY_EDGES_PER_DID',
  claims: 'REGISTRY_CLAIMS_PER_DID',
} as const satisfies Record<Kind, string>
const kinds = Object.keys(variables) as Kind[] // Object.keys loses the type of the keys of `variables`

/**
 * The quota of the writer of a transaction. Anybody can make DIDs, so each DID has a quota. The quota counts all that the
 * DID has ever made, because removed things keep their history. The holder of an API key has no quota.
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

  /** Reads how much the writer of a transaction has made so far. */
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

  /** Counts what a request makes, or throws and counts nothing. */
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
          // Only the operator raises a quota, at an unknown time, so a program should retry seldom.
          headers: { 'Retry-After': '3600' },
          hint: `Ask the operator, who can raise ${variables[kind]} or make it with an API key.`,
          details: { quota: variables[kind], limit: most, used: this.#used[kind] },
        },
      )
    }
    for (const kind of kinds) this.#used[kind] += wanted[kind] ?? 0
    this.#changed = true
  }

  /** Stores the count in the same transaction that makes the counted things. */
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

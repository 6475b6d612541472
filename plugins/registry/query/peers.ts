import type { Opened, WantedOpen } from '../claims/opened.ts'
import { withClaimTables } from '../claims/tables.ts'
import type { ImprecisionOf } from '../evaluation/minting.ts'
import { at, namesOf } from '../indexes/values.ts'
import type { Queries, Query } from './queries.ts'
import type { Calling } from '../rights/actor.ts'
import { claimsOf, type Readers } from '../rights/reader.ts'
import type { RegistryDatabase } from '../tables.ts'

/** A twin that a query found, with the value of one property, such as the stratum of a household. */
export interface FoundTwin {
  readonly did: string
  readonly value: unknown
}

/** An approved claim as other plugins read it. */
export interface ApprovedClaim {
  readonly id: string
  readonly subject: string
  readonly properties: Readonly<Record<string, unknown>>
}

/** Which approved claims another plugin asks for: about these twins, submitted in a span of time. */
export interface WantedClaims {
  readonly protocol: string
  readonly subjects: readonly string[]
  readonly since?: string | undefined
  readonly until?: string | undefined
}

/** What other plugins find at the registry. Whatever they ask for is read as the caller who asks them. */
export interface PeerDoor {
  /** The twins of which a condition holds now, each with the value at a path of its properties. */
  twins(
    query: Pick<Query, 'where' | 'parameters'>,
    path: string | undefined,
    calling: Calling,
  ): AsyncIterable<FoundTwin>
  /** The newest approved claim about each of some twins. */
  approved(wanted: WantedClaims, calling: Calling): Promise<readonly ApprovedClaim[]>
  /** Opens a claim about each of some twins, to be filled in later; the same purpose opens none twice. */
  openClaims(wanted: WantedOpen, calling: Calling): Promise<Opened>
  /** The claims of a purpose that wait, by the twins that they are about. */
  openAbout(
    wanted: Omit<WantedOpen, 'type'>,
    calling: Calling,
  ): Promise<ReadonlyMap<string, string>>
  /** Has another plugin tell how far the measured mean of a project may be off: that share is taken off what is minted. */
  learnImprecision(imprecisionOf: ImprecisionOf): void
}

/** How many twins one query gives to another plugin. */
const mostTwins = 1_000_000
const pageSize = 1000
const atOnce = 500

/** A time as columns keep it, which are compared as texts: in UTC and with milliseconds. */
const asKept = (time: string): string => new Date(time).toISOString()

/** What other plugins ask of the registry. */
export class Peers {
  readonly #db: RegistryDatabase
  readonly #queries: Queries
  readonly #readers: Readers

  constructor(db: RegistryDatabase, queries: Queries, readers: Readers) {
    this.#db = db
    this.#queries = queries
    this.#readers = readers
  }

  /** The twins of which a condition holds, page by page. */
  async *twins(
    query: Pick<Query, 'where' | 'parameters'>,
    path: string | undefined,
    calling: Calling,
  ): AsyncGenerator<FoundTwin> {
    const reader = this.#readers.of(calling)
    let cursor: string | undefined
    for (let found = 0; found < mostTwins;) {
      const page = await this.#queries.find(
        { ...query, limit: pageSize, ...(cursor !== undefined && { cursor }) },
        reader,
      )
      for (const { did, properties } of page.items)
        yield { did, value: path === undefined ? undefined : at(properties, namesOf(path)) }
      found += page.items.length
      cursor = page.nextCursor
      if (cursor === undefined) return
    }
    throw new RangeError(`A query finds more than ${mostTwins} twins.`)
  }

  /** The newest approved claim about each of some twins. */
  async approved(
    { protocol, subjects, since, until }: WantedClaims,
    calling: Calling,
  ): Promise<ApprovedClaim[]> {
    const reader = this.#readers.of(calling)
    const newest = new Map<string, ApprovedClaim>()
    for (let from = 0; from < subjects.length; from += atOnce) {
      let query = withClaimTables(this.#db)
        .selectFrom('registry_claims')
        .select(['id', 'subject', 'properties'])
        .where('subject', 'in', subjects.slice(from, from + atOnce))
        .where('protocol', '=', protocol)
        .where('status', '=', 'approved')
        .where(claimsOf(reader))
      if (since !== undefined) query = query.where('created_at', '>=', asKept(since))
      if (until !== undefined) query = query.where('created_at', '<', asKept(until))
      for (const { id, subject, properties } of await query.orderBy('ordinal').execute())
        newest.set(subject, { id, subject, properties: JSON.parse(properties) })
    }
    return [...newest.values()]
  }
}

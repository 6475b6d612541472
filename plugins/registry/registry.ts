import { setImmediate as breathe } from 'node:timers/promises'
import type { Database, Oracle } from '#core'
import { Claims, type AskForWork } from './claims/claims.ts'
import { OpenClaims } from './claims/opened.ts'
import { Credentials } from './credentials/credentials.ts'
import { PresentedCredentials } from './credentials/presented.ts'
import { Batches } from './entities/batch.ts'
import { Changes } from './entities/changes.ts'
import { Creation } from './entities/creation.ts'
import { Entities } from './entities/entities.ts'
import { Evaluations } from './evaluation/evaluations.ts'
import { Minting, type ImprecisionOf } from './evaluation/minting.ts'
import { Provenances } from './evaluation/provenance.ts'
import { Indexes, type AskToFill } from './indexes/indexes.ts'
import { Queries } from './query/queries.ts'
import { Systems } from './graph/system.ts'
import { Traversal } from './graph/traverse.ts'
import { ProtocolChanges } from './protocols/changes.ts'
import { Conformance } from './protocols/conformance.ts'
import { Protocols } from './protocols/protocols.ts'
import { Feed } from './reading/feed.ts'
import { Peers } from './query/peers.ts'
import { Lists } from './reading/lists.ts'
import { Resolution } from './resolution/resolution.ts'
import { actorOf, type Actor, type Calling } from './rights/actor.ts'
import type { Quotas } from './rights/allowance.ts'
import { Readers } from './rights/reader.ts'
import { Subscriptions } from './subscriptions/subscriptions.ts'
import { withRegistryTables } from './tables.ts'
import { Writer, type Write } from './writing.ts'

/** What `Registry` needs from boot. */
export interface RegistryOptions {
  readonly db: Database
  readonly oracle: Oracle
  /** Types whose entities are organisational domains. */
  readonly organisational: ReadonlySet<string>
  readonly quotas: Quotas
  /** Whether every caller reads everything; else a caller reads what is the caller's own, or everything with a grant. */
  readonly isPublic: boolean
  /** Keeps the job that fills indexes. */
  readonly askToFill: AskToFill
  /** Keeps the jobs about claims. */
  readonly askForWork: AskForWork
  /** What other plugins know of how far the measured mean of a project may be off. */
  readonly imprecisionOf: ImprecisionOf
}

/** The registry and all its parts. The first request loads this module. */
export class Registry {
  readonly #oracleDid: string
  readonly #write: Write
  readonly #indexes: Indexes
  readonly queries: Queries
  readonly subscriptions: Subscriptions
  readonly readers: Readers
  readonly entities: Entities
  readonly lists: Lists
  readonly graph: Traversal
  readonly systems: Systems
  readonly changes: Changes
  readonly batches: Batches
  readonly protocols: Protocols
  readonly protocolChanges: ProtocolChanges
  readonly conformance: Conformance
  readonly claims: Claims
  readonly opened: OpenClaims
  readonly evaluations: Evaluations
  readonly minting: Minting
  readonly provenances: Provenances
  readonly peers: Peers
  readonly credentials: Credentials
  readonly resolution: Resolution
  readonly feed: Feed

  constructor(options: RegistryOptions) {
    const { db: untyped, oracle, organisational, quotas, isPublic, askToFill } = options
    const { askForWork: ask, imprecisionOf } = options
    const db = withRegistryTables(untyped)
    const feed = new Feed(db)
    const writer = new Writer(db, () => feed.announce())
    const write: Writer['write'] = (actor, work) => writer.write(actor, work)
    const protocols = new Protocols(db)
    const presented = new PresentedCredentials(db, oracle)
    const oracleDid = oracle.did
    const indexes = new Indexes(db, askToFill)
    const making = { db, presented, quotas, protocols, indexes, organisational, oracleDid }
    const creation = new Creation(making)
    const entities = new Entities(db)
    this.#oracleDid = oracleDid
    this.feed = feed
    this.readers = new Readers(db, oracleDid, isPublic)
    this.entities = entities
    this.lists = new Lists(db, entities)
    this.graph = new Traversal(db, entities)
    this.systems = new Systems(db, this.graph)
    this.changes = new Changes({
      db,
      write,
      entities,
      protocols,
      indexes,
      creation,
      presented,
      quotas,
    })
    this.batches = new Batches(write, creation)
    this.protocols = protocols
    this.protocolChanges = new ProtocolChanges({ write, protocols, indexes, oracleDid, quotas })
    this.conformance = new Conformance(db, protocols)
    const claims = new Claims({ db, write, oracle, protocols, quotas, ask })
    this.claims = claims
    this.opened = new OpenClaims(db, write, protocols)
    this.evaluations = new Evaluations({ db, claims, protocols, oracleDid })
    this.minting = new Minting({
      db,
      write,
      protocols,
      changes: this.changes,
      oracleDid,
      imprecisionOf,
    })
    this.provenances = new Provenances(db, entities, protocols)
    this.credentials = new Credentials({ db, write, oracle })
    this.#write = write
    this.#indexes = indexes
    this.queries = new Queries(db, this.lists)
    this.subscriptions = new Subscriptions(db, this.queries, oracle, isPublic)
    this.peers = new Peers(db, this.queries, this.readers)
    this.resolution = new Resolution(db, oracle)
  }

  /** Fills and clears indexes, a bounded step in each transaction, until there is nothing left to do. */
  async fillIndexes(signal?: AbortSignal): Promise<void> {
    const server = { name: this.#oracleDid, did: undefined, isOperator: true, actsFor: () => true }
    while (await this.#write(server, ({ db }) => this.#indexes.step(db))) {
      signal?.throwIfAborted()
      await breathe()
    }
  }

  /** The actor behind a call of a route or a tool. */
  actorOf(calling: Calling): Actor {
    return actorOf(calling, this.#oracleDid)
  }
}

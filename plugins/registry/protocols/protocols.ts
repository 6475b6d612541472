import { prepared } from '#core'
import { conformTo, type Conform } from './conform.ts'
import type { Effective } from './definition.ts'
import { writeCursor, type Page } from '../reading/page.ts'
import { gone, notFound } from '../refusal.ts'
import { protocolsOf, type Reader } from '../rights/reader.ts'
import { seenAmong } from '../rights/seen-among.ts'
import type { ProtocolDefinition } from '../request.ts'
import type { ProtocolRow, ProtocolVersionRow, RegistryDatabase } from '../tables.ts'

/** A protocol as it goes over the wire. */
export interface Protocol extends ProtocolDefinition {
  readonly did: string
  readonly version: number
  readonly controller: string
  /** The definition of the protocol with all that the protocol inherits. */
  readonly effective: Effective
  readonly createdAt: string
  readonly updatedAt: string
}

/** A version of a protocol, ready to check with. */
export interface Checker extends Effective {
  readonly did: string
  readonly version: number
  readonly conform: Conform
}

/** How many checkers stay in memory. */
const mostKept = 1000

/** Reads protocols, and compiles the checks of their versions. */
export class Protocols {
  readonly #db: RegistryDatabase
  readonly #rowOf
  readonly #byVersion
  /** The compiled checkers. A version never changes, so its checker stays valid; the oldest leaves when there are `mostKept`. */
  readonly #kept = new Map<string, Checker>()

  constructor(db: RegistryDatabase) {
    this.#db = db
    this.#rowOf = prepared(db, (p: { did: string }) =>
      db.selectFrom('registry_protocols').selectAll().where('did', '=', p.did),
    )
    this.#byVersion = prepared(db, (p: { did: string; version: number }) =>
      db
        .selectFrom('registry_protocol_versions')
        .selectAll()
        .where('did', '=', p.did)
        .where('version', '=', p.version),
    )
  }

  /** The row of a version. */
  async versionOf(
    did: string,
    version: number,
    on = this.#db,
  ): Promise<ProtocolVersionRow | undefined> {
    return (await this.#byVersion({ did, version }, on)).rows[0]
  }

  /** The checker of a version of a protocol. */
  async checker(did: string, version: number, on = this.#db): Promise<Checker | undefined> {
    const key = `${did} ${version}`
    const known = this.#kept.get(key)
    if (known) return known
    const row = await this.versionOf(did, version, on)
    if (!row) return undefined
    const effective: Effective = JSON.parse(row.effective)
    const made = { did, version, ...effective, conform: conformTo(effective) }
    this.#kept.set(key, made)
    const oldest = this.#kept.keys().next()
    if (this.#kept.size > mostKept && !oldest.done) this.#kept.delete(oldest.value)
    return made
  }

  /** The checker of the newest version of an active protocol. */
  async newest(did: string, on = this.#db): Promise<Checker | undefined> {
    const { rows } = await this.#rowOf({ did }, on)
    return rows[0]?.status === 'active' ? this.checker(did, rows[0].version, on) : undefined
  }

  /** The row of an active protocol: 404 for an unknown protocol, 410 for a removed one. */
  async active(did: string, on = this.#db): Promise<ProtocolRow> {
    const { rows } = await this.#rowOf({ did }, on)
    if (rows[0]?.status === 'active') return rows[0]
    throw rows[0]
      ? gone('protocol', did, { did, status: 'deactivated' })
      : notFound('protocol', did)
  }

  /** The newest version of every protocol, in the order of creation. */
  async list(reader: Reader, limit: number, after = 0): Promise<Page<Protocol>> {
    const rows = await this.#db
      .selectFrom('registry_protocols as protocol')
      .innerJoin('registry_protocol_versions as kept', (join) =>
        join.onRef('kept.did', '=', 'protocol.did').onRef('kept.version', '=', 'protocol.version'),
      )
      .selectAll('protocol')
      .select(['kept.definition', 'kept.effective', 'kept.created_at as made_at'])
      .where('protocol.status', '=', 'active')
      .where(protocolsOf(reader, 'protocol'))
      .where('protocol.ordinal', '>', after)
      .orderBy('protocol.ordinal')
      .limit(limit + 1)
      .execute()
    const last = rows.length > limit ? rows[limit - 1] : undefined
    return {
      items: rows.slice(0, limit).map(({ definition, effective, made_at, ...row }) =>
        wire(row, {
          did: row.did,
          version: row.version,
          definition,
          effective,
          created_at: made_at,
        }),
      ),
      ...(last && { nextCursor: writeCursor(last.ordinal) }),
    }
  }

  /** A protocol that the reader sees, or an earlier version of it. */
  async read(did: string, reader: Reader, version?: number): Promise<Protocol> {
    if ((await seenAmong(this.#db, 'protocol', [did], reader)).size === 0)
      throw notFound('protocol', did)
    const row = await this.active(did)
    const found = await this.versionOf(did, version ?? row.version)
    if (found) return wire(row, found)
    throw notFound(`version ${version} of the protocol`, did)
  }
}

/** A version of a protocol as it goes over the wire. */
export function wire(
  row: ProtocolRow,
  { version, definition, effective, created_at }: ProtocolVersionRow,
) {
  return {
    did: row.did,
    ...(JSON.parse(definition) as ProtocolDefinition),
    version,
    controller: row.controller,
    effective: JSON.parse(effective) as Effective,
    createdAt: row.created_at,
    updatedAt: created_at,
  }
}

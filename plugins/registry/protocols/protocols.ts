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
  /** With all that it inherits. */
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

/** Protocols as they are read, and the checks that they stand for. */
export function protocols(db: RegistryDatabase) {
  const rowOf = prepared(db, (p: { did: string }) =>
    db.selectFrom('registry_protocols').selectAll().where('did', '=', p.did),
  )
  const byVersion = prepared(db, (p: { did: string; version: number }) =>
    db
      .selectFrom('registry_protocol_versions')
      .selectAll()
      .where('did', '=', p.did)
      .where('version', '=', p.version),
  )
  /** A version never changes, so what was read once is kept; the oldest goes when there are many. */
  const kept = new Map<string, Checker>()

  /** A version as it was kept. */
  async function versionOf(
    did: string,
    version: number,
    on = db,
  ): Promise<ProtocolVersionRow | undefined> {
    return (await byVersion({ did, version }, on)).rows[0]
  }

  async function checker(did: string, version: number, on = db): Promise<Checker | undefined> {
    const key = `${did} ${version}`
    const known = kept.get(key)
    if (known) return known
    const row = await versionOf(did, version, on)
    if (!row) return undefined
    const effective: Effective = JSON.parse(row.effective)
    const made = { did, version, ...effective, conform: conformTo(effective) }
    kept.set(key, made)
    if (kept.size > 1000) kept.delete(kept.keys().next().value!)
    return made
  }

  /** The newest version of an active protocol, to check with. */
  async function newest(did: string, on = db): Promise<Checker | undefined> {
    const { rows } = await rowOf({ did }, on)
    return rows[0]?.status === 'active' ? checker(did, rows[0].version, on) : undefined
  }

  async function active(did: string, on = db): Promise<ProtocolRow> {
    const { rows } = await rowOf({ did }, on)
    if (rows[0]?.status === 'active') return rows[0]
    throw rows[0] ? gone(did, { did, status: 'deactivated' }) : notFound('protocol', did)
  }

  return {
    checker,
    newest,
    active,
    versionOf,

    /** The newest version of every protocol, in the order of creation. */
    async list(reader: Reader, limit: number, after = 0): Promise<Page<Protocol>> {
      const rows = await db
        .selectFrom('registry_protocols as protocol')
        .innerJoin('registry_protocol_versions as kept', (join) =>
          join
            .onRef('kept.did', '=', 'protocol.did')
            .onRef('kept.version', '=', 'protocol.version'),
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
    },

    async read(did: string, reader: Reader, version?: number): Promise<Protocol> {
      if ((await seenAmong(db, 'protocol', [did], reader)).size === 0)
        throw notFound('protocol', did)
      const row = await active(did)
      const found = await versionOf(did, version ?? row.version)
      if (found) return wire(row, found)
      throw notFound(`version ${version} of the protocol`, did)
    },
  }
}
export type Protocols = ReturnType<typeof protocols>

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

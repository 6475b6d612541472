import { randomBytes } from 'node:crypto'
import { prepared } from '#core'
import type { Actor } from './actor.ts'
import { conformTo, effectiveOf, readDefinition, type Conform, type Effective } from './conform.ts'
import { conflicting, notFound, unresolved } from './refusal.ts'
import type { ProtocolDefinition, ProtocolRequest } from './request.ts'
import type { ProtocolRow, ProtocolVersionRow, RegistryDatabase } from './tables.ts'
import type { Write, Writing } from './writing.ts'

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

export function protocols(db: RegistryDatabase, write: Write, oracleDid: string) {
  const rowOf = prepared(db, (p: { did: string }) =>
    db.selectFrom('registry_protocols').selectAll().where('did', '=', p.did),
  )
  const versionOf = prepared(db, (p: { did: string; version: number }) =>
    db
      .selectFrom('registry_protocol_versions')
      .selectAll()
      .where('did', '=', p.did)
      .where('version', '=', p.version),
  )
  /** A version never changes, so what was read once is kept; the oldest goes when there are many. */
  const kept = new Map<string, Checker>()

  async function checker(did: string, version: number, on = db): Promise<Checker | undefined> {
    const key = `${did} ${version}`
    const known = kept.get(key)
    if (known) return known
    const { rows } = await versionOf({ did, version }, on)
    if (!rows[0]) return undefined
    const effective: Effective = JSON.parse(rows[0].effective)
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

  async function create(writing: Writing, request: ProtocolRequest): Promise<Protocol> {
    const { actor, at, db: trx } = writing
    const definition = readDefinition(request)
    const did = request.did ?? `did:ixo:protocol:${randomBytes(16).toString('hex')}`
    const taken = await trx
      .selectFrom('registry_protocols')
      .select('did')
      .where('did', '=', did)
      .unionAll(trx.selectFrom('registry_entities').select('did').where('did', '=', did))
      .execute()
    if (taken.length > 0)
      throw conflicting(`${did} is in use already.`, 'Leave out the did, and one is minted.', {
        did,
      })
    const effective = effectiveOf(definition, await parentOf(definition, trx))
    const seq = writing.change({
      kind: 'protocol',
      did,
      version: 1,
      type: definition.type,
      action: 'created',
    })
    const row: ProtocolRow = {
      did,
      ordinal: seq,
      version: 1,
      controller: request.controller ?? actor.did ?? oracleDid,
      status: 'active',
      created_at: at,
      updated_at: at,
    }
    await trx.insertInto('registry_protocols').values(row).execute()
    if (definition.extends !== undefined)
      await trx
        .insertInto('registry_extensions')
        .values({ did, extends: definition.extends })
        .execute()
    return wire(row, await keepVersion(writing, did, 1, definition, effective))
  }

  async function keepVersion(
    { db: trx, at }: Writing,
    did: string,
    version: number,
    definition: ProtocolDefinition,
    effective: Effective,
  ): Promise<ProtocolVersionRow> {
    const row = {
      did,
      version,
      definition: JSON.stringify(definition),
      effective: JSON.stringify(effective),
      created_at: at,
    }
    await trx.insertInto('registry_protocol_versions').values(row).execute()
    return row
  }

  async function parentOf(
    { extends: parent }: ProtocolDefinition,
    on: RegistryDatabase,
  ): Promise<Effective | undefined> {
    if (parent === undefined) return undefined
    const found = await newest(parent, on)
    if (found) return found
    throw unresolved('extends', `there is no protocol ${parent}`, 'Create it first.')
  }

  return {
    checker,
    newest,
    create: (actor: Actor, request: ProtocolRequest) =>
      write(actor, (writing) => create(writing, request)),

    async read(did: string, version?: number): Promise<Protocol> {
      const { rows } = await rowOf({ did })
      const row = rows[0]
      if (!row || row.status !== 'active') throw notFound('protocol', did)
      const found = await versionOf({ did, version: version ?? row.version })
      if (found.rows[0]) return wire(row, found.rows[0])
      throw notFound(`version ${version} of the protocol`, did)
    },
  }
}
export type Protocols = ReturnType<typeof protocols>

function wire(
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

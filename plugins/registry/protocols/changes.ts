import { randomBytes } from 'node:crypto'
import { checkEvaluation, mustStandBehind } from '../evaluation/definition.ts'
import { mustControl, mustOwnId, mustSpeakFor, type Actor } from '../rights/actor.ts'
import { effectiveOf, readDefinition, type Effective } from './definition.ts'
import { checkIndexes } from '../indexes/declared.ts'
import type { Indexes } from '../indexes/indexes.ts'
import { mustMatch } from '../etag.ts'
import { checkIdentity, mustFitClass } from './twin-class.ts'
import { wire, type Protocol, type Protocols } from './protocols.ts'
import { Allowance, type Quotas } from '../rights/allowance.ts'
import { conflicting, invalid, unresolved } from '../refusal.ts'
import type { ProtocolDefinition, ProtocolRequest } from '../request.ts'
import type { ProtocolRow, ProtocolVersionRow, RegistryDatabase } from '../tables.ts'
import type { Write, Writing } from '../writing.ts'

/** What `ProtocolChanges` needs to change protocols. */
export interface ProtocolChangesParts {
  readonly write: Write
  readonly protocols: Protocols
  readonly indexes: Indexes
  readonly oracleDid: string
  readonly quotas: Quotas
}

/** Changes protocols: every change makes a new version, and the old versions stay as they are. */
export class ProtocolChanges {
  readonly #write: Write
  readonly #protocols: Protocols
  readonly #indexes: Indexes
  readonly #oracleDid: string
  readonly #quotas: Quotas

  constructor({ write, protocols, indexes, oracleDid, quotas }: ProtocolChangesParts) {
    this.#indexes = indexes
    this.#write = write
    this.#protocols = protocols
    this.#oracleDid = oracleDid
    this.#quotas = quotas
  }

  async #create(writing: Writing, request: ProtocolRequest): Promise<Protocol> {
    const { actor, at, db: trx } = writing
    mustStandBehind(actor, request)
    const definition = readDefinition(request)
    mustOwnId(actor, request.did)
    if (request.controller !== undefined) mustSpeakFor(actor, request.controller)
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
    const parent = await this.#parentOf(definition, trx)
    const effective = effectiveOf(definition, parent, actor.name)
    checkIndexes(effective)
    checkIdentity(effective)
    checkEvaluation(definition, effective.properties)
    const allowance = await Allowance.open(writing, this.#quotas)
    allowance.take({ protocols: 1 })
    await allowance.keep()
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
      controller: request.controller ?? actor.did ?? this.#oracleDid,
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
    return wire(row, await this.#keepVersion(writing, did, 1, definition, effective))
  }

  async #keepVersion(
    writing: Writing,
    did: string,
    version: number,
    definition: ProtocolDefinition,
    effective: Effective,
  ): Promise<ProtocolVersionRow> {
    const { db: trx, at } = writing
    const row = {
      did,
      version,
      definition: JSON.stringify(definition),
      effective: JSON.stringify(effective),
      created_at: at,
    }
    await trx.insertInto('registry_protocol_versions').values(row).execute()
    await this.#indexes.declare(writing, did, version, effective)
    return row
  }

  async #parentOf(
    { extends: parent }: ProtocolDefinition,
    on: RegistryDatabase,
  ): Promise<Effective | undefined> {
    if (parent === undefined) return undefined
    const found = await this.#protocols.newest(parent, on)
    if (found) return found
    throw unresolved('extends', `there is no protocol ${parent}`, 'Create it first.')
  }

  /** Makes a new version of a protocol, and of each protocol that extends it, because what these inherit has changed. */
  async #advance(
    writing: Writing,
    row: ProtocolRow,
    definition: ProtocolDefinition,
    parent: Effective | undefined,
    by: string,
  ): Promise<{ row: ProtocolRow; kept: ProtocolVersionRow; touched: string[] }> {
    const { db: trx, at } = writing
    const { did } = row
    const version = row.version + 1
    const effective = effectiveOf(definition, parent, by)
    await mustFitClass(did, effective, trx)
    await trx
      .updateTable('registry_protocols')
      .set({ version, updated_at: at })
      .where('did', '=', did)
      .execute()
    const kept = await this.#keepVersion(writing, did, version, definition, effective)
    writing.change({ kind: 'protocol', did, version, type: definition.type, action: 'updated' })
    const touched = [did]
    for (const child of await this.#childrenOf(did, trx)) {
      const before = await this.#protocols.versionOf(child.did, child.version, trx)
      const own: ProtocolDefinition = JSON.parse(before!.definition)
      const { evaluation }: Effective = JSON.parse(before!.effective)
      const behind = evaluation?.by ?? ''
      touched.push(...(await this.#advance(writing, child, own, effective, behind)).touched)
    }
    return { row: { ...row, version, updated_at: at }, kept, touched }
  }

  #childrenOf(did: string, on: RegistryDatabase): Promise<ProtocolRow[]> {
    return on
      .selectFrom('registry_protocols')
      .innerJoin('registry_extensions as extension', 'extension.did', 'registry_protocols.did')
      .selectAll('registry_protocols')
      .where('extension.extends', '=', did)
      .where('registry_protocols.status', '=', 'active')
      .orderBy('registry_protocols.ordinal')
      .execute()
  }

  /** Refuses a protocol that would inherit from itself. */
  async #mustNotLoop(did: string, { extends: first }: ProtocolDefinition, on: RegistryDatabase) {
    const path = [did]
    for (let parent = first; parent !== undefined;) {
      path.push(parent)
      if (parent === did)
        throw invalid('extends', `the protocols would extend each other: ${path.join(' -> ')}`)
      const row = await on
        .selectFrom('registry_extensions')
        .select('extends')
        .where('did', '=', parent)
        .executeTakeFirst()
      parent = row?.extends
    }
  }

  async #replace(
    writing: Writing,
    did: string,
    request: ProtocolRequest,
    ifMatch: string | undefined,
  ) {
    const { db: trx, actor } = writing
    const row = await this.#protocols.active(did, trx)
    mustControl(actor, row)
    mustMatch(ifMatch, row)
    if (request.controller !== undefined && request.controller !== row.controller)
      mustSpeakFor(actor, request.controller)
    mustStandBehind(actor, request)
    const definition = readDefinition(request)
    await this.#mustNotLoop(did, definition, trx)
    const parent = await this.#parentOf(definition, trx)
    const wanted = effectiveOf(definition, parent)
    checkIndexes(wanted)
    checkIdentity(wanted)
    checkEvaluation(definition, wanted.properties)
    await trx.deleteFrom('registry_extensions').where('did', '=', did).execute()
    if (definition.extends !== undefined)
      await trx
        .insertInto('registry_extensions')
        .values({ did, extends: definition.extends })
        .execute()
    const controller = request.controller ?? row.controller
    if (controller !== row.controller)
      await trx
        .updateTable('registry_protocols')
        .set({ controller })
        .where('did', '=', did)
        .execute()
    const {
      row: next,
      kept,
      touched,
    } = await this.#advance(writing, row, definition, parent, actor.name)
    return { protocol: wire({ ...next, controller }, kept), touched }
  }

  async #remove(writing: Writing, did: string, ifMatch: string | undefined) {
    const { db: trx, actor, at } = writing
    const row = await this.#protocols.active(did, trx)
    mustControl(actor, row)
    mustMatch(ifMatch, row)
    const users = await trx
      .selectFrom('registry_entities')
      .select(['did', 'type'])
      .where('protocol', '=', did)
      .where('status', '=', 'active')
      .orderBy('ordinal')
      .limit(100)
      .execute()
    const children = await this.#childrenOf(did, trx)
    const dependents = [
      ...users.map((user) => ({ ...user, role: 'protocol' })),
      ...children.map((child) => ({ did: child.did, type: 'Protocol', role: 'extends' })),
    ]
    if (dependents.length > 0)
      throw conflicting(
        `${did} cannot be removed while it is in use: ${dependents
          .slice(0, 3)
          .map((dependent) => dependent.did)
          .join(', ')}${dependents.length > 3 ? ', …' : ''}.`,
        'Give those another protocol first.',
        { dependents },
      )
    await trx.deleteFrom('registry_extensions').where('did', '=', did).execute()
    await trx
      .updateTable('registry_protocols')
      .set({ status: 'deactivated', version: row.version + 1, updated_at: at })
      .where('did', '=', did)
      .execute()
    const version = row.version + 1
    await this.#indexes.declare(writing, did, version, {})
    writing.change({ kind: 'protocol', did, version, type: 'Protocol', action: 'deactivated' })
    return { did, type: 'Protocol', status: 'deactivated', version, deactivatedAt: at }
  }

  /** Creates a protocol. */
  create(actor: Actor, request: ProtocolRequest) {
    return this.#write(actor, (writing) => this.#create(writing, request))
  }

  /** Stores the next version of a protocol; `touched` lists the protocols whose entities the caller has to check again. */
  replace(actor: Actor, did: string, request: ProtocolRequest, ifMatch: string | undefined) {
    return this.#write(actor, (writing) => this.#replace(writing, did, request, ifMatch))
  }

  /** Deactivates a protocol that no entity and no other protocol uses. */
  remove(actor: Actor, did: string, ifMatch: string | undefined) {
    return this.#write(actor, (writing) => this.#remove(writing, did, ifMatch))
  }
}

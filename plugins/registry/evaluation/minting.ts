import { createHash } from 'node:crypto'
import { RuntimeError } from '#core'
import { claimOf } from '../claims/claims.ts'
import { withClaimTables, type ClaimRow } from '../claims/tables.ts'
import type { Credential } from '../credentials/credential.ts'
import type { Changes } from '../entities/changes.ts'
import type { Protocols } from '../protocols/protocols.ts'
import type { Actor } from '../rights/actor.ts'
import type { RegistryDatabase } from '../tables.ts'
import type { Write } from '../writing.ts'
import type { MintingSpec } from './definition.ts'
import { Evaluator, Unsettled, type Value } from './expression.ts'
import { scopeOf } from './scope.ts'

/** How much a measured mean of a project may be off, as another plugin knows it. */
export interface Imprecision {
  /** Half the width of the confidence interval, as a share of the mean. */
  readonly share: number
  /** What it rests on, such as a sample design and its revision. */
  readonly source: string
}

/** Tells the imprecision of a project; undefined where nothing is known of it. */
export type ImprecisionOf = (project: string) => Promise<Imprecision | undefined>

/** How the quantity of a credit came about. */
export interface Working {
  readonly protocol: { readonly did: string; readonly version: number }
  readonly unit: string
  readonly gross: number
  readonly imprecision: Imprecision
  readonly quantity: number
  readonly values: Readonly<Record<string, Value>>
}

interface Worked extends Working {
  readonly spec: MintingSpec
  /** The properties of the credit beside its quantity. */
  readonly more: Readonly<Record<string, Value>>
}

/** What `Minting` needs. */
export interface MintingParts {
  readonly db: RegistryDatabase
  readonly write: Write
  readonly protocols: Protocols
  readonly changes: Changes
  readonly oracleDid: string
  readonly imprecisionOf: ImprecisionOf
}

/** Makes the credit of an approved claim: one for each credential, however often the job runs. */
export class Minting {
  readonly #parts: MintingParts

  constructor(parts: MintingParts) {
    this.#parts = parts
  }

  /** The same at the word of the operator, who has mended what `creditFault` says. */
  again(claim: string, { isOperator, name }: Actor): Promise<string | undefined> {
    if (isOperator) return this.run(claim)
    throw new RuntimeError('FORBIDDEN', `${name} cannot have credits made.`, {
      hint: 'Ask the operator, who calls it with an API key or a grant of registry/admin.',
    })
  }

  /** Makes the credit of a claim. Resolves to its DID, or to undefined where none can be made; the claim then says why. */
  async run(claim: string): Promise<string | undefined> {
    const { db, protocols } = this.#parts
    const row = await withClaimTables(db)
      .selectFrom('registry_claims')
      .selectAll()
      .where('id', '=', claim)
      .executeTakeFirst()
    if (!row || row.credential === null || row.protocol === null) return undefined
    if (row.credit !== null) return row.credit
    const checker = await protocols.checker(row.protocol, row.protocol_version ?? 0)
    const evaluation = checker?.evaluation
    if (evaluation?.mints === undefined) return undefined
    const actor: Actor = {
      name: evaluation.by,
      did: undefined,
      isOperator: true,
      actsFor: () => true,
    }
    try {
      const { spec, more, ...working } = await this.#worked(row, evaluation.mints)
      const did =
        (await this.#madeBefore(row.credential)) ??
        (await this.#make(row, row.credential, { spec, more, ...working }, actor))
      await this.#keep(actor, row, { credit: did, credit_working: JSON.stringify(working) })
      return did
    } catch (error) {
      if (!(error instanceof RuntimeError || error instanceof Unsettled)) throw error
      // Another process was faster, or the process died between the credit and its mark.
      const made = await this.#madeBefore(row.credential)
      if (made !== undefined) {
        await this.#keep(actor, row, { credit: made })
        return made
      }
      // A database that is away is tried again; a formula that comes to nothing is for a person to look at.
      if (error instanceof RuntimeError && error.status >= 500) throw error
      await this.#keep(actor, row, { credit_fault: error.message.slice(0, 2000) })
      return undefined
    }
  }

  /** The credit that a credential became already: where the process died before the claim said so, or where somebody made it by hand. */
  async #madeBefore(credential: string): Promise<string | undefined> {
    const minted = await this.#parts.db
      .selectFrom('registry_mints')
      .select('entity')
      .where('credential', '=', credential)
      .executeTakeFirst()
    return minted?.entity
  }

  async #worked(row: ClaimRow, did: string): Promise<Worked> {
    const { db, protocols, oracleDid } = this.#parts
    const { version, controller } = await protocols.active(did)
    const checker = await protocols.checker(did, version)
    const spec = checker?.mints
    if (typeof spec !== 'object' || controller !== oracleDid)
      throw new Unsettled(
        typeof spec === 'object'
          ? `${did} does not belong to the operator, so it makes no credits by itself`
          : `${did} does not say how its credits are made`,
      )
    const scope = await scopeOf(row, db)
    const evaluator = new Evaluator({ ...scope, named: spec.values ?? {} })
    const gross = evaluator.number(spec.quantity)
    const imprecision = await this.#imprecision(spec, row.subject)
    const factor = 10 ** (spec.digits ?? 6)
    // Rounded down: a credit never stands for more than was measured.
    const quantity = Math.floor(gross * (1 - imprecision.share) * factor) / factor
    if (!(quantity > 0)) throw new Unsettled(`the quantity comes to ${quantity}`)
    const more = Object.fromEntries(
      Object.entries(spec.properties ?? {}).map(([name, one]) => [name, evaluator.value(one)]),
    )
    const protocol = { did, version }
    const { worked: values } = evaluator
    return { protocol, unit: spec.unit, gross, imprecision, quantity, values, spec, more }
  }

  async #imprecision({ imprecision: given }: MintingSpec, asset: string): Promise<Imprecision> {
    if (typeof given === 'number') return { share: given, source: 'the protocol' }
    const projects = await this.#parts.db
      .selectFrom('registry_edges')
      .select('source')
      .where('target', '=', asset)
      .where('role', '=', given.role)
      .orderBy('source')
      .limit(20)
      .execute()
    for (const { source } of projects) {
      const known = await this.#parts.imprecisionOf(source)
      if (!known) continue
      if (known.share < 1) return known
      throw new Unsettled(
        `${known.source} has an imprecision of ${known.share}, which leaves nothing`,
      )
    }
    return { share: given.otherwise, source: 'the protocol, because no sample design is measured' }
  }

  async #make(
    row: ClaimRow,
    credential: string,
    { spec, more, quantity, protocol }: Worked,
    actor: Actor,
  ): Promise<string> {
    const { db, changes, oracleDid } = this.#parts
    const kept = await withClaimTables(db)
      .selectFrom('registry_credentials')
      .select(['document', 'revoked_at'])
      .where('id', '=', credential)
      .executeTakeFirstOrThrow()
    if (kept.revoked_at !== null) throw new Unsettled('the credential was revoked')
    const document: Credential = JSON.parse(kept.document)
    const asset = await db
      .selectFrom('registry_entities')
      .select('controller')
      .where('did', '=', row.subject)
      .executeTakeFirst()
    const did = `did:ixo:entity:${createHash('sha256').update(`credit ${credential}`).digest('hex').slice(0, 32)}`
    const made = await changes.create(actor, {
      did,
      type: spec.type,
      protocol: protocol.did,
      controller: asset?.controller ?? oracleDid,
      properties: { ...more, [spec.property]: quantity },
      verifiableCredential: [{ ...document, type: [...document.type] }],
      ...(spec.role !== undefined && {
        relationships: [{ role: spec.role, target: claimOf(row).subject }],
      }),
    })
    return made.did
  }

  #keep(actor: Actor, { id, ordinal }: ClaimRow, columns: Partial<ClaimRow>): Promise<void> {
    return this.#parts.write(actor, async (writing) => {
      const { credit, credit_working, ...rest } = columns
      if (credit !== undefined && credit !== null)
        writing.change({
          kind: 'claim',
          did: id,
          version: 4,
          type: 'Credit',
          action: 'credited',
          about: JSON.stringify({ credit }),
        })
      else
        writing.change({ kind: 'claim', did: id, version: 4, type: 'Credit', action: 'uncredited' })
      await withClaimTables(writing.db)
        .updateTable('registry_claims')
        .set({ ...rest, ...(credit && { credit, credit_working, credit_fault: null }) })
        .where('id', '=', id)
        .where('ordinal', '=', ordinal)
        .execute()
    })
  }
}

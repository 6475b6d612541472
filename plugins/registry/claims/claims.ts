import { randomUUID } from 'node:crypto'
import { RuntimeError, type Oracle } from '#core'
import { mustControl, type Actor } from '../rights/actor.ts'
import { issue } from '../credentials/credential.ts'
import { keyOf } from '../credentials/data-integrity.ts'
import { nextStatus } from '../credentials/status-list.ts'
import type { Protocols } from '../protocols/protocols.ts'
import { conflicting, notFound, refused, unresolved } from '../refusal.ts'
import { Allowance, type Quotas } from '../rights/allowance.ts'
import { claimsOf, everything, type Reader } from '../rights/reader.ts'
import type { RegistryDatabase } from '../tables.ts'
import type { Write, Writing } from '../writing.ts'
import { unreviewed } from '../evaluation/tables.ts'
import type { Basis, Claim, Evaluation } from './claim.ts'
import { evaluatorOf } from './evaluators.ts'
import { pageOf } from './pages.ts'
import type { ClaimAnswer, ClaimRequest, ClaimsQuery, EvaluationRequest } from './request.ts'
import { withClaimTables, type ClaimRow, type ClaimsDatabase } from './tables.ts'

/** What `Claims` needs to submit and evaluate claims. */
export interface ClaimsParts {
  readonly db: RegistryDatabase
  readonly write: Write
  readonly oracle: Oracle
  readonly protocols: Pick<Protocols, 'newest' | 'checker'>
  readonly quotas: Quotas
  /** Keeps the job that evaluates a claim, or that makes the credit of an approved one, in the transaction that asks for it. */
  readonly ask: AskForWork
}

/** Asks for a job about a claim. */
export type AskForWork = (
  on: RegistryDatabase,
  job: 'evaluate' | 'mint',
  claim: string,
) => Promise<unknown>

/** Claims about assets, and what oracles say of them. */
export class Claims {
  readonly #db: ClaimsDatabase
  readonly #write: Write
  readonly #oracle: Oracle
  readonly #protocols: ClaimsParts['protocols']
  readonly #quotas: Quotas
  readonly #ask: AskForWork

  constructor({ db, write, oracle, protocols, quotas, ask }: ClaimsParts) {
    this.#db = withClaimTables(db)
    this.#write = write
    this.#oracle = oracle
    this.#protocols = protocols
    this.#quotas = quotas
    this.#ask = ask
  }

  /** The version of a protocol that the properties conform to: its newest. */
  async #conforming(
    protocol: string,
    properties: ClaimRequest['properties'],
    on: RegistryDatabase,
  ) {
    const checker = await this.#protocols.newest(protocol, on)
    if (!checker)
      throw unresolved('protocol', `there is no protocol ${protocol}`, 'Create it first.')
    const faults = checker.conform(properties)
    if (faults.length > 0) throw refused(faults)
    return checker
  }

  /** Whether approved claims of the protocol of a claim become credits. */
  async #mints({ protocol, protocol_version }: ClaimRow, on: RegistryDatabase): Promise<boolean> {
    if (protocol === null) return false
    const checker = await this.#protocols.checker(protocol, protocol_version ?? 0, on)
    return checker?.evaluation?.mints !== undefined
  }

  /** Has a person decide about a claim, and keeps why. */
  askPerson(id: string, reason: string, actor: Actor): Promise<void> {
    return this.#write(actor, async (writing) => {
      const tables = withClaimTables(writing.db)
      const row = await rowOf(id, tables)
      if (row.status !== 'submitted' || row.review === 'asked') return
      writing.change({
        kind: 'claim',
        did: id,
        version: await nextVersion(id, writing.db),
        type: row.type,
        action: 'asked',
        about: JSON.stringify({ subject: row.subject }),
      })
      await tables
        .updateTable('registry_claims')
        .set({ review: 'asked', review_reason: reason.slice(0, 2000), updated_at: writing.at })
        .where('id', '=', id)
        .execute()
    })
  }

  /** A claim that the reader sees. */
  async read(id: string, reader: Reader): Promise<Claim> {
    return claimOf(await rowOf(id, this.#db, reader))
  }

  /** A page of claims, newest first. */
  async list({ limit, cursor, ...wanted }: ClaimsQuery, reader: Reader) {
    let query = this.#db.selectFrom('registry_claims').selectAll().where(claimsOf(reader))
    for (const [column, value] of Object.entries(wanted) as [keyof typeof wanted, string][])
      if (value !== undefined) query = query.where(column, '=', value)
    return pageOf(query, limit, cursor, claimOf)
  }

  /** Stores a claim about an asset, which only the party that controls the asset may submit. */
  submit(request: ClaimRequest, actor: Actor): Promise<Claim> {
    return this.#write(actor, (writing) => this.#keep(request, actor, writing))
  }

  /** Fills in a claim that was opened about an asset, and so submits it. */
  fill(id: string, answer: ClaimAnswer, actor: Actor): Promise<Claim> {
    return this.#write(actor, async (writing) => {
      const row = await rowOf(id, withClaimTables(writing.db))
      if (row.status !== 'open')
        throw conflicting(
          `The claim ${id} is ${row.status} already.`,
          'Submit another claim about the asset: POST /v1/claims.',
          { status: row.status },
        )
      const { type, subject, protocol } = row
      const request = { ...answer, type, subject, ...(protocol !== null && { protocol }) }
      return this.#keep(request, actor, writing, row)
    })
  }

  /** Keeps what is claimed: as a new claim, or in the place of an open one. */
  async #keep(
    request: ClaimRequest,
    actor: Actor,
    writing: Writing,
    open?: ClaimRow,
  ): Promise<Claim> {
    const { subject, protocol, evidence, submitter = actor.did ?? subject } = request
    if (actor.did !== undefined && submitter !== actor.did)
      throw new RuntimeError(
        'FORBIDDEN',
        `${actor.did} cannot claim in the name of ${submitter}.`,
        {
          hint: 'A caller with a DID submits under it.',
        },
      )
    const asset = await writing.db
      .selectFrom('registry_entities')
      .select(['did', 'controller', 'status'])
      .where('did', '=', subject)
      .executeTakeFirst()
    if (asset?.status !== 'active')
      throw unresolved('subject', `there is no active entity ${subject}`)
    mustControl(actor, asset)
    const checker =
      protocol === undefined
        ? undefined
        : await this.#conforming(protocol, request.properties, writing.db)
    const allowance = await Allowance.open(writing, this.#quotas)
    allowance.take({ claims: 1 })
    await allowance.keep()
    const id = open?.id ?? randomUUID()
    const row: ClaimRow = {
      id,
      ordinal: writing.change({
        kind: 'claim',
        did: id,
        version: open ? 2 : 1,
        type: request.type,
        action: 'submitted',
        about: JSON.stringify({ subject }),
      }),
      type: request.type,
      subject,
      submitter,
      protocol: protocol ?? null,
      protocol_version: checker?.version ?? null,
      properties: JSON.stringify(request.properties),
      evidence: evidence ? JSON.stringify(evidence) : null,
      status: 'submitted',
      oracle: null,
      evaluation: null,
      credential: null,
      created_at: writing.at,
      updated_at: writing.at,
      ...unreviewed,
      review: checker?.evaluation ? 'pending' : null,
    }
    const tables = withClaimTables(writing.db)
    if (open) await tables.updateTable('registry_claims').set(row).where('id', '=', id).execute()
    else await tables.insertInto('registry_claims').values(row).execute()
    if (checker?.evaluation) await this.#ask(writing.db, 'evaluate', id)
    return claimOf(row)
  }

  /** Records the verdict of an oracle on a claim. The verdict is final; an approved claim becomes a credential. */
  evaluate(id: string, asked: EvaluationRequest, actor: Actor, basis: Basis = {}): Promise<Claim> {
    return this.#write(actor, async (writing) => {
      const { at } = writing
      const tables = withClaimTables(writing.db)
      const row = await rowOf(id, tables)
      const evaluator = await evaluatorOf(row, asked.oracle, actor, this.#oracle.did, writing.db)
      if (row.status === 'open')
        throw conflicting(
          `The claim ${id} is open: nobody has submitted it yet.`,
          'It is filled in with POST /v1/claims/{id}/submission.',
          { status: row.status },
        )
      if (row.status !== 'submitted')
        throw conflicting(
          `The claim ${id} is ${row.status} already.`,
          'An evaluation is final; submit another claim.',
          { status: row.status, evaluation: JSON.parse(row.evaluation ?? 'null') },
        )
      const { status, notes } = asked
      const evaluation: Evaluation = {
        oracle: evaluator,
        status,
        timestamp: at,
        ...(notes !== undefined && { notes }),
        ...basis,
      }
      const ordinal = writing.change({
        kind: 'claim',
        did: id,
        version: await nextVersion(id, writing.db),
        type: row.type,
        action: status,
        about: JSON.stringify({ subject: row.subject, oracle: evaluator }),
      })
      let credential: string | null = null
      if (status === 'approved') {
        const key = keyOf(this.#oracle)
        credential = randomUUID()
        const { index, entry } = await nextStatus(tables, this.#oracle.url())
        const signed = issue(credential, claimOf(row), evaluation, entry, key)
        await tables
          .insertInto('registry_credentials')
          .values({
            id: credential,
            ordinal,
            claim: id,
            subject: row.subject,
            oracle: evaluator,
            document: JSON.stringify(signed),
            status_index: index,
            revoked_at: null,
            reason: null,
          })
          .execute()
      }
      const evaluated: ClaimRow = {
        ...row,
        status,
        oracle: evaluator,
        evaluation: JSON.stringify(evaluation),
        credential,
        review: null,
        updated_at: at,
      }
      await tables.updateTable('registry_claims').set(evaluated).where('id', '=', id).execute()
      if (credential !== null && (await this.#mints(row, writing.db)))
        await this.#ask(writing.db, 'mint', id)
      return claimOf(evaluated)
    })
  }
}

/** The version that the next change of a claim makes: opened, submitted, asked about, decided. */
async function nextVersion(id: string, db: RegistryDatabase): Promise<number> {
  const { newest } = await db
    .selectFrom('registry_changes')
    .select(({ fn }) => fn.max('version').as('newest'))
    .where('did', '=', id)
    .where('kind', '=', 'claim')
    .executeTakeFirstOrThrow()
  return Number(newest ?? 0) + 1
}

/** The row of a claim that the reader sees. */
export async function rowOf(
  id: string,
  db: ClaimsDatabase,
  reader = everything,
): Promise<ClaimRow> {
  const row = await db
    .selectFrom('registry_claims')
    .selectAll()
    .where('id', '=', id)
    .where(claimsOf(reader))
    .executeTakeFirst()
  if (row) return row
  throw notFound('claim', id)
}

/** A claim as it goes over the wire. */
export function claimOf(row: ClaimRow): Claim {
  return {
    id: row.id,
    type: row.type,
    subject: row.subject,
    ...(row.status !== 'open' && { submitter: row.submitter }),
    ...(row.protocol !== null && {
      protocol: { did: row.protocol, version: row.protocol_version ?? 0 },
    }),
    properties: JSON.parse(row.properties),
    ...(row.evidence !== null && { evidence: JSON.parse(row.evidence) }),
    status: row.status,
    ...(row.evaluation !== null && { evaluation: JSON.parse(row.evaluation) }),
    ...(row.credential !== null && { credential: row.credential }),
    ...(row.review !== null && {
      review: {
        state: row.review,
        ...(row.review_reason !== null && { reason: row.review_reason }),
      },
    }),
    ...(row.credit !== null && { credit: row.credit }),
    ...(row.credit_fault !== null && { creditFault: row.credit_fault }),
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  }
}

import type { AuditFileRow, SamplingDatabase, SelectionRow } from '../tables.ts'
import { commitmentColumns, type CommitmentRow } from './commitment.ts'

/** The most commitments of a design, so that its record can list them all. */
export const mostCommitments = 100
/** The most commitments of other designs that an answer lists. */
const mostElsewhere = 50

/** Where another design has committed the same ids. */
export interface Elsewhere {
  readonly designId: string
  readonly number: number
  readonly committedAt: string
  readonly selectedAt?: string
}

/** The columns of an audit file without those that name its commitment. */
export type AuditFile = Omit<AuditFileRow, 'design_id' | 'number'>

/** The commitments in the database. */
export class Commitments {
  readonly #db: SamplingDatabase

  constructor(db: SamplingDatabase) {
    this.#db = db
  }

  /** Every commitment of a design, oldest first, without the drawn ids. */
  of(designId: string): Promise<CommitmentRow[]> {
    return this.#db
      .selectFrom('sampling_selections')
      .select(commitmentColumns)
      .where('design_id', '=', designId)
      .orderBy('number')
      .limit(mostCommitments + 1)
      .execute()
  }

  /** One commitment with its drawn ids. */
  async whole({ design_id, number }: CommitmentRow): Promise<SelectionRow> {
    return this.#db
      .selectFrom('sampling_selections')
      .selectAll()
      .where('design_id', '=', design_id)
      .where('number', '=', number)
      .executeTakeFirstOrThrow()
  }

  /** Where other designs have committed the same ids: many designs with one frame are many draws to choose from. */
  async elsewhere(designId: string, frameDigest: string): Promise<Elsewhere[]> {
    const rows = await this.#db
      .selectFrom('sampling_selections')
      .select(['design_id', 'number', 'committed_at', 'selected_at'])
      .where('frame_digest', '=', frameDigest)
      .where('design_id', '!=', designId)
      .orderBy('committed_at')
      .orderBy('design_id')
      .limit(mostElsewhere)
      .execute()
    return rows.map(({ design_id, number, committed_at, selected_at }) => ({
      designId: design_id,
      number,
      committedAt: committed_at,
      ...(selected_at !== null && { selectedAt: selected_at }),
    }))
  }

  /** Stores a commitment, and the file of a draw outside; false where another one has taken its number meanwhile. */
  insert(row: SelectionRow, file?: AuditFile): Promise<boolean> {
    return this.#db.transaction().execute(async (trx) => {
      const inserted = await trx
        .insertInto('sampling_selections')
        .values(row)
        .onConflict((conflict) => conflict.doNothing())
        .executeTakeFirst()
      if (inserted.numInsertedOrUpdatedRows !== 1n) return false
      await trx.deleteFrom('sampling_uploads').where('frame_id', '=', row.frame_id).execute()
      await keepFile(trx, row, file)
      return true
    })
  }

  /** Stores a drawn sample; false where another draw from the same commitment has been stored meanwhile. */
  keepDraw(
    row: CommitmentRow,
    drawn: Pick<SelectionRow, 'beacon_hex' | 'selected_at' | 'selected' | 'drawn_by' | 'evidence'>,
    file?: AuditFile,
  ): Promise<boolean> {
    return this.#db.transaction().execute(async (trx) => {
      const { numUpdatedRows } = await trx
        .updateTable('sampling_selections')
        .set(drawn)
        .where('design_id', '=', row.design_id)
        .where('number', '=', row.number)
        .where('selected', 'is', null)
        .executeTakeFirst()
      if (numUpdatedRows !== 1n) return false
      await keepFile(trx, row, file)
      return true
    })
  }

  /** Adds what a commitment says of its non-adopters, where it said nothing. */
  async mark({ design_id, number, non_adopters }: CommitmentRow): Promise<void> {
    await this.#db
      .updateTable('sampling_selections')
      .set({ non_adopters })
      .where('design_id', '=', design_id)
      .where('number', '=', number)
      .where('non_adopters', 'is', null)
      .execute()
  }

  /** Adds what proves the value of a draw that was stored without it. */
  async prove({ design_id, number }: CommitmentRow, evidence: string): Promise<void> {
    await this.#db
      .updateTable('sampling_selections')
      .set({ evidence })
      .where('design_id', '=', design_id)
      .where('number', '=', number)
      .where('evidence', 'is', null)
      .execute()
  }
}

async function keepFile(
  trx: SamplingDatabase,
  { design_id, number }: CommitmentRow,
  file: AuditFile | undefined,
): Promise<void> {
  if (file)
    await trx
      .insertInto('sampling_audit_files')
      .values({ design_id, number, ...file })
      .execute()
}

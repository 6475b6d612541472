import { sql, type Kysely } from 'kysely'
import type { Database } from '#core'

// Rows are types, not interfaces: Kysely wants an index signature, which only a type has. Columns hold JSON as text.

/** One revision of a design. */
export type RevisionRow = {
  design_id: string
  revision: number
  project_id: string
  created_at: string
  /** The request from which the revision was worked out, with actual values in place of the expected ones. */
  request: string
  figures: string
  /** JSON of the `Outcome` of the recalculation that made the revision; null for the first revision. */
  outcome: string | null
  verification: string
  /** Counts the changes of the row: a writer whose count is old has been overtaken and is refused. */
  version: number
  /** 1 for the newest revision of its design. */
  newest: number
  /** The DID of the user who made the design; null where an API key made it. */
  owner: string | null
  /** The DID of the verifier to whom the owner last submitted the design. */
  verifier: string | null
  /** Who worked out this revision: a DID, or `key:` and the name of an API key. */
  made_by: string | null
}

/** A beacon as a commitment keeps it; the draw of a verifier has no round. */
export interface StoredBeacon {
  readonly source: string
  readonly round?: string | number
}

/** A commitment of a design, and later the drawn sample. */
export type SelectionRow = {
  design_id: string
  /** The commitments of a design count from 1. Two servers that commit at once take one number, and the second is refused. */
  number: number
  /** The revision that was the newest at the commitment. */
  revision: number
  frame_id: string
  frame_digest: string
  frame_counts: string
  beacon: string
  committed_at: string
  beacon_hex: string | null
  selected_at: string | null
  selected: string | null
  committed_by: string | null
  /** Who drew the sample; null for a verifier's draw. */
  drawn_by: string | null
  /** The number of the commitment whose draw this one extends, with the same seed. */
  extends: number | null
  /** JSON of the sizes at the commitment: pairs of a stratum and its size, in the order of the design. */
  sizes: string
  /** JSON of `NonAdopters`; null where the commitment says nothing of them. */
  non_adopters: string | null
  /** JSON of the `Evidence` for the value of the beacon, or of who drew outside; null before the draw. */
  evidence: string | null
}

/** The file by which a verifier shows how the verifier drew. */
export type AuditFileRow = {
  design_id: string
  number: number
  name: string
  media_type: string
  sha256: string
  bytes: number
  /** The bytes in base64. */
  content: string
}

/** By which query of the registry a committed frame was found. */
export type FrameQueryRow = { design_id: string; frame_digest: string; query: string }

/**
 * A part of the committed ids, sorted, small enough for one read. The parts are written before the commitment that names
 * their frame, so that no transaction stays open for as long as a large frame takes.
 */
export type FrameRow = {
  frame_id: string
  stratum: string
  part: number
  ids: string
}

/** A frame that a server is writing. The commitment deletes the row; a row that stays is from a server that crashed. */
export type UploadRow = {
  frame_id: string
  touched_at: string
}

/** The tables of sampling. */
export type Tables = {
  sampling_revisions: RevisionRow
  sampling_selections: SelectionRow
  sampling_frames: FrameRow
  sampling_uploads: UploadRow
  sampling_audit_files: AuditFileRow
  sampling_frame_queries: FrameQueryRow
}
/** The database, or a transaction in it, with the tables of sampling. */
export type SamplingDatabase = Kysely<Tables>

/** The database with the tables of sampling. */
export const withSamplingTables = (db: Database): SamplingDatabase => db.withTables<Tables>()

/** The migrations of the tables of sampling, in order. */
export const migrations = {
  '001-designs': async (db: Kysely<any>) => {
    // any: a migration sees tables that no type knows yet
    await db.schema
      .createTable('sampling_revisions')
      .addColumn('design_id', 'varchar(36)', (column) => column.notNull())
      .addColumn('revision', 'integer', (column) => column.notNull())
      .addColumn('project_id', 'text', (column) => column.notNull())
      .addColumn('created_at', 'text', (column) => column.notNull())
      .addColumn('request', 'text', (column) => column.notNull())
      .addColumn('figures', 'text', (column) => column.notNull())
      .addColumn('outcome', 'text')
      .addColumn('verification', 'text', (column) => column.notNull())
      .addColumn('version', 'integer', (column) => column.notNull())
      .addColumn('newest', 'integer', (column) => column.notNull())
      .addPrimaryKeyConstraint('sampling_revisions_pk', ['design_id', 'revision'])
      .execute()
    await db.schema
      .createIndex('sampling_revisions_of_project')
      .on('sampling_revisions')
      .columns(['project_id', 'newest', 'created_at', 'design_id'])
      .execute()
  },
  '002-selections': async (db: Kysely<any>) => {
    // any: a migration sees tables that no type knows yet
    await db.schema
      .createTable('sampling_selections')
      .addColumn('design_id', 'varchar(36)', (column) => column.notNull())
      .addColumn('revision', 'integer', (column) => column.notNull())
      .addColumn('frame_id', 'varchar(36)', (column) => column.notNull())
      .addColumn('frame_digest', 'text', (column) => column.notNull())
      .addColumn('frame_counts', 'text', (column) => column.notNull())
      .addColumn('beacon', 'text', (column) => column.notNull())
      .addColumn('committed_at', 'text', (column) => column.notNull())
      .addColumn('beacon_hex', 'text')
      .addColumn('selected_at', 'text')
      .addColumn('selected', 'text')
      .addPrimaryKeyConstraint('sampling_selections_pk', ['design_id', 'revision'])
      .execute()
    await db.schema
      .createTable('sampling_frames')
      .addColumn('frame_id', 'varchar(36)', (column) => column.notNull())
      .addColumn('stratum', 'text', (column) => column.notNull())
      .addColumn('part', 'integer', (column) => column.notNull())
      .addColumn('ids', 'text', (column) => column.notNull())
      .addPrimaryKeyConstraint('sampling_frames_pk', ['frame_id', 'stratum', 'part'])
      .execute()
  },
  '003-owners': async (db: Kysely<any>) => {
    // any: a migration sees tables that no type knows yet
    for (const column of ['owner', 'verifier'])
      await db.schema.alterTable('sampling_revisions').addColumn(column, 'text').execute()
  },
  '004-uploads': async (db: Kysely<any>) => {
    // any: a migration sees tables that no type knows yet
    await db.schema
      .createTable('sampling_uploads')
      .addColumn('frame_id', 'varchar(36)', (column) => column.primaryKey())
      .addColumn('touched_at', 'text', (column) => column.notNull())
      .execute()
  },
  '005-makers': async (db: Kysely<any>) => {
    // any: a migration sees tables that no type knows yet
    await db.schema.alterTable('sampling_revisions').addColumn('made_by', 'text').execute()
    for (const column of ['committed_by', 'drawn_by'])
      await db.schema.alterTable('sampling_selections').addColumn(column, 'text').execute()
    // Old rows do not say which API key made the design, so `key:*` stands for any key.
    await db
      .updateTable('sampling_revisions')
      .set((eb: any) => ({ made_by: eb.fn.coalesce('owner', eb.val('key:*')) }))
      .execute()
  },
  '006-commitments': async (db: Kysely<any>) => {
    // any: a migration sees tables that no type knows yet
    // A revision had one commitment, and a design now has many: no database changes a primary key, so the table is copied.
    const kept = [
      'design_id',
      'revision',
      'frame_id',
      'frame_digest',
      'frame_counts',
      'beacon',
      'committed_at',
      'beacon_hex',
      'selected_at',
      'selected',
      'committed_by',
      'drawn_by',
    ]
    const optional = new Set(['beacon_hex', 'selected_at', 'selected', 'committed_by', 'drawn_by'])
    let table = db.schema
      .createTable('sampling_commitments')
      .addColumn('design_id', 'varchar(36)', (column) => column.notNull())
      .addColumn('number', 'integer', (column) => column.notNull())
      .addColumn('revision', 'integer', (column) => column.notNull())
      .addColumn('frame_id', 'varchar(36)', (column) => column.notNull())
    for (const name of kept.slice(3))
      table = table.addColumn(name, 'text', (column) =>
        optional.has(name) ? column : column.notNull(),
      )
    await table
      .addColumn('extends', 'integer')
      .addColumn('sizes', 'text')
      .addColumn('non_adopters', 'text')
      .addColumn('evidence', 'text')
      .addPrimaryKeyConstraint('sampling_commitments_pk', ['design_id', 'number'])
      .execute()
    const number = sql<number>`row_number() over (partition by design_id order by revision)`
    await db
      .insertInto('sampling_commitments')
      .columns([...kept, 'number'])
      .expression(db.selectFrom('sampling_selections').select([...kept, number.as('number')]))
      .execute()
    await fillSizes(db)
    await db.schema.dropTable('sampling_selections').execute()
    await db.schema.alterTable('sampling_commitments').renameTo('sampling_selections').execute()
    await db.schema
      .createIndex('sampling_selections_of_frame')
      .on('sampling_selections')
      .columns(['frame_digest', 'design_id'])
      .execute()
  },
  '007-audit-files': async (db: Kysely<any>) => {
    // any: a migration sees tables that no type knows yet
    await db.schema
      .createTable('sampling_audit_files')
      .addColumn('design_id', 'varchar(36)', (column) => column.notNull())
      .addColumn('number', 'integer', (column) => column.notNull())
      .addColumn('name', 'text', (column) => column.notNull())
      .addColumn('media_type', 'text', (column) => column.notNull())
      .addColumn('sha256', 'text', (column) => column.notNull())
      .addColumn('bytes', 'integer', (column) => column.notNull())
      .addColumn('content', 'text', (column) => column.notNull())
      .addPrimaryKeyConstraint('sampling_audit_files_pk', ['design_id', 'number'])
      .execute()
  },
  '008-frame-queries': async (db: Kysely<any>) => {
    // any: a migration sees tables that no type knows yet
    await db.schema
      .createTable('sampling_frame_queries')
      .addColumn('design_id', 'varchar(36)', (column) => column.notNull())
      .addColumn('frame_digest', 'varchar(64)', (column) => column.notNull())
      .addColumn('query', 'text', (column) => column.notNull())
      .addPrimaryKeyConstraint('sampling_frame_queries_pk', ['design_id', 'frame_digest'])
      .execute()
  },
}

/** Writes into copied commitments the sizes of the revision for which each was made, some hundred at a time. */
async function fillSizes(db: Kysely<any>): Promise<void> {
  // any: a migration sees tables that no type knows yet
  for (;;) {
    const rows = await db
      .selectFrom('sampling_commitments as commitment')
      .innerJoin('sampling_revisions as made', (join) =>
        join
          .onRef('made.design_id', '=', 'commitment.design_id')
          .onRef('made.revision', '=', 'commitment.revision'),
      )
      .select(['commitment.design_id', 'commitment.number', 'made.figures'])
      .where('commitment.sizes', 'is', null)
      .limit(200)
      .execute()
    if (rows.length === 0) return
    for (const { design_id, number, figures } of rows) {
      const { stratification, parameters } = JSON.parse(figures)
      const strata: { name: string; sampleSize: number }[] = stratification?.strata ?? [
        { name: 'all', sampleSize: parameters.adjustedSize },
      ]
      const sizes = strata.map(({ name, sampleSize }) => [name, sampleSize])
      await db
        .updateTable('sampling_commitments')
        .set({ sizes: JSON.stringify(sizes) })
        .where('design_id', '=', design_id)
        .where('number', '=', number)
        .execute()
    }
  }
}

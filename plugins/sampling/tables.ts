import type { Kysely } from 'kysely'
import type { Database } from '#core'

// Types, not interfaces: Kysely wants an index signature, which only a type has. JSON is kept as text.

/** One revision of a design. */
export type RevisionRow = {
  design_id: string
  revision: number
  project_id: string
  created_at: string
  /** The request that it was worked out from, actual values in place of the expected ones. */
  request: string
  figures: string
  /** What a recalculation changed. */
  outcome: string | null
  verification: string
  /** Counts what happened to the row, so that two writers do not overtake each other. */
  version: number
  /** 1 for the newest revision of its design. */
  newest: number
  /** The DID of who made the design; null where it was made with the service's key. */
  owner: string | null
  /** Whom the design was submitted to last. */
  verifier: string | null
  /** Who worked this revision out: a DID, or `key:` and the name of a key. */
  made_by: string | null
}

/** The commitment of a revision, and later what was drawn. */
export type SelectionRow = {
  design_id: string
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
  /** Who drew, unless the verifier did. */
  drawn_by: string | null
}

/**
 * The committed ids, sorted, in parts small enough to be read one by one. They are written before the commitment that
 * names them, so that no transaction stays open for as long as a large frame takes.
 */
export type FrameRow = {
  frame_id: string
  stratum: string
  part: number
  ids: string
}

/** A frame that is being written. It is gone with the commitment; one that stays is of a server that died. */
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
}
/** The database, or a transaction in it, with the tables of sampling. */
export type SamplingDatabase = Kysely<Tables>

/** The database with the tables of sampling. */
export const withSamplingTables = (db: Database): SamplingDatabase => db.withTables<Tables>()

/** How the tables of sampling came to be, in order. */
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
    // any: as above
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
    // any: as above
    for (const column of ['owner', 'verifier'])
      await db.schema.alterTable('sampling_revisions').addColumn(column, 'text').execute()
  },
  '004-uploads': async (db: Kysely<any>) => {
    // any: as above
    await db.schema
      .createTable('sampling_uploads')
      .addColumn('frame_id', 'varchar(36)', (column) => column.primaryKey())
      .addColumn('touched_at', 'text', (column) => column.notNull())
      .execute()
  },
  '005-makers': async (db: Kysely<any>) => {
    // any: as above
    await db.schema.alterTable('sampling_revisions').addColumn('made_by', 'text').execute()
    for (const column of ['committed_by', 'drawn_by'])
      await db.schema.alterTable('sampling_selections').addColumn(column, 'text').execute()
    // The name of the key was not written down: it may have been any.
    await db
      .updateTable('sampling_revisions')
      .set((eb: any) => ({ made_by: eb.fn.coalesce('owner', eb.val('key:*')) }))
      .execute()
  },
}

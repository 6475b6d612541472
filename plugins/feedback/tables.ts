import type { Kysely } from 'kysely'

/** What one user says of one message. */
export type FeedbackRow = {
  did: string
  session_id: string
  message_id: string
  rating: 'up' | 'down'
  /** The tags, as JSON. */
  tags: string
  comment: string
  /** 1 where the operator may read the comment and the answer. */
  share: number
  /** The id of the model that answered; null where none did. */
  model: string | null
  /** The plugins whose tools the answer had called, as JSON. */
  plugins: string
  /** When it was said last, in milliseconds since 1970. */
  at: number
}

/** The tables of the plugin. */
export type FeedbackTables = {
  feedback: FeedbackRow
}

type Any = Kysely<any> // any: a migration sees tables that no type knows yet

/** The migrations of the tables, in order. */
export const migrations = {
  '001-feedback': async (db: Any) => {
    await db.schema
      .createTable('feedback')
      .addColumn('did', 'varchar(512)', (column) => column.notNull())
      .addColumn('session_id', 'varchar(100)', (column) => column.notNull())
      .addColumn('message_id', 'varchar(200)', (column) => column.notNull())
      .addColumn('rating', 'varchar(4)', (column) => column.notNull())
      .addColumn('tags', 'text', (column) => column.notNull())
      .addColumn('comment', 'text', (column) => column.notNull())
      .addColumn('share', 'integer', (column) => column.notNull())
      .addColumn('model', 'varchar(300)')
      .addColumn('plugins', 'text', (column) => column.notNull())
      .addColumn('at', 'bigint', (column) => column.notNull())
      .addPrimaryKeyConstraint('feedback_key', ['did', 'session_id', 'message_id'])
      .execute()
    await db.schema
      .createIndex('feedback_by_time')
      .on('feedback')
      .columns(['at', 'session_id', 'message_id'])
      .execute()
  },
}

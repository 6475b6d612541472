import { prepared } from '../../store/prepared.ts'
import type { RunStore } from '../journal/store.ts'

type Using = Pick<RunStore, 'db' | 'now'>

/** Inserts a new session, whose row it returns. */
export const insertNewSession = ({ db, now }: Using) =>
  prepared(db, (p: { id: string; did: string; plugin: string | null }) =>
    db
      .insertInto('kernel_sessions')
      .values({
        ...{ id: p.id, did: p.did, plugin: p.plugin },
        ...{ created_at: now, updated_at: now, turns: 0 },
      })
      .returningAll(),
  )

/** Finds a session of a user. */
export const ownSession = ({ db }: Pick<Using, 'db'>) =>
  prepared(db, (p: { id: string; did: string }) =>
    db.selectFrom('kernel_sessions').select('id').where('id', '=', p.id).where('did', '=', p.did),
  )

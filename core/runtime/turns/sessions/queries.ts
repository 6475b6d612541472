import { prepared } from '../../store/prepared.ts'
import type { RunStore } from '../journal/store.ts'
import type { RunDatabase } from '../journal/tables.ts'

type Using = Pick<RunStore, 'db'>

/** Finds a session of a user. */
export const ownSession = ({ db }: Using) =>
  prepared(db, (p: { id: string; did: string }) =>
    db.selectFrom('kernel_sessions').select('id').where('id', '=', p.id).where('did', '=', p.did),
  )

/** The id of the user's newest session of a room, else of a plugin. */
export async function newestOf(
  db: RunDatabase,
  did: string,
  {
    room,
    plugin,
    shared,
  }: { readonly room: string | null; readonly plugin?: string; readonly shared?: boolean },
): Promise<string | undefined> {
  if (room === null && plugin === undefined) return undefined
  const all = db.selectFrom('kernel_sessions').select('id').where('did', '=', did)
  const own = all.where('ephemeral', '=', 0)
  const found =
    room === null ? own.where('plugin', '=', plugin ?? '') : own.where('room', '=', room)
  const row = await (shared === undefined ? found : found.where('shared', '=', shared ? 1 : 0))
    .orderBy('updated_at', 'desc')
    .limit(1)
    .executeTakeFirst()
  return row?.id
}

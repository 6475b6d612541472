import type { Database, ErasedData, UserDataItem } from '#core'
import { withMessagingTables } from './tables.ts'

const time = (ms: number) => new Date(Number(ms)).toISOString()
const page = 500

/** What messaging keeps of a person: links, direct rooms, and which messages were handled. The words stand in the rooms. */
export async function* exportMessaging(
  did: string,
  database: Database,
): AsyncGenerator<UserDataItem> {
  const db = withMessagingTables(database)
  const links = await db.selectFrom('messaging_links').selectAll().where('did', '=', did).execute()
  for (const { account, by, at } of links) yield { kind: 'link', account, by, linkedAt: time(at) }
  const rooms = await db.selectFrom('messaging_rooms').selectAll().where('did', '=', did).execute()
  for (const { room_id: roomId, joined_at: at } of rooms)
    yield { kind: 'room', roomId, joinedAt: time(at) }
  for (let last = ''; ;) {
    const events = await db
      .selectFrom('messaging_events')
      .select(['event_id', 'room_id', 'state', 'at'])
      .where('did', '=', did)
      .where('event_id', '>', last)
      .orderBy('event_id')
      .limit(page)
      .execute()
    for (const { event_id: eventId, room_id: roomId, state, at } of events)
      yield { kind: 'message', eventId, roomId, state, at: time(at) }
    if (events.length < page) return
    last = events.at(-1)?.event_id ?? ''
  }
}

/** Erases what messaging keeps of a person. */
export async function eraseMessaging(did: string, database: Database): Promise<ErasedData> {
  const db = withMessagingTables(database)
  return db.transaction().execute(async (trx) => {
    const gone = async (
      table:
        | 'messaging_links'
        | 'messaging_codes'
        | 'messaging_asks'
        | 'messaging_rooms'
        | 'messaging_notices',
    ) => (await trx.deleteFrom(table).where('did', '=', did).returning('did').execute()).length
    // A message that is erased is not answered again: its row stays, and says nothing of anybody.
    const events = await trx
      .updateTable('messaging_events')
      .set({ did: null, session_id: null, sender: '', state: 'ignored' })
      .where('did', '=', did)
      .returning('event_id')
      .execute()
    return {
      erased: {
        link: await gone('messaging_links'),
        code: await gone('messaging_codes'),
        question: await gone('messaging_asks'),
        room: await gone('messaging_rooms'),
        notice: await gone('messaging_notices'),
        message: events.length,
      },
    }
  })
}

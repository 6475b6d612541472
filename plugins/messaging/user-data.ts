import type { Database, ErasedData, UserDataItem } from '#core'
import type { People } from './people/people.ts'
import { type MessagingDatabase, withMessagingTables } from './tables.ts'

const time = (ms: number) => new Date(Number(ms)).toISOString()
const page = 500

/** What messaging keeps of a person: links, direct rooms, and which messages were handled. The words stand in the rooms. */
export async function* exportMessaging(
  did: string,
  database: Database,
  people: People,
): AsyncGenerator<UserDataItem> {
  const db = withMessagingTables(database)
  const links = await db.selectFrom('messaging_links').selectAll().where('did', '=', did).execute()
  for (const { account, by, at } of links) yield { kind: 'link', account, by, linkedAt: time(at) }
  const rooms = await ownRooms(db, did, await people.speaking(did))
  for (const { room_id: roomId, joined_at: at } of rooms)
    yield { kind: 'room', roomId, joinedAt: time(at) }
  for (let last = ''; ;) {
    const sessions = await db
      .selectFrom('messaging_sessions')
      .select(['session_id', 'room_id'])
      .where('did', '=', did)
      .where('session_id', '>', last)
      .orderBy('session_id')
      .limit(page)
      .execute()
    for (const { session_id: sessionId, room_id: roomId } of sessions)
      yield { kind: 'session', sessionId, roomId }
    if (sessions.length < page) break
    last = sessions.at(-1)?.session_id ?? ''
  }
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
export async function eraseMessaging(
  did: string,
  database: Database,
  people: People,
): Promise<ErasedData> {
  const db = withMessagingTables(database)
  // Before the links are gone, which say whose direct rooms they are.
  const accounts = await people.speaking(did)
  return db.transaction().execute(async (trx) => {
    const gone = async (
      table:
        | 'messaging_links'
        | 'messaging_codes'
        | 'messaging_asks'
        | 'messaging_notices'
        | 'messaging_sessions',
    ) => (await trx.deleteFrom(table).where('did', '=', did).returning('did').execute()).length
    const rooms = (await ownRooms(trx, did, accounts)).map(({ room_id: id }) => id)
    if (rooms.length > 0)
      await trx.deleteFrom('messaging_rooms').where('room_id', 'in', rooms).execute()
    await trx
      .deleteFrom('messaging_sent')
      .where('request_id', 'in', (of) =>
        of.selectFrom('messaging_events').select('request_id').where('did', '=', did),
      )
      .execute()
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
        session: await gone('messaging_sessions'),
        room: rooms.length,
        notice: await gone('messaging_notices'),
        message: events.length,
      },
    }
  })
}

/** The room of a person and the oracle, and the direct rooms of the accounts that speak for the person. */
const ownRooms = (db: MessagingDatabase, did: string, accounts: readonly string[]) =>
  db
    .selectFrom('messaging_rooms')
    .select(['room_id', 'joined_at'])
    .where((of) =>
      of.or([of('did', '=', did), ...accounts.map((account) => of('account', '=', account))]),
    )
    .execute()

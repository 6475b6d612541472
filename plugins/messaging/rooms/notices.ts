import type { Log, Notice } from '#core'
import { cleaned, messageOf } from '../answering/words.ts'
import { requestIdOf } from '../answering/message.ts'
import type { People } from '../people/people.ts'
import { ServerFault } from '../server/fault.ts'
import type { MessagingDatabase } from '../tables.ts'
import type { Rooms } from './rooms.ts'

/** How many notices are sent at once, and how long one may wait for the process that sends it. */
const most = 50
const oldestMs = 86_400_000

/** The direct room of a person, in which nobody else reads; the room of the pair before all others. */
async function directRoomOf(
  db: MessagingDatabase,
  people: People,
  did: string,
): Promise<string | undefined> {
  const accounts = await people.speaking(did)
  const rows = await db
    .selectFrom('messaging_rooms')
    .select(['room_id', 'account', 'did'])
    .where('kind', '=', 'direct')
    .where((of) =>
      of.or([of('did', '=', did), ...accounts.map((account) => of('account', '=', account))]),
    )
    .orderBy('joined_at', 'desc')
    .limit(100)
    .execute()
  return (rows.find((row) => row.did === did) ?? rows[0])?.room_id
}

/** Keeps a notice for the process that holds the account. Without a direct room of the person it goes nowhere. */
export async function keepNotice(
  { db, people }: { readonly db: MessagingDatabase; readonly people: People },
  { user, title, text, plugin }: Notice,
  key: string,
  now: number,
): Promise<void> {
  // What a turn from a room says or asks stands in the room already.
  if (plugin === 'messaging') return
  const room_id = await directRoomOf(db, people, user)
  if (room_id === undefined) return
  await db
    .insertInto('messaging_notices')
    .values({ key, room_id, did: user, text: cleaned(`**${title}**\n\n${text}`), at: now })
    .onConflict((on) => on.column('key').doNothing())
    .execute()
}

/** Sends the notices that wait, the oldest first, each once. */
export async function sendNotices(
  { db, rooms, log }: { readonly db: MessagingDatabase; readonly rooms: Rooms; readonly log: Log },
  now: number,
): Promise<void> {
  await db
    .deleteFrom('messaging_notices')
    .where('at', '<', now - oldestMs)
    .execute()
  const rows = await db
    .selectFrom('messaging_notices')
    .selectAll()
    .orderBy('at')
    .limit(most)
    .execute()
  for (const { key, room_id: roomId, text } of rows) {
    const content = await messageOf(text)
    await rooms
      .send(roomId, 'm.room.message', content, requestIdOf(`notice ${key}`))
      .catch((thrown: unknown) => {
        // A room that takes no more words of ours takes this one neither tomorrow.
        if (!(thrown instanceof ServerFault) || thrown.kind !== 'refused') throw thrown
        log.info({ cause: thrown.message }, 'A notice was refused by its room')
      })
    await db.deleteFrom('messaging_notices').where('key', '=', key).execute()
  }
}

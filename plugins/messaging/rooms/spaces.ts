import type { Oracle } from '#core'
import { RuntimeError } from '#core'
import { serverOf } from '../environment.ts'
import type { Messaging } from '../messaging.ts'
import { path, ServerApi } from '../server/api.ts'
import { ServerFault } from '../server/fault.ts'
import type { Sync } from '../server/line.ts'

/** A room that clients look for by its alias. */
interface WantedRoom {
  /** The alias without the sign and the server. */
  readonly name: string
  /** Whom the room is for: invited, and with every right. */
  readonly account: string
  readonly body: Readonly<Record<string, unknown>>
}

/** A DID as it stands in the names of rooms and accounts. */
const inName = (did: string) => did.replaceAll(':', '-')

/** The spaces of a person, made once: only for an account that is there, and whose name is that of the DID. */
export async function spacesOf(messaging: Messaging, did: string) {
  const account = accountOf(messaging, did)
  const { api } = messaging.demandDesk().line
  await api.get(path`/profile/${account}`).catch((thrown: unknown) => {
    throw isMissing(thrown) ? unknown(did) : thrown
  })
  const body = { creation_content: { type: 'm.space' } }
  const of = (kind: string) => ({ name: `${inName(did)}_${kind}`, account, body })
  const space = await roomOf(messaging, of('space'))
  const oracles = await roomOf(messaging, of('oracles'))
  return { space_id: space, subspaces: { oracles: { space_id: oracles } } }
}

/** The room of a person and the oracle, the same at every call. The token says that the account is that person's. */
export async function pairRoomOf(
  messaging: Messaging,
  oracle: Oracle,
  { did, oracleDid, token }: { did: string; oracleDid: string; token: string },
): Promise<string> {
  if (![oracle.did, ...oracle.aliases].includes(oracleDid))
    throw new RuntimeError('NOT_FOUND', 'This oracle has another DID.')
  const account = await accountOfToken(messaging, token)
  const speaker = await messaging.people.speakerOf(account)
  if (speaker.isGuest || speaker.did !== did)
    throw new RuntimeError('FORBIDDEN', 'The messaging account is not that of this DID.', {
      hint: 'Link the account first.',
    })
  const { db } = messaging
  const known = await db
    .selectFrom('messaging_rooms')
    .select('room_id')
    .where('did', '=', did)
    .executeTakeFirst()
  if (known) return known.room_id
  const encryption = {
    type: 'm.room.encryption',
    state_key: '',
    content: { algorithm: 'm.megolm.v1.aes-sha2' },
  }
  const roomId = await roomOf(messaging, {
    name: `${inName(did)}_${inName(oracleDid)}`,
    account,
    body: { is_direct: true, initial_state: [encryption] },
  })
  const kept = { kind: 'direct', account, did } as const
  await db
    .insertInto('messaging_rooms')
    .values({ room_id: roomId, ...kept, generation: 0, joined_at: messaging.now().getTime() })
    .onConflict((on) => on.column('room_id').doUpdateSet(kept))
    .execute()
  return roomId
}

/** The account that a token of the messaging server is for. The oracle's own token is not touched. */
async function accountOfToken(messaging: Messaging, token: string): Promise<string> {
  const api = new ServerApi(messaging.env.MATRIX_BASE_URL, messaging.fetch)
  api.token = token
  try {
    const { user_id: account } = await api.get(path`/account/whoami`)
    if (typeof account === 'string') return account
  } catch (thrown) {
    if (!(thrown instanceof ServerFault)) throw thrown
    if (thrown.kind !== 'rejected' && thrown.kind !== 'refused') throw away()
  }
  throw new RuntimeError('UNAUTHORIZED', 'The messaging server does not know this token.')
}

const away = () =>
  new RuntimeError('UNAVAILABLE', 'The messaging server does not answer.', {
    hint: 'Try again in a moment.',
  })

const unknown = (did: string) =>
  new RuntimeError('NOT_FOUND', `The messaging server has no account of ${did}.`)

const isMissing = (thrown: unknown) => thrown instanceof ServerFault && thrown.status === 404

function accountOf({ env, people }: Messaging, did: string): string {
  const account = `@${inName(did)}:${serverOf(env.MATRIX_ORACLE_ADMIN_USER_ID)}`
  if (people.didInName(account) !== did) throw unknown(did)
  return account
}

/** The room of an alias: the one that is there, or a new one. */
async function roomOf(messaging: Messaging, wanted: WantedRoom): Promise<string> {
  const { line, rooms } = messaging.demandDesk()
  const alias = `#${wanted.name}:${serverOf(line.userId)}`
  const found = async () => {
    const { room_id: roomId } = await line.api.get(path`/directory/room/${alias}`)
    return String(roomId)
  }
  let roomId: string | undefined
  try {
    roomId = await found()
  } catch (thrown) {
    if (!isMissing(thrown)) throw thrown
  }
  if (roomId === undefined) {
    try {
      const made: Sync = await line.api.post(path`/createRoom`, {
        preset: 'private_chat',
        ...wanted.body,
        room_alias_name: wanted.name,
        invite: [wanted.account],
        // The oracle's own account has to stand here, too: the list takes the place of the usual one.
        power_level_content_override: { users: { [line.userId]: 100, [wanted.account]: 100 } },
      })
      return String(made.room_id)
    } catch (thrown) {
      // Another request made it meanwhile.
      if (!(thrown instanceof ServerFault) || thrown.errcode !== 'M_ROOM_IN_USE') throw thrown
      roomId = await found()
    }
  }
  const members = await rooms.view(roomId).catch((thrown: unknown) => {
    if (thrown instanceof ServerFault && thrown.kind === 'refused') return undefined
    throw thrown
  })
  if (members?.members.get(line.userId) === 'join') return roomId
  messaging.log.warn('The alias of a room of a person and the oracle belongs to another room')
  throw new RuntimeError('CONFLICT', 'The name of this room is taken by another room.', {
    hint: 'The operator of the messaging server can free the alias.',
  })
}

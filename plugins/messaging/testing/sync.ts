import type { Device } from './accounts.ts'
import { type Json, type Room, type RoomEvent, shown } from './room.ts'

/** What a sync looks at. */
export interface Synced {
  readonly rooms: Iterable<Room>
  readonly position: number
  /** Accounts whose devices have changed, with the place of the change. */
  readonly changes: readonly { readonly position: number; readonly userId: string }[]
}

const usualLimit = 20

/** What happened since then, as `/sync` answers it; undefined while nothing did. */
export function synced(
  { rooms, position, changes }: Synced,
  device: Device,
  since: number | undefined,
  filter: Json,
): Json | undefined {
  const limit = filter.room?.timeline?.limit ?? usualLimit
  const join: Json = {}
  const invite: Json = {}
  const leave: Json = {}
  for (const room of rooms) {
    const membership = room.membership(device.userId)
    const own = room.state('m.room.member', device.userId)
    if (membership === 'join') {
      const part = joined(room, since, own?.position ?? 0, limit)
      if (part) join[room.id] = part
    } else if (membership === 'invite' && (since === undefined || (own?.position ?? 0) > since)) {
      invite[room.id] = { invite_state: { events: stripped(room, device.userId) } }
    } else if (own && (own.position ?? 0) > (since ?? position)) {
      leave[room.id] = { timeline: { events: [shown(own)] } }
    }
  }
  // What was handed out before and is asked for past has arrived.
  while (since !== undefined && device.inbox[0] && device.inbox[0].position <= since)
    device.inbox.shift()
  const letters = device.inbox.map(({ event }) => event)
  const changed = new Set(
    changes
      .filter((one) => since !== undefined && one.position > since)
      .map(({ userId }) => userId),
  )
  const isNews =
    since === undefined ||
    letters.length > 0 ||
    changed.size > 0 ||
    [join, invite, leave].some((part) => Object.keys(part).length > 0)
  if (!isNews) return undefined
  return {
    next_batch: `s${position}`,
    rooms: { join, invite, leave },
    to_device: { events: letters },
    device_lists: { changed: [...changed], left: [] },
    device_one_time_keys_count: device.counts,
    device_unused_fallback_key_types: device.fallback.size > 0 ? ['signed_curve25519'] : [],
    account_data: { events: [] },
  }
}

function joined(
  room: Room,
  since: number | undefined,
  joinedAt: number,
  limit: number,
): Json | undefined {
  const isFirst = since === undefined || joinedAt > since
  const fresh = room.events.filter(({ position }) => since === undefined || position > since)
  if (fresh.length === 0) return undefined
  const shownEvents = fresh.slice(-limit)
  const first = shownEvents[0]
  const isLimited = fresh.length > shownEvents.length
  const before = (event: RoomEvent) => first === undefined || event.position < first.position
  const state = room.wholeState.filter(
    (event) => before(event) && (isFirst || event.position > (since ?? 0)),
  )
  return {
    state: { events: state.map(shown) },
    timeline: {
      events: shownEvents.map(shown),
      limited: isLimited,
      prev_batch: `s${(first?.position ?? 1) - 1}`,
    },
    summary: { 'm.joined_member_count': room.members().length },
    unread_notifications: {},
  }
}

const strippedTypes = ['m.room.create', 'm.room.name', 'm.room.encryption', 'm.room.join_rules']

const stripped = (room: Room, userId: string): Json[] =>
  room.wholeState
    .filter(
      ({ type, state_key }) =>
        strippedTypes.includes(type) || (type === 'm.room.member' && state_key === userId),
    )
    .map(({ type, state_key, sender, content }) => ({ type, state_key, sender, content }))

/** A page of the past of a room, the newest first, as `/messages?dir=b` answers it. */
export function pageBack(room: Room, from: number, to: number, limit: number): Json {
  const older = room.events.filter(({ position }) => position <= from && position > to).reverse()
  const chunk = older.slice(0, limit)
  const last = chunk.at(-1)
  return {
    chunk: chunk.map(shown),
    start: `s${from}`,
    ...(older.length > chunk.length && last && { end: `s${last.position - 1}` }),
  }
}

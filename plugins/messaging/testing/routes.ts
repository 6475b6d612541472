import { randomBytes } from 'node:crypto'
import { type Asked, type Route, route, who } from './asked.ts'
import type { Homeserver } from './homeserver.ts'
import { keyRoutes } from './key-routes.ts'
import { type Json, Refusal, type Room, type RoomEvent, shown } from './room.ts'
import { pageBack, synced } from './sync.ts'

const longestWaitMs = 60_000

async function sync(server: Homeserver, asked: Asked): Promise<Json> {
  const device = who(asked)
  const given = asked.query.get('since')
  const since = given === null ? undefined : Number(given.slice(1))
  const filter = JSON.parse(asked.query.get('filter') ?? '{}')
  const until = Date.now() + Math.min(Number(asked.query.get('timeout') ?? 0), longestWaitMs)
  for (;;) {
    const { position, changes } = server
    const news = synced({ rooms: server.rooms.values(), position, changes }, device, since, filter)
    if (news) return news
    const left = until - Date.now()
    if (left <= 0)
      return {
        next_batch: `s${position}`,
        rooms: {},
        to_device: { events: [] },
        device_one_time_keys_count: device.counts,
        device_unused_fallback_key_types: ['signed_curve25519'],
      }
    await server.news(left)
  }
}

function createRoom(server: Homeserver, asked: Asked): Json {
  const { userId } = who(asked)
  const { body } = asked
  const alias =
    body.room_alias_name === undefined ? undefined : `#${body.room_alias_name}:${server.name}`
  if (alias !== undefined && server.aliases.has(alias)) throw new Refusal(400, 'M_ROOM_IN_USE')
  const room = server.newRoom()
  const put = (type: string, content: Json, key = '') =>
    room.add({ type, sender: userId, content, state_key: key })
  put('m.room.create', { creator: userId, room_version: '10', ...body.creation_content })
  put('m.room.member', { membership: 'join' }, userId)
  put('m.room.power_levels', { users: { [userId]: 100 }, ...body.power_level_content_override })
  put('m.room.join_rules', { join_rule: body.preset === 'public_chat' ? 'public' : 'invite' })
  for (const { type, state_key = '', content } of body.initial_state ?? [])
    put(type, content, state_key)
  if (body.name !== undefined) put('m.room.name', { name: body.name })
  if (alias !== undefined) {
    server.aliases.set(alias, { roomId: room.id, by: userId })
    put('m.room.canonical_alias', { alias })
  }
  for (const invited of body.invite ?? [])
    put('m.room.member', { membership: 'invite', is_direct: body.is_direct }, invited)
  return { room_id: room.id }
}

function setMembership(room: Room, sender: string, user: string, membership: string): Json {
  room.add({ type: 'm.room.member', sender, state_key: user, content: { membership } })
  return { room_id: room.id }
}

function join(server: Homeserver, asked: Asked): Json {
  const { userId } = who(asked)
  const [given = ''] = asked.params
  const room = server.room(server.aliases.get(given)?.roomId ?? given)
  const rule = room.state('m.room.join_rules')?.content.join_rule
  const membership = room.membership(userId)
  if (membership === 'join') return { room_id: room.id }
  if (membership !== 'invite' && rule !== 'public') throw new Refusal(403, 'M_FORBIDDEN')
  return setMembership(room, userId, userId, 'join')
}

function send(server: Homeserver, asked: Asked): Json {
  const device = who(asked)
  const [roomId = '', type = '', txn = ''] = asked.params
  const known = device.sent.get(`${type} ${txn}`)
  if (known !== undefined) return { event_id: known }
  const room = server.room(roomId)
  room.demandJoined(device.userId)
  room.demandLevel(device.userId, type, false)
  server.countSend(device.userId)
  server.demandSize(asked.body)
  const { event_id } = room.add({ type, sender: device.userId, content: asked.body })
  device.sent.set(`${type} ${txn}`, event_id)
  return { event_id }
}

function redact(server: Homeserver, asked: Asked): Json {
  const device = who(asked)
  const [roomId = '', eventId = '', txn = ''] = asked.params
  const known = device.sent.get(`redact ${txn}`)
  if (known !== undefined) return { event_id: known }
  const { event_id } = server.room(roomId).redact(eventId, device.userId, asked.body.reason)
  device.sent.set(`redact ${txn}`, event_id)
  return { event_id }
}

function putState(server: Homeserver, asked: Asked): Json {
  const { userId } = who(asked)
  const [roomId = '', type = '', key = ''] = asked.params
  const room = server.room(roomId)
  room.demandJoined(userId)
  room.demandLevel(userId, type, true)
  const { event_id } = room.add({ type, sender: userId, content: asked.body, state_key: key })
  return { event_id }
}

function invite(server: Homeserver, asked: Asked): Json {
  const { userId } = who(asked)
  const room = server.room(asked.params[0] ?? '')
  room.demandJoined(userId)
  room.demandLevel(userId, 'invite', false)
  return setMembership(room, userId, asked.body.user_id, 'invite')
}

function login(server: Homeserver, { body }: Asked): Json {
  const name = String(body.identifier?.user ?? body.user ?? '')
  const userId = name.startsWith('@') ? name : `@${name}:${server.name}`
  const { token, device } = server.accounts.login(userId, body.password, body.device_id)
  device.name ??= body.initial_device_display_name
  return { user_id: userId, access_token: token, device_id: device.id, home_server: server.name }
}

function roomEvent(server: Homeserver, { params }: Asked): Json {
  const [roomId = '', eventId = ''] = params
  const event = server.room(roomId).events.find(({ event_id }) => event_id === eventId)
  if (!event) throw new Refusal(404, 'M_NOT_FOUND')
  return shown(event)
}

function stateOf(server: Homeserver, asked: Asked): Json {
  const [roomId = '', type = ''] = asked.params
  const room = server.room(roomId)
  room.demandJoined(who(asked).userId)
  const event = room.state(type)
  if (!event) throw new Refusal(404, 'M_NOT_FOUND')
  return event.content
}

/** A member as the published client reads it, which goes by the field `user_id` that older servers gave. */
const memberOf = (event: RoomEvent): Json => ({ ...shown(event), user_id: event.state_key })

function messages(server: Homeserver, { params, query }: Asked): Json {
  const number = (name: string, usual: number) =>
    Number((query.get(name) ?? `s${usual}`).replace(/^s/, ''))
  const room = server.room(params[0] ?? '')
  return pageBack(room, number('from', server.position), number('to', 0), number('limit', 10))
}

function joinedMembers(server: Homeserver, { params }: Asked): Json {
  const joined = server.room(params[0] ?? '').members()
  return { joined: Object.fromEntries(joined.map((user) => [user, { display_name: null }])) }
}

function kick(server: Homeserver, asked: Asked): Json {
  const room = server.room(asked.params[0] ?? '')
  room.demandLevel(who(asked).userId, 'm.room.kick', true)
  return setMembership(room, who(asked).userId, asked.body.user_id, 'leave')
}

function upload(server: Homeserver, { raw, type }: Asked): Json {
  const id = randomBytes(12).toString('hex')
  server.media.set(id, { bytes: raw, type })
  return { content_uri: `mxc://${server.name}/${id}` }
}

function download(server: Homeserver, { params }: Asked): Uint8Array {
  const file = server.media.get(params[1] ?? '')
  if (!file) throw new Refusal(404, 'M_NOT_FOUND')
  return file.bytes
}

function directory(server: Homeserver, { params }: Asked): Json {
  const known = server.aliases.get(params[0] ?? '')
  if (!known) throw new Refusal(404, 'M_NOT_FOUND')
  return { room_id: known.roomId, servers: [server.name] }
}

const roomRoutes: readonly Route[] = [
  route('POST /createRoom', createRoom),
  route('POST /join/:room', join),
  route('POST /rooms/:room/join', join),
  route('POST /rooms/:room/invite', invite),
  route('POST /rooms/:room/kick', kick),
  route('POST /rooms/:room/leave', (server, asked) =>
    setMembership(
      server.room(asked.params[0] ?? ''),
      who(asked).userId,
      who(asked).userId,
      'leave',
    ),
  ),
  route('POST /rooms/:room/forget', () => ({})),
  route('PUT /rooms/:room/send/:type/:txn', send),
  route('PUT /rooms/:room/redact/:event/:txn', redact),
  route('PUT /rooms/:room/state/:type/:key', putState),
  route('PUT /rooms/:room/state/:type', putState),
  route('GET /rooms/:room/state', (server, { params }) =>
    server.room(params[0] ?? '').wholeState.map(shown),
  ),
  route('GET /rooms/:room/state/:type', stateOf),
  route('GET /rooms/:room/members', (server, asked) => {
    const room = server.room(asked.params[0] ?? '')
    room.demandJoined(who(asked).userId)
    return { chunk: room.wholeState.filter(({ type }) => type === 'm.room.member').map(memberOf) }
  }),
  route('GET /rooms/:room/event/:event', roomEvent),
  route('GET /rooms/:room/messages', messages),
  route('GET /rooms/:room/joined_members', joinedMembers),
  route('PUT /rooms/:room/typing/:user', () => ({})),
  route('POST /rooms/:room/receipt/:type/:event', () => ({})),
  route('POST /rooms/:room/read_markers', () => ({})),
  route('GET /joined_rooms', (server, asked) => ({
    joined_rooms: [...server.rooms.values()]
      .filter((room) => room.membership(who(asked).userId) === 'join')
      .map(({ id }) => id),
  })),
  route('GET /directory/room/:alias', directory),
]

/** Every route of the server. */
export const routes: readonly Route[] = [
  route('GET /_matrix/client/versions', () => ({ versions: ['v1.1', 'v1.11', 'v1.12'] }), true),
  route('POST /login', login, true),
  route('GET /account/whoami', (_, asked) => ({
    user_id: who(asked).userId,
    device_id: who(asked).id,
  })),
  route('POST /logout', () => ({})),
  route('GET /sync', sync),
  ...roomRoutes,
  ...keyRoutes,
  route('POST /user/:user/openid/request_token', (server, asked) =>
    server.accounts.mintOpenId(who(asked).userId),
  ),
  route(
    'GET /_matrix/federation/v1/openid/userinfo',
    (server, { query }) => ({
      sub: server.accounts.userOfOpenId(query.get('access_token') ?? ''),
    }),
    true,
  ),
  route('POST /_matrix/media/v3/upload', upload),
  route('GET /_matrix/client/v1/media/download/:server/:id', download),
  route('PUT /user/:user/account_data/:type', (server, asked) => {
    const { userId } = who(asked)
    server.accounts.get(userId)?.data.set(asked.params[1] ?? '', asked.body)
    return {}
  }),
  route('GET /user/:user/account_data/:type', (server, asked) => {
    const data = server.accounts.get(who(asked).userId)?.data.get(asked.params[1] ?? '')
    if (!data) throw new Refusal(404, 'M_NOT_FOUND')
    return data
  }),
  route('GET /profile/:user', (server, { params: [user = ''] }) => {
    if (!server.accounts.get(user)) throw new Refusal(404, 'M_NOT_FOUND')
    return { displayname: user }
  }),
  route('GET /capabilities', () => ({ capabilities: {} })),
  route('GET /pushrules', () => ({ global: {} })),
  route('POST /user/:user/filter', () => ({ filter_id: '0' })),
]

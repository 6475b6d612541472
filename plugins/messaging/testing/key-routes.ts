import type { Account, Backup } from './accounts.ts'
import type { Homeserver } from './homeserver.ts'
import { type Json, Refusal } from './room.ts'
import { type Asked, type Route, who } from './asked.ts'

/** Keys of devices and of accounts, and what devices tell each other. */
export const keyRoutes: readonly Route[] = [
  { ...at('POST', 'keys/upload'), run: upload },
  { ...at('POST', 'keys/query'), run: query },
  { ...at('POST', 'keys/claim'), run: claim },
  { ...at('PUT', 'sendToDevice/([^/]+)/([^/]+)'), run: sendToDevice },
  { ...at('POST', 'keys/device_signing/upload'), run: signKeys },
  { ...at('POST', 'keys/signatures/upload'), run: sign },
  { ...at('GET', 'keys/changes'), run: () => ({ changed: [], left: [] }) },
  { ...at('POST', 'room_keys/version'), run: newBackup },
  { ...at('GET', 'room_keys/version'), run: backupOf },
  { ...at('PUT', 'room_keys/keys'), run: backUp },
  {
    ...at('GET', 'room_keys/keys'),
    run: (server, asked) => ({ rooms: ownBackup(server, asked).rooms }),
  },
  { ...at('GET', 'devices'), run: devices },
  { ...at('DELETE', 'devices/([^/]+)'), run: endDevice },
]

function at(method: string, path: string) {
  return { method, pattern: new RegExp(`^/_matrix/client/v3/${path}/?$`) }
}

/** The account that asks, once it has said its password again. */
function demandPassword(server: Homeserver, asked: Asked): Account {
  const account = server.accounts.get(who(asked).userId)
  if (!account) throw new Refusal(404, 'M_NOT_FOUND')
  const { auth } = asked.body
  if (auth?.session !== `again ${account.id}`)
    throw new Refusal(401, '', 'Say the password again.', {
      session: `again ${account.id}`,
      flows: [{ stages: ['m.login.password'] }],
      params: {},
    })
  if (auth.password !== account.password) throw new Refusal(401, 'M_FORBIDDEN')
  return account
}

function ownBackup(server: Homeserver, asked: Asked): Backup {
  const backup = server.accounts.get(who(asked).userId)?.backup
  if (!backup) throw new Refusal(404, 'M_NOT_FOUND', 'No current backup version')
  return backup
}

function newBackup(server: Homeserver, asked: Asked): Json {
  const account = server.accounts.get(who(asked).userId)
  const version = String(Number(account?.backup?.version ?? 0) + 1)
  const { algorithm, auth_data } = asked.body
  if (account) account.backup = { version, info: { algorithm, auth_data }, rooms: {} }
  return { version }
}

function backupOf(server: Homeserver, asked: Asked): Json {
  const { version, info, rooms } = ownBackup(server, asked)
  const count = Object.values(rooms).flatMap((room) => Object.keys(room.sessions)).length
  return { ...info, version, count, etag: String(count) }
}

function backUp(server: Homeserver, asked: Asked): Json {
  const backup = ownBackup(server, asked)
  if (asked.query.get('version') !== backup.version)
    throw new Refusal(403, 'M_WRONG_ROOM_KEYS_VERSION')
  for (const [room, { sessions }] of Object.entries<Json>(asked.body.rooms ?? {}))
    Object.assign((backup.rooms[room] ??= { sessions: {} }).sessions, sessions)
  const { count, etag } = backupOf(server, asked)
  return { count, etag }
}

function devices(server: Homeserver, asked: Asked): Json {
  const all = server.accounts.get(who(asked).userId)?.devices.values() ?? []
  return { devices: [...all].map(({ id, name }) => ({ device_id: id, display_name: name })) }
}

function endDevice(server: Homeserver, asked: Asked): Json {
  const account = demandPassword(server, asked)
  server.accounts.end(account, asked.params[0] ?? '')
  server.devicesChanged(account.id)
  return {}
}

function sign(server: Homeserver, asked: Asked): Json {
  for (const [userId, byKey] of Object.entries<Json>(asked.body))
    for (const [id, { signatures }] of Object.entries<Json>(byKey)) {
      const keys = server.accounts.get(userId)?.devices.get(id)?.keys
      if (!keys) continue
      for (const [signer, made] of Object.entries<Json>(signatures))
        Object.assign((keys.signatures[signer] ??= {}), made)
      server.devicesChanged(userId)
    }
  return { failures: {} }
}

function upload(server: Homeserver, asked: Asked): Json {
  const device = who(asked)
  if (device.upload(asked.body)) server.devicesChanged(device.userId)
  return { one_time_key_counts: device.counts }
}

function query(server: Homeserver, { body }: Asked): Json {
  const device_keys: Json = {}
  const keys: Json = { master_keys: {}, self_signing_keys: {}, user_signing_keys: {} }
  for (const userId of Object.keys(body.device_keys ?? {})) {
    const account = server.accounts.get(userId)
    if (!account) continue
    const devices = [...account.devices.values()].filter((device) => device.keys !== undefined)
    device_keys[userId] = Object.fromEntries(devices.map((device) => [device.id, device.keys]))
    for (const kind of Object.keys(keys)) {
      const key = account.crossSigning[kind.slice(0, -1)]
      if (key) keys[kind][userId] = key
    }
  }
  return { device_keys, failures: {}, ...keys }
}

function claim(server: Homeserver, { body }: Asked): Json {
  const one_time_keys: Json = {}
  for (const [userId, devices] of Object.entries<Json>(body.one_time_keys ?? {}))
    for (const deviceId of Object.keys(devices)) {
      const key = server.accounts.get(userId)?.devices.get(deviceId)?.claim()
      if (key) (one_time_keys[userId] ??= {})[deviceId] = key
    }
  return { one_time_keys, failures: {} }
}

function sendToDevice(server: Homeserver, asked: Asked): Json {
  const sender = who(asked)
  const [type = '', txn = ''] = asked.params
  if (sender.sent.has(`to-device ${txn}`)) return {}
  sender.sent.set(`to-device ${txn}`, txn)
  for (const [userId, byDevice] of Object.entries<Json>(asked.body.messages ?? {}))
    for (const [deviceId, content] of Object.entries(byDevice))
      for (const device of server.accounts.get(userId)?.devices.values() ?? [])
        if (deviceId === '*' || deviceId === device.id)
          server.deliver(device, { type, sender: sender.userId, content })
  return {}
}

function signKeys(server: Homeserver, asked: Asked): Json {
  const account = demandPassword(server, asked)
  const { auth: _, ...keys } = asked.body
  account.crossSigning = { ...account.crossSigning, ...keys }
  server.devicesChanged(account.id)
  return {}
}

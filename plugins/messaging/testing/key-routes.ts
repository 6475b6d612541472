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
  { ...at('POST', 'keys/signatures/upload'), run: () => ({ failures: {} }) },
  { ...at('GET', 'keys/changes'), run: () => ({ changed: [], left: [] }) },
  { ...at('GET', 'room_keys/version'), run: noBackup },
]

function at(method: string, path: string) {
  return { method, pattern: new RegExp(`^/_matrix/client/v3/${path}/?$`) }
}

function noBackup(): never {
  throw new Refusal(404, 'M_NOT_FOUND', 'No current backup version')
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
  const { userId } = who(asked)
  const account = server.accounts.get(userId)
  if (account) account.crossSigning = { ...account.crossSigning, ...asked.body }
  server.devicesChanged(userId)
  return {}
}

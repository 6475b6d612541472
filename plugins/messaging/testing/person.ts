import { randomUUID } from 'node:crypto'
import type { Log } from '#core'
import { Device, type ServerEvent } from '../device/device.ts'
import { path, ServerApi } from '../server/api.ts'
import type { Json } from './room.ts'

const quiet: Log = { debug() {}, info() {}, warn() {}, error() {} }
/** How long a test waits for what it expects. */
const patienceMs = 45_000

/** A message as a person's client shows it: edits change the words, and nothing else. */
export interface SeenMessage {
  readonly eventId: string
  readonly sender: string
  readonly type: string
  body: string
  content: Json
  edits: number
  isRedacted: boolean
}

/** How a room is made. */
export interface NewRoom {
  readonly invite?: readonly string[]
  readonly encrypted?: boolean
  readonly direct?: boolean
  readonly name?: string
}

/** A person with a client of their own, which reads and writes encrypted rooms. */
export class Person {
  readonly userId: string
  readonly api: ServerApi
  readonly device: Device
  readonly #rooms = new Map<string, { members: Set<string>; isEncrypted: boolean }>()
  readonly #seen = new Map<string, SeenMessage[]>()
  readonly #unread: { roomId: string; event: ServerEvent }[] = []
  readonly #stop = new AbortController()
  readonly #waiting = new Set<() => void>()
  #going: Promise<void> = Promise.resolve()

  private constructor(userId: string, api: ServerApi, device: Device) {
    this.userId = userId
    this.api = api
    this.device = device
  }

  /** Logs in and begins to listen. */
  static async open(url: string, userId: string, password: string): Promise<Person> {
    const api = new ServerApi(url, fetch)
    const { access_token, device_id } = await api.post(path`/login`, {
      type: 'm.login.password',
      identifier: { type: 'm.id.user', user: userId },
      password,
    })
    api.token = access_token
    const storeKey = new Uint8Array(32)
    const device = await Device.open({ api, log: quiet, userId, deviceId: device_id, storeKey })
    await device.settle()
    const person = new Person(userId, api, device)
    person.#going = person.#listen()
    return person
  }

  async createRoom({ invite = [], encrypted, direct, name }: NewRoom): Promise<string> {
    const encryption = { type: 'm.room.encryption', state_key: '', content: megolm }
    const { room_id } = await this.api.post(path`/createRoom`, {
      invite,
      is_direct: direct === true,
      ...(name !== undefined && { name }),
      ...(encrypted && { initial_state: [encryption] }),
    })
    return room_id
  }

  async join(roomId: string): Promise<void> {
    await this.api.post(path`/join/${roomId}`, {})
  }

  async leave(roomId: string): Promise<void> {
    await this.api.post(path`/rooms/${roomId}/leave`, {})
  }

  /** Puts somebody out of a room. */
  async kick(roomId: string, account: string): Promise<void> {
    await this.api.post(path`/rooms/${roomId}/kick`, { user_id: account })
  }

  async invite(roomId: string, account: string): Promise<void> {
    await this.api.post(path`/rooms/${roomId}/invite`, { user_id: account })
  }

  async encryptRoom(roomId: string): Promise<void> {
    await this.api.put(path`/rooms/${roomId}/state/m.room.encryption`, megolm)
    await this.#until(() => this.#roomOf(roomId).isEncrypted, 'the room is encrypted')
  }

  /** Says something; resolves to the event's id. */
  say(roomId: string, body: string, more: Json = {}): Promise<string> {
    return this.send(roomId, 'm.room.message', { msgtype: 'm.text', body, ...more })
  }

  async send(roomId: string, type: string, content: Json): Promise<string> {
    await this.#until(() => this.#rooms.get(roomId)?.members.has(this.userId), 'the room is known')
    const { members, isEncrypted } = this.#roomOf(roomId)
    const isSealed = isEncrypted && type !== 'm.reaction'
    const sent = isSealed ? await this.device.encrypt(roomId, [...members], type, content) : content
    const relation = content['m.relates_to']
    const outside = isSealed && relation ? { ...sent, 'm.relates_to': relation } : sent
    const sentType = isSealed ? 'm.room.encrypted' : type
    const { event_id } = await this.api.put(
      path`/rooms/${roomId}/send/${sentType}/${randomUUID()}`,
      outside,
    )
    return event_id
  }

  react(roomId: string, eventId: string, key: string): Promise<string> {
    const relation = { rel_type: 'm.annotation', event_id: eventId, key }
    return this.send(roomId, 'm.reaction', { 'm.relates_to': relation })
  }

  async redact(roomId: string, eventId: string): Promise<void> {
    await this.api.put(path`/rooms/${roomId}/redact/${eventId}/${randomUUID()}`, {})
  }

  /** All that this person has said and read, in every room. */
  get sentences(): readonly string[] {
    return [...this.#seen.values()].flat().map(({ body }) => body)
  }

  /** Everything that this person has read in a room, in its order. */
  seen(roomId: string): readonly SeenMessage[] {
    return this.#seen.get(roomId) ?? []
  }

  /** The first message of a room that has these words, or of which the function says so. */
  async hears(
    roomId: string,
    wanted: string | ((message: SeenMessage) => boolean),
  ): Promise<SeenMessage> {
    const isWanted =
      typeof wanted === 'string'
        ? ({ body, isRedacted }: SeenMessage) => !isRedacted && body.includes(wanted)
        : wanted
    let found: SeenMessage | undefined
    const what = typeof wanted === 'string' ? `"${wanted}"` : 'what was looked for'
    await this.#until(() => (found = this.seen(roomId).find(isWanted)), `${what} is read`, roomId)
    if (!found) throw new Error('Nothing was found.')
    return found
  }

  async hasMember(roomId: string, account: string): Promise<void> {
    await this.#until(() => this.#roomOf(roomId).members.has(account), `${account} is in the room`)
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await this.#going
    await this.device.close()
  }

  async #listen(): Promise<void> {
    const { signal } = this.#stop
    let since: string | undefined
    while (!signal.aborted) {
      try {
        const query = { since, timeout: '20000', filter: '{"room":{"timeline":{"limit":200}}}' }
        const sync = await this.api.get(path`/sync`, { query, signal, timeoutMs: 40_000 })
        await this.device.receive(sync)
        for (const [roomId, room] of Object.entries<Json>(sync.rooms?.join ?? {})) {
          for (const event of room.state?.events ?? []) this.#state(roomId, event)
          for (const event of room.timeline?.events ?? []) await this.#event(roomId, event)
        }
        for (const { roomId, event } of this.#unread.splice(0)) await this.#event(roomId, event)
        since = sync.next_batch
      } catch {
        // The server is away, or this person closes: tried again until then.
        await new Promise((resolve) => setTimeout(resolve, signal.aborted ? 0 : 100))
      }
      for (const look of [...this.#waiting]) look()
    }
  }

  #roomOf(roomId: string) {
    const room = this.#rooms.get(roomId) ?? { members: new Set<string>(), isEncrypted: false }
    this.#rooms.set(roomId, room)
    return room
  }

  #state(roomId: string, { type, state_key = '', content }: ServerEvent): void {
    const room = this.#roomOf(roomId)
    if (type === 'm.room.encryption') room.isEncrypted = true
    if (type !== 'm.room.member') return
    if (content.membership === 'join' || content.membership === 'invite')
      room.members.add(state_key)
    else room.members.delete(state_key)
  }

  async #event(roomId: string, event: ServerEvent): Promise<void> {
    if (event.state_key !== undefined) this.#state(roomId, event)
    const isSealed = event.type === 'm.room.encrypted'
    const plain = isSealed ? await this.device.decrypt(roomId, event) : event
    if (!plain) return void this.#unread.push({ roomId, event })
    const seen = this.#seen.get(roomId) ?? []
    this.#seen.set(roomId, seen)
    if (plain.type === 'm.room.redaction') {
      const target = seen.find(
        ({ eventId }) => eventId === (plain.redacts ?? plain.content.redacts),
      )
      if (target) Object.assign(target, { isRedacted: true, body: '' })
      return
    }
    if (plain.type !== 'm.room.message') return
    const relation = plain.content['m.relates_to'] ?? {}
    const target = seen.find(({ eventId }) => eventId === relation.event_id)
    if (relation.rel_type === 'm.replace' && target?.sender === plain.sender) {
      const content = plain.content['m.new_content'] ?? {}
      Object.assign(target, { body: content.body, content, edits: target.edits + 1 })
      return
    }
    const { event_id: eventId, sender, type, content } = plain
    const body = String(content.body ?? '')
    seen.push({ eventId, sender, type, body, content, edits: 0, isRedacted: false })
  }

  async #until(is: () => unknown, what: string, roomId?: string): Promise<void> {
    if (is()) return
    await new Promise<void>((resolve, reject) => {
      const look = () => {
        if (!is()) return
        clearTimeout(timer)
        this.#waiting.delete(look)
        resolve()
      }
      const timer = setTimeout(() => {
        this.#waiting.delete(look)
        const seen = roomId === undefined ? '' : JSON.stringify(this.seen(roomId), undefined, 1)
        reject(new Error(`${this.userId} waited in vain until ${what}. ${seen}`))
      }, patienceMs)
      this.#waiting.add(look)
    })
  }
}

const megolm = { algorithm: 'm.megolm.v1.aes-sha2' }

import { randomUUID } from 'node:crypto'
import type { OlmMachine, StoreHandle } from '@matrix-org/matrix-sdk-crypto-wasm'
import type { Log } from '#core'
import { path, type ServerApi } from '../server/api.ts'
import type { KeptStores } from './kept-stores.ts'

type Crypto = typeof import('@matrix-org/matrix-sdk-crypto-wasm')

/** What a device is opened with. */
export interface DeviceOptions {
  readonly api: ServerApi
  readonly log: Log
  readonly userId: string
  readonly deviceId: string
  readonly storeKey: Uint8Array
  /** Where its keys are kept; without it they live in memory alone. */
  readonly stores?: KeptStores
}

/** An event of a room as the server sends it. */
export interface ServerEvent {
  readonly type: string
  readonly event_id: string
  readonly sender: string
  readonly content: Readonly<Record<string, any>> // any: what a stranger sent, each field is checked where it is read
  readonly state_key?: string
  readonly redacts?: string
  readonly origin_server_ts: number
  readonly unsigned?: Readonly<Record<string, any>>
}

/** The encryption, for whoever works with it alone. */
export interface AtWork {
  readonly machine: OlmMachine
  readonly crypto: Crypto
  send(request: Outgoing): Promise<void>
}

/** How many requests of the encryption are sent before it is asked what is left. */
const mostRounds = 20

/** The oracle's end of the encryption: the one device of its account. What it does, it does one thing after the other. */
export class Device {
  readonly #options: DeviceOptions
  readonly #crypto: Crypto
  readonly #machine: OlmMachine
  readonly #store: StoreHandle | undefined
  #tail: Promise<unknown> = Promise.resolve()

  private constructor(
    options: DeviceOptions,
    crypto: Crypto,
    machine: OlmMachine,
    store?: StoreHandle,
  ) {
    this.#options = options
    this.#crypto = crypto
    this.#machine = machine
    this.#store = store
  }

  /** Opens the device with the keys that its stores have, or with new ones. */
  static async open(options: DeviceOptions): Promise<Device> {
    const crypto = await import('@matrix-org/matrix-sdk-crypto-wasm')
    await crypto.initAsync()
    const { stores, userId, deviceId, storeKey } = options
    const user = new crypto.UserId(userId)
    const id = new crypto.DeviceId(deviceId)
    if (!stores) return new Device(options, crypto, await crypto.OlmMachine.initialize(user, id))
    await stores.rebuild()
    const store = await crypto.StoreHandle.openWithKey(stores.name, storeKey.slice())
    const machine = await crypto.OlmMachine.initFromStore(user, id, store)
    return new Device(options, crypto, machine, store)
  }

  get id(): string {
    return this.#options.deviceId
  }

  /** Takes in what a sync tells of devices and keys, and answers what the encryption asks for then. */
  receive(sync: Readonly<Record<string, any>>): Promise<void> {
    return this.#alone(async () => {
      const { UserId, DeviceLists, DecryptionSettings, TrustRequirement } = this.#crypto
      const ids = (list: unknown) => strings(list).map((user) => new UserId(user))
      const lists = new DeviceLists(ids(sync.device_lists?.changed), ids(sync.device_lists?.left))
      const counts = new Map<string, number>()
      for (const [name, count] of Object.entries(sync.device_one_time_keys_count ?? {}))
        if (typeof count === 'number') counts.set(name, count)
      const fallback = new Set(strings(sync.device_unused_fallback_key_types))
      const settings = new DecryptionSettings(TrustRequirement.Untrusted)
      const letters = JSON.stringify(sync.to_device?.events ?? [])
      await this.#machine.receiveSyncChanges(letters, lists, counts, fallback, settings)
      await this.#sendOut()
    })
  }

  /** Sends what the encryption has to send of itself: the keys of a new device, for example. */
  settle(): Promise<void> {
    return this.#alone(() => this.#sendOut())
  }

  /** An event's content as the devices of these accounts read it, and nobody else. */
  encrypt(
    roomId: string,
    users: readonly string[],
    type: string,
    content: unknown,
  ): Promise<Record<string, unknown>> {
    return this.#alone(async () => {
      const { UserId, RoomId, EncryptionSettings, CollectStrategy } = this.#crypto
      const ids = () => users.map((user) => new UserId(user))
      const machine = this.#machine
      await machine.updateTrackedUsers(ids())
      await this.#sendOut()
      const claim = await machine.getMissingSessions(ids())
      if (claim) await this.#send(claim)
      const settings = new EncryptionSettings()
      settings.sharingStrategy = CollectStrategy.allDevices()
      for (const request of await machine.shareRoomKey(new RoomId(roomId), ids(), settings))
        await this.#send(request)
      const sealed = await machine.encryptRoomEvent(
        new RoomId(roomId),
        type,
        JSON.stringify(content),
      )
      return JSON.parse(sealed)
    })
  }

  /** An encrypted event as it was before; undefined while its key is not there, or when it is none. */
  decrypt(roomId: string, event: ServerEvent): Promise<ServerEvent | undefined> {
    return this.#alone(async () => {
      const { RoomId, DecryptionSettings, TrustRequirement } = this.#crypto
      const settings = new DecryptionSettings(TrustRequirement.Untrusted)
      try {
        const { event: plain } = await this.#machine.decryptRoomEvent(
          JSON.stringify(event),
          new RoomId(roomId),
          settings,
        )
        const { type, content } = JSON.parse(plain)
        // What is told of an encrypted event beside its words stands outside: who, when and in which place.
        const relation = event.content['m.relates_to']
        const related = relation ? { ...content, 'm.relates_to': relation } : content
        return { ...event, type, content: related }
      } catch (err) {
        this.#options.log.debug({ eventId: event.event_id, err: String(err) }, 'Not readable yet')
        return undefined
      }
    })
  }

  /** A file as the room's devices read it, with what opens it. */
  sealFile(bytes: Uint8Array): {
    readonly bytes: Uint8Array
    readonly info: Record<string, unknown>
  } {
    const sealed = this.#crypto.Attachment.encrypt(bytes)
    const info = JSON.parse(sealed.mediaEncryptionInfo ?? '{}')
    return { bytes: sealed.encryptedData, info }
  }

  /** Does something with the encryption itself, as the one thing at that time. */
  use<T>(work: (at: AtWork) => Promise<T>): Promise<T> {
    const at = {
      machine: this.#machine,
      crypto: this.#crypto,
      send: (request: Outgoing) => this.#send(request),
    }
    return this.#alone(() => work(at))
  }

  /** Ends the device in this process; its keys stay where they are kept. */
  async close(): Promise<void> {
    await this.#tail.catch(() => undefined)
    this.#machine.close()
    this.#store?.free()
  }

  /** One thing after the other: two shares of a room's key at once would make two keys. */
  #alone<T>(work: () => Promise<T>): Promise<T> {
    const next = this.#tail.then(work)
    this.#tail = next.catch(() => undefined)
    return next
  }

  async #sendOut(): Promise<void> {
    for (let round = 0; round < mostRounds; round++) {
      const requests = await this.#machine.outgoingRequests()
      if (requests.length === 0) return
      for (const request of requests) await this.#send(request)
    }
  }

  async #send(request: Outgoing): Promise<void> {
    const { RequestType } = this.#crypto
    const { api, log } = this.#options
    const { type, id } = request
    const body = () => JSON.parse(request.body)
    let answer: unknown
    if (type === RequestType.KeysUpload) answer = await api.post(path`/keys/upload`, body())
    else if (type === RequestType.KeysQuery) answer = await api.post(path`/keys/query`, body())
    else if (type === RequestType.KeysClaim) answer = await api.post(path`/keys/claim`, body())
    else if (type === RequestType.ToDevice) {
      const to = path`/sendToDevice/${request.event_type ?? ''}/${request.txn_id ?? randomUUID()}`
      answer = await api.put(to, body())
    } else if (type === RequestType.SignatureUpload)
      answer = await api.post(path`/keys/signatures/upload`, body())
    else {
      log.warn({ type }, 'The encryption asks for something that messaging does not send')
      return
    }
    if (id !== undefined) await this.#machine.markRequestAsSent(id, type, JSON.stringify(answer))
  }
}

/** A request of the encryption, as far as it is sent. */
interface Outgoing {
  readonly id?: string | undefined
  readonly type: number
  readonly body: string
  readonly event_type?: string
  readonly txn_id?: string
}

const strings = (list: unknown): string[] =>
  Array.isArray(list) ? list.filter((one) => typeof one === 'string') : []

/** A sealed file again. Throws when a byte of it was changed. No device is needed: the message has the key. */
export async function openFile(bytes: Uint8Array, info: unknown): Promise<Uint8Array> {
  const crypto = await import('@matrix-org/matrix-sdk-crypto-wasm')
  await crypto.initAsync()
  const { Attachment, EncryptedAttachment } = crypto
  return Attachment.decrypt(new EncryptedAttachment(bytes, JSON.stringify(info)))
}

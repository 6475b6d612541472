import { randomBytes } from 'node:crypto'
import { type Json, Refusal } from './room.ts'

/** A device of an account, with what the server keeps of its encryption. */
export class Device {
  readonly id: string
  readonly userId: string
  /** What its client called it. */
  name: string | undefined
  keys: Json | undefined
  /** One-time keys that nobody has claimed, by their id. */
  readonly oneTime = new Map<string, unknown>()
  readonly fallback = new Map<string, unknown>()
  readonly inbox: { readonly position: number; readonly event: Json }[] = []
  /** Answers to sends, by transaction id. */
  readonly sent = new Map<string, string>()

  constructor(userId: string, id: string) {
    this.userId = userId
    this.id = id
  }

  get counts(): Json {
    return { signed_curve25519: this.oneTime.size }
  }

  /** Takes keys in. A one-time key whose id stands for another key is refused, as by other servers. */
  upload({ device_keys, one_time_keys = {}, fallback_keys = {} }: Json): boolean {
    for (const [id, key] of Object.entries(one_time_keys)) {
      const known = this.oneTime.get(id)
      if (known !== undefined && JSON.stringify(known) !== JSON.stringify(key))
        throw new Refusal(400, 'M_UNKNOWN', `One time key ${id} already exists.`)
      this.oneTime.set(id, key)
    }
    for (const [id, key] of Object.entries(fallback_keys)) this.fallback.set(id, key)
    if (device_keys) this.keys = device_keys
    return device_keys !== undefined
  }

  /** Hands one of its keys out, for good; the fallback key when there is none. */
  claim(): Json {
    const [first] = this.oneTime
    if (first) this.oneTime.delete(first[0])
    const [id, key] = first ?? [...this.fallback][0] ?? []
    return id === undefined ? {} : { [id]: key }
  }
}

/** Keys of rooms that an account has put away, which the server cannot read. */
export interface Backup {
  readonly version: string
  readonly info: Json
  readonly rooms: Record<string, { readonly sessions: Json }>
}

/** An account. */
export class Account {
  readonly id: string
  readonly password: string
  readonly devices = new Map<string, Device>()
  readonly data = new Map<string, Json>()
  crossSigning: Json = {}
  backup: Backup | undefined
  isActive = true

  constructor(id: string, password: string) {
    this.id = id
    this.password = password
  }
}

/** The accounts of the server, and who holds which token. */
export class Accounts {
  readonly server: string
  readonly #accounts = new Map<string, Account>()
  readonly #tokens = new Map<string, Device>()
  readonly #openId = new Map<string, { readonly userId: string; readonly until: number }>()

  constructor(server: string) {
    this.server = server
  }

  /** Makes an account. */
  register(name: string, password: string): Account {
    const account = new Account(`@${name}:${this.server}`, password)
    this.#accounts.set(account.id, account)
    return account
  }

  get(id: string): Account | undefined {
    return this.#accounts.get(id)
  }

  get all(): readonly Account[] {
    return [...this.#accounts.values()]
  }

  login(userId: string, password: string, deviceId?: string): { token: string; device: Device } {
    const account = this.#accounts.get(userId)
    if (!account || account.password !== password)
      throw new Refusal(403, 'M_FORBIDDEN', 'Invalid username or password')
    if (!account.isActive) throw new Refusal(403, 'M_USER_DEACTIVATED')
    return this.tokenFor(userId, deviceId)
  }

  /** A token without a password. */
  tokenFor(userId: string, deviceId = randomBytes(5).toString('hex').toUpperCase()) {
    const account = this.#accounts.get(userId)
    if (!account) throw new Refusal(404, 'M_NOT_FOUND')
    const device = account.devices.get(deviceId) ?? new Device(userId, deviceId)
    account.devices.set(deviceId, device)
    const token = `syt_${randomBytes(18).toString('base64url')}`
    this.#tokens.set(token, device)
    return { token, device }
  }

  /** Ends a device: its tokens count no more. */
  end(account: Account, deviceId: string): void {
    account.devices.delete(deviceId)
    for (const [token, { userId, id }] of this.#tokens)
      if (userId === account.id && id === deviceId) this.#tokens.delete(token)
  }

  /** Takes every token of an account away. */
  revoke(userId: string): void {
    for (const [token, device] of this.#tokens)
      if (device.userId === userId) this.#tokens.delete(token)
  }

  /** The tokens of an account. */
  tokensOf(userId: string): readonly string[] {
    return [...this.#tokens]
      .filter(([, device]) => device.userId === userId)
      .map(([token]) => token)
  }

  holderOf(token: string | undefined): Device {
    const device = token === undefined ? undefined : this.#tokens.get(token)
    if (!device) throw new Refusal(401, 'M_UNKNOWN_TOKEN', 'Unknown access token')
    return device
  }

  mintOpenId(userId: string, lifeMs = 3_600_000): Json {
    const token = randomBytes(18).toString('base64url')
    this.#openId.set(token, { userId, until: Date.now() + lifeMs })
    return {
      access_token: token,
      token_type: 'Bearer',
      matrix_server_name: this.server,
      expires_in: Math.ceil(lifeMs / 1_000),
    }
  }

  userOfOpenId(token: string): string {
    const known = this.#openId.get(token)
    if (!known || known.until <= Date.now()) throw new Refusal(401, 'M_UNKNOWN_TOKEN')
    return known.userId
  }
}

import { setTimeout as sleep } from 'node:timers/promises'
import type { HeldLease, Log } from '#core'
import { Device } from '../device/device.ts'
import { KeptStores } from '../device/kept-stores.ts'
import type { Seal } from '../device/sealing.ts'
import type { MessagingEnv } from '../environment.ts'
import type { Held, MessagingDatabase } from '../tables.ts'
import { path, ServerApi, usualMs } from './api.ts'
import { faultOf, ServerFault } from './fault.ts'
import { firstAnswerMs, greet, Hopeless, openAccount } from './login.ts'

/** What a line to the messaging server is made of. */
export interface LineOptions {
  readonly env: MessagingEnv
  readonly db: MessagingDatabase
  readonly fetch: typeof globalThis.fetch
  readonly log: Log
  readonly seal: Seal
  readonly lease: HeldLease
  readonly held: Held
  /** Told when keys could not be written: nothing leaves by this line any more, and another one has to be opened. */
  readonly onBroken: (thrown: unknown) => void
  /** Told why the server is not reached; undefined once it is. */
  readonly onCause: (cause: string | undefined) => void
}

/** What a sync brought. */
export type Sync = Readonly<Record<string, any>> // any: the server's answer, each field is checked where it is read

/** The rooms of a part of a sync, each with what the server tells of it. */
export const roomsOf = (part: unknown): [string, Sync][] =>
  typeof part === 'object' && part !== null
    ? Object.entries<Sync>({ ...part }).filter(
        ([, room]) => typeof room === 'object' && room !== null,
      )
    : []

/** How long the server may wait with its answer to a sync, and how long we wait for it. */
const pollMs = 30_000
const pollPatienceMs = 60_000
/** How long to wait after a failure: doubled each time, up to the longest. */
const pauses = { firstMs: 2_000, longestMs: 60_000 }
/** How many events of a room a sync brings; those before are read from the room's past. */
const timelineLimit = 50
const filter = JSON.stringify({
  room: {
    timeline: { limit: timelineLimit },
    state: { lazy_load_members: true },
    ephemeral: { not_types: ['*'] },
    account_data: { not_types: ['*'] },
  },
  presence: { not_types: ['*'] },
  account_data: { not_types: ['*'] },
})

/** The oracle's line to its messaging server, for as long as this process holds the account. */
export class Line {
  readonly api: ServerApi
  readonly userId: string
  readonly device: Device
  readonly #options: LineOptions
  readonly #stores: KeptStores
  #since: string | undefined

  private constructor(
    options: LineOptions,
    parts: { api: ServerApi; device: Device; stores: KeptStores; since: string | undefined },
  ) {
    this.#options = options
    this.userId = options.env.MATRIX_ORACLE_ADMIN_USER_ID
    this.api = parts.api
    this.device = parts.device
    this.#stores = parts.stores
    this.#since = parts.since
  }

  /** Reaches the server, logs in and opens the device; tries until it works, or until nothing can mend it. */
  static async open(options: LineOptions): Promise<Line> {
    const { env, db, fetch, lease, log, seal, held, onBroken } = options
    let stores: KeptStores | undefined
    const api = new ServerApi(env.MATRIX_BASE_URL, fetch, async () => {
      demandHeld(lease)
      await stores?.flushed()
      // Again: this process may have slept while the keys were written.
      demandHeld(lease)
    })
    await untilReached(options, () => greet(api, lease.signal))
    const { deviceId, since } = await untilReached(options, () =>
      openAccount({ api, db, seal, env, log }),
    )
    const userId = env.MATRIX_ORACLE_ADMIN_USER_ID
    stores = new KeptStores({ db, account: userId, held, onFailed: onBroken })
    const { storeKey } = seal
    const device = await Device.open({ api, log, userId, deviceId, storeKey, stores })
    return new Line(options, { api, device, stores, since })
  }

  /** Whether rooms were read with this account before. */
  get hasRead(): boolean {
    return this.#since !== undefined
  }

  /** What happened since the last sync; resolves once there is something, or after half a minute. */
  async sync(isFirst: boolean): Promise<Sync> {
    const { lease } = this.#options
    return untilReached(this.#options, async () => {
      const query = { since: this.#since, filter, timeout: isFirst ? '0' : String(pollMs) }
      const call = { query, timeoutMs: isFirst ? usualMs : pollPatienceMs, signal: lease.signal }
      const sync = await this.api.get(path`/sync`, call)
      if (typeof sync.next_batch !== 'string')
        throw new ServerFault('foreign', 'no Matrix server answers there')
      await this.device.receive(sync)
      return sync
    })
  }

  /** Keeps how far the rooms are read. From now on the events of this sync are not told again. */
  async read(sync: Sync): Promise<void> {
    const { held } = this.#options
    const since: string = sync.next_batch
    await this.#stores.flushed()
    await held(async (trx) => {
      await trx
        .updateTable('messaging_account')
        .set({ since })
        .where('account', '=', this.userId)
        .execute()
    })
    this.#since = since
  }

  get since(): string | undefined {
    return this.#since
  }

  /** Writes what is still to be written, and ends the device in this process. */
  async close(): Promise<void> {
    await this.device.close()
    const { log } = this.#options
    await this.#stores.flushed().catch((err: unknown) => log.debug({ err }, 'Keys were not kept'))
    await this.#stores.close()
  }
}

function demandHeld({ isHeld }: HeldLease): void {
  if (!isHeld()) throw new ServerFault('unreachable', 'another process holds the account')
}

/** Does something with the server until it works. What waiting cannot mend is thrown. */
async function untilReached<T>(
  { lease, onCause, log }: LineOptions,
  work: () => Promise<T>,
): Promise<T> {
  const { signal } = lease
  let pauseMs = 0
  for (;;) {
    signal.throwIfAborted()
    try {
      const done = await work()
      onCause(undefined)
      return done
    } catch (thrown) {
      signal.throwIfAborted()
      if (thrown instanceof Hopeless) throw thrown
      const fault = isFault(thrown)
      if (!fault) throw thrown
      if (fault.kind === 'rejected' || fault.kind === 'refused') throw fault
      log.debug({ cause: fault.message }, 'The messaging server does not serve')
      onCause(fault.message)
      pauseMs = Math.min(pauseMs * 2 || pauses.firstMs, pauses.longestMs)
      await sleep(fault.waitMs ?? pauseMs, undefined, { signal, ref: false })
    }
  }
}

/** A fault of the server or of the way to it; undefined for a fault of ours. */
function isFault(thrown: unknown): ServerFault | undefined {
  if (thrown instanceof ServerFault) return thrown
  const isNetwork = thrown instanceof Error && ['TimeoutError', 'AbortError'].includes(thrown.name)
  return isNetwork ? faultOf(thrown, firstAnswerMs) : undefined
}

import type { Database, HeldLease, Lease, Log, Oracle, RoomChange, Turns } from '#core'
import { RuntimeError } from '#core'
import { Recovery } from './device/recovery.ts'
import { Seal } from './device/sealing.ts'
import { type MessagingEnv, serverOf } from './environment.ts'
import { ServerApi } from './server/api.ts'
import { Line } from './server/line.ts'
import { ServerFault } from './server/fault.ts'
import { Hopeless, tokenOf } from './server/login.ts'
import { People } from './people/people.ts'
import { Desk, type DeskOptions } from './rooms/desk.ts'
import { type Held, type MessagingDatabase, withMessagingTables } from './tables.ts'

/** What messaging takes of the boot. */
export interface MessagingBoot {
  readonly env: MessagingEnv
  readonly log: Log
  readonly db: Database
  readonly fetch: typeof globalThis.fetch
  readonly turns: Turns
  readonly rooms: { changed(change: RoomChange): Promise<void> }
  readonly oracle: Oracle
  readonly environment: 'development' | 'test' | 'production'
  now(): Date
}

/** A room of a person, as the person is told of it. Names are known to the process that answers there alone. */
export interface PersonRoom {
  readonly roomId: string
  readonly kind: 'direct' | 'group'
  readonly encrypted: boolean
  readonly name?: string
}

/** How the account stands in this process. */
type State = 'waiting' | 'attending' | 'standing by' | 'failed'

/** How long the server may be away in operation before messaging says that it is not well. */
const mostSilenceMs = 60_000
/** How often a process that waits looks whether another one holds the account. */
const lookMs = 500
/** How many rooms one answer lists. */
const mostRooms = 1_000

/** The oracle's account on its messaging server: reached, held by one process at a time, and answering. */
export class Messaging {
  readonly db: MessagingDatabase
  readonly seal: Seal
  readonly people: People
  readonly env: MessagingEnv
  readonly #boot: MessagingBoot
  readonly #ready = Promise.withResolvers<void>()
  readonly #isOpen = new AbortController()
  #lease: Lease | undefined
  #state: State = 'waiting'
  #isReady = false
  #cause: string | undefined
  #since = Date.now()
  #lastSync: number | undefined
  /** Since when this process has not come to answer, by a fault that is none of the server's. */
  #troubledAt: number | undefined
  #desk: Desk | undefined
  /** Told when the account is refused after it had been taken. */
  onFailed: (failed: Promise<never>) => void = () => undefined

  constructor(boot: MessagingBoot) {
    this.#boot = boot
    this.env = boot.env
    this.db = withMessagingTables(boot.db)
    this.seal = new Seal(boot.env.MATRIX_STORE_KEY)
    const { now, environment } = boot
    this.people = new People({ env: boot.env, db: this.db, seal: this.seal, now, environment })
    this.#ready.promise.catch(() => undefined)
  }

  /** Resolves once this process answers in the rooms, or stands by while another one does. */
  get ready(): Promise<void> {
    return this.#ready.promise
  }

  /** Begins: from now on this process takes the account when nobody else holds it. */
  begin(lease: (work: (held: HeldLease) => Promise<void>) => Lease): void {
    this.#lease = lease((held) => this.#attend(held))
    void this.#lookForOthers()
  }

  /** What messaging waits for now. */
  sentence(): string {
    const { MATRIX_BASE_URL, MATRIX_ORACLE_ADMIN_USER_ID } = this.env
    if (this.#state === 'failed')
      return `the messaging server at ${MATRIX_BASE_URL} refuses ${MATRIX_ORACLE_ADMIN_USER_ID}`
    return (
      `waiting for the messaging server at ${MATRIX_BASE_URL} (MATRIX_BASE_URL): ` +
      `${this.#cause ?? 'the first answer'}. Check MATRIX_BASE_URL, MATRIX_ORACLE_ADMIN_USER_ID and ` +
      'MATRIX_ORACLE_ADMIN_PASSWORD or MATRIX_ORACLE_ADMIN_ACCESS_TOKEN.'
    )
  }

  /** Throws when messaging is not well; tells an operator who holds the account, and how many messages it could not read. */
  async check(): Promise<string | undefined> {
    await this.#demandWell()
    if (this.#state === 'standing by') {
      const holder = await this.#lease?.heldBy()
      return holder === undefined ? undefined : `${holder} holds the account`
    }
    const unread = (await this.#desk?.unread()) ?? 0
    if (unread === 0) return undefined
    return `${unread} ${unread === 1 ? 'message' : 'messages'} could not be read: the keys are missing`
  }

  async #demandWell(): Promise<void> {
    if (this.#troubledAt !== undefined && Date.now() - this.#troubledAt > mostSilenceMs) {
      const holder = await this.#lease?.heldBy()
      if (holder === undefined || this.#lease?.isHeld()) throw new Error(trouble)
    }
    if (this.#state !== 'attending' || this.#cause === undefined) return
    if (Date.now() - (this.#lastSync ?? 0) > mostSilenceMs) throw new Error(this.sentence())
  }

  get fetch(): typeof globalThis.fetch {
    return this.#boot.fetch
  }

  get log(): Log {
    return this.#boot.log
  }

  now(): Date {
    return this.#boot.now()
  }

  get oracle(): Oracle {
    return this.#boot.oracle
  }

  /** The room of a person and the oracle; undefined where none was made. */
  async pairRoomId(did: string): Promise<string | undefined> {
    const row = await this.db
      .selectFrom('messaging_rooms')
      .select('room_id')
      .where('did', '=', did)
      .executeTakeFirst()
    return row?.room_id
  }

  /** The rooms in which the oracle talks to the accounts of a person. */
  async roomsOf(did: string): Promise<PersonRoom[]> {
    const accounts = await this.people.speaking(did)
    const rows = await this.db
      .selectFrom('messaging_rooms')
      .select(['room_id', 'kind', 'encrypted'])
      .where((of) =>
        of.or([of('did', '=', did), ...accounts.map((account) => of('account', '=', account))]),
      )
      .limit(mostRooms)
      .execute()
    return Promise.all(
      rows.map(async ({ room_id: roomId, kind, encrypted }) => {
        const view = await this.#desk?.rooms.remembered(roomId)?.catch(() => undefined)
        const isEncrypted = view?.isEncrypted ?? Number(encrypted) === 1
        const name = view?.name
        return { roomId, kind, encrypted: isEncrypted, ...(name !== undefined && { name }) }
      }),
    )
  }

  /** Whether the routes that make rooms for people are there. */
  get makesRooms(): boolean {
    return this.env.MESSAGING_ROOMS_BOT ?? this.#boot.environment !== 'production'
  }

  /** The rooms and people of the account, in the process that answers in them. */
  get desk(): Desk | undefined {
    return this.#desk
  }

  /** The media of the server, also in a process that does not hold the account: reading them changes nothing there. */
  async media(): Promise<ServerApi> {
    if (this.#desk) return this.#desk.line.api
    const api = new ServerApi(this.env.MATRIX_BASE_URL, this.fetch)
    api.token = await tokenOf(this)
    if (api.token === undefined) return this.demandDesk().line.api
    return api
  }

  /** The same; throws where another process answers. */
  demandDesk(): Desk {
    if (this.#desk) return this.#desk
    throw new RuntimeError('UNAVAILABLE', 'Another process answers in the rooms just now.', {
      hint: 'Try again in a moment.',
    })
  }

  /** What clients learn of messaging. */
  about(): { userId: string; servers: string[]; linking: ('code' | 'openid')[] } {
    const userId = this.env.MATRIX_ORACLE_ADMIN_USER_ID
    return { userId, servers: [serverOf(userId)], linking: ['code', 'openid'] }
  }

  /** For operators: no words, no names. */
  async status() {
    return {
      state: this.#state,
      ...(this.#cause !== undefined && { cause: this.#cause }),
      account: this.env.MATRIX_ORACLE_ADMIN_USER_ID,
      ...(this.#desk && { deviceId: this.#desk.deviceId }),
      ...(await this.#counted()),
      holder: await this.#lease?.heldBy(),
      since: new Date(this.#since).toISOString(),
      ...(this.#lastSync !== undefined && { lastSync: new Date(this.#lastSync).toISOString() }),
    }
  }

  close(): void {
    this.#isOpen.abort()
  }

  async #counted() {
    const desk = this.#desk
    if (!desk) return {}
    return { ...(await desk.counts()), refusedInvitations: desk.refusedInvitations }
  }

  #become(state: State): void {
    if (this.#state === state) return
    this.#state = state
    this.#since = Date.now()
  }

  /** Holds the account until the lease is lost, the server closes, or the account is refused for good. */
  async #attend(lease: HeldLease): Promise<void> {
    const { log, fetch } = this.#boot
    const { env, db, seal } = this
    const held: Held = (work) =>
      this.#boot.db.transaction().execute(async (trx) => {
        await lease.hold(trx)
        return work(withMessagingTables(trx))
      })
    // What could not be written is missing under all that follows: then everything is built again from what was kept.
    const broken = new AbortController()
    const own: HeldLease = {
      ...lease,
      signal: AbortSignal.any([lease.signal, broken.signal]),
      isHeld: () => !broken.signal.aborted && lease.isHeld(),
    }
    let line: Line | undefined
    let desk: Desk | undefined
    let recovery: Recovery
    try {
      const onCause = (cause: string | undefined) => (this.#cause = cause)
      const onBroken = (thrown: unknown) => broken.abort(thrown)
      line = await Line.open({ env, db, fetch, log, seal, lease: own, held, onCause, onBroken })
      desk = new Desk(this.#deskOptions(line, own, held))
      await line.device.settle()
      recovery = new Recovery({ device: line.device, api: line.api, env, db, seal, log })
      await recovery.begin()
      // Before the first sync: what comes with it is in the database then, too.
      await desk.takeUp()
      await this.#turn(line, desk, true)
      this.#desk = desk
      this.#become('attending')
      this.#troubledAt = undefined
      this.#isReady = true
      this.#ready.resolve()
      for (;;) {
        own.signal.throwIfAborted()
        await this.#turn(line, desk, false)
        await recovery.backUp().catch((err: unknown) => {
          if (!own.signal.aborted) log.warn({ err: String(err) }, 'Keys were not backed up')
        })
      }
    } catch (thrown) {
      if (lease.signal.aborted) return
      if (!isForGood(thrown, env.MATRIX_ORACLE_ADMIN_PASSWORD !== undefined)) {
        this.#troubledAt ??= Date.now()
        throw thrown
      }
      this.#fail(thrown)
    } finally {
      this.#desk = undefined
      if (this.#state === 'attending') this.#become('standing by')
      await desk?.close()
      await line?.close()
    }
  }

  /** One sync, with all that it brought. */
  async #turn(line: Line, desk: Desk, isFirst: boolean): Promise<void> {
    const sync = await line.sync(isFirst)
    this.#lastSync = Date.now()
    await desk.take(sync)
    await line.read(sync)
    desk.go()
  }

  #deskOptions(line: Line, lease: HeldLease, held: Held): DeskOptions {
    const { log, turns, rooms, oracle, now } = this.#boot
    const { env, db, seal, people } = this
    return { line, lease, held, env, db, seal, people, log, turns, rooms, oracle, now }
  }

  #fail(thrown: Error): void {
    this.#become('failed')
    this.#cause = thrown.message
    const failed = Promise.reject(thrown)
    failed.catch(() => undefined)
    if (this.#isReady) this.onFailed(failed)
    this.#ready.reject(thrown)
  }

  /** A process that cannot hold the account is at work as soon as another one holds it. */
  async #lookForOthers(): Promise<void> {
    const { signal } = this.#isOpen
    while (!signal.aborted && this.#state === 'waiting') {
      await new Promise((resolve) => setTimeout(resolve, lookMs).unref())
      if (signal.aborted || this.#lease === undefined || this.#lease.isHeld()) continue
      const holder = await this.#lease.heldBy().catch(() => undefined)
      if (holder === undefined || this.#lease.isHeld() || this.#state !== 'waiting') continue
      this.#become('standing by')
      this.#isReady = true
      this.#ready.resolve()
    }
  }
}

const trouble =
  'no process answers in the rooms: what messaging has to keep could not be kept. The log says why, at "The work of a lease failed".'

/** Whether nothing is left to try. A password stands in for a token that is rejected later. */
const isForGood = (thrown: unknown, hasPassword: boolean): thrown is Error =>
  thrown instanceof Hopeless ||
  (thrown instanceof ServerFault && thrown.kind === 'rejected' && !hasPassword)

import type { DatabaseSync } from 'node:sqlite'

import type { AnyPlugin, Fetch } from '../plugin.ts'
import { type AppOptions, boot } from '../runtime/app.ts'
import type { Grant } from '../runtime/auth/grants/rows.ts'
import { forever } from '../runtime/base/until-aborted.ts'
import type { ListedNotice } from '../runtime/notices/notices.ts'
import type { RunningApp } from '../runtime/running-app.ts'
import { openSqlite } from '../runtime/store/sqlite.ts'
import type { BootReport } from '../runtime/boot/report.ts'
import { TestClock } from '../runtime/boot/test-clock.ts'
import { type CallInit, type Calls, callsTo } from './calls.ts'
import { type HeardEvents, hearEvents, type HearOptions } from './heard-events.ts'
import { type Erased, eraseAll, type ExportLine, exportOf } from './own-data.ts'
import { type OwnDatabase, ownDatabase } from './own-database.ts'
import { Thread, type ThreadOptions } from './thread.ts'
import { say, type Said, type SayOptions } from './turn.ts'
import type { Wallet } from './wallet.ts'

/** What the app of a test is made from: the options of `createApp`, and these. */
export interface TestAppOptions extends Omit<AppOptions, 'clock'> {
  /** True: the app has a clock that stands until the test moves it, `app.clock`. Or a clock of the test's own. */
  readonly clock?: boolean | TestClock
  /**
   * `'postgres'`: a database of the app's own on the server at the variable TEST_DATABASE_URL, by default
   * `postgres://root@127.0.0.1:5432/test`, which goes when the app is closed. By default SQLite in memory.
   */
  readonly database?: 'postgres'
}

/** A user with a wallet of their own: every call carries a fresh invocation and a delegation. */
export interface TestUser extends Calls {
  /** The user's DID. */
  readonly did: string
  /** The user's key, to make tokens of one's own with. */
  readonly wallet: Wallet
  /** Sends a message and reads its turn to the end. */
  say(message: string, options?: SayOptions): Promise<Said>
  /** What goes on in all sessions of the user from now on, as `GET /events` tells it. The stream ends with the app. */
  events(options?: HearOptions): Promise<HeardEvents>
  /** The newest notices of the user, 100 at most, and how many notices the user has not seen, as `GET /notices` lists them. */
  notices(): Promise<UserNotices>
  /** Everything that kernel and plugins keep of the user, as `GET /me/export` hands it out: once an hour of the machine's clock. */
  export(): Promise<readonly ExportLine[]>
  /** Erases everything of the user, as `DELETE /me` does, and waits until each plugin has erased its part. */
  erase(): Promise<Erased>
  /** Grants the user rights on the oracle's DID, as an operator does: `registry/*`, `notes/read`. Each call adds. */
  granted(...capabilities: string[]): Promise<Grant>
}

/** What a user should know, the newest first. */
export interface UserNotices {
  /** The notices, as `GET /notices` has them. */
  readonly notices: readonly ListedNotice[]
  /** How many notices the user has not seen. */
  readonly unread: number
}

/** A running app on a free loopback port, with everything in memory unless its options say otherwise. */
export interface TestApp extends Calls, AsyncDisposable {
  /** Where the app listens: another address after `again`. */
  readonly url: string
  /** The DID of the oracle. */
  readonly oracleDid: string
  /** What boot made of every plugin, tool and route. */
  readonly report: BootReport
  /** What the app logged, a line each. */
  readonly log: readonly string[]
  /** The clock of an app with `clock: true`: `advance('1h')` and `set(date)` move the time. */
  readonly clock: TestClock
  /** A user who calls the locked routes. The same words give the same user; without words the user is a new one. */
  user(words?: string): Promise<TestUser>
  /** A conversation without a model, to call tools in. */
  thread(options?: ThreadOptions): Thread
  /** Ends the app as kill -9 does: it resets connections, writes nothing more, releases no lease and closes no plugin. */
  crash(): Promise<void>
  /**
   * Boots the app again on the database that it left, with these options in place of those before. Where it runs, it is
   * stopped in an orderly way before.
   */
  again(overrides?: Partial<TestAppOptions>): Promise<TestApp>
  /** Stops the app; `await using` does so at the end of the test. */
  close(): Promise<void>
}

/**
 * Boots plugins for a test. The app reads nothing from the process's environment and writes nothing: the database is
 * in memory, keys are made up, and the network is whatever `fetch` the test gives.
 */
export const testApp = testAppWith()

/** Makes `testApp` with plugins that are added where no given plugin brings a model. */
export function testAppWith(
  bundled?: () => Promise<readonly AnyPlugin[]>,
): (options: TestAppOptions) => Promise<TestApp> {
  return (options) => open(options, bundled)
}

async function open(
  options: TestAppOptions,
  bundled: (() => Promise<readonly AnyPlugin[]>) | undefined,
): Promise<TestApp> {
  const database = options.database === 'postgres' ? await ownDatabase() : undefined
  const app = new AppOfTest(options, database, bundled)
  try {
    await app.boot()
  } catch (error) {
    await app.close()
    throw error
  }
  return app
}

/** One life of the app: from a boot to its end or its crash. */
interface Life {
  readonly app: RunningApp
  readonly url: string
  /** How this life ended; once it has, nothing of it reaches the network or the log. */
  end: 'none' | 'closed' | 'crashed'
}

class AppOfTest implements TestApp {
  readonly log: string[] = []
  readonly #database: OwnDatabase | undefined
  readonly #bundled: (() => Promise<readonly AnyPlugin[]>) | undefined
  readonly #memory: DatabaseSync
  readonly #clock: TestClock | undefined
  readonly #calls: Calls
  readonly #users = new Map<string, Promise<TestUser>>()
  readonly #crashed: RunningApp[] = []
  readonly #heard = new Set<HeardEvents>()
  #options: TestAppOptions
  #life: Life | undefined
  #closing: Promise<void> | undefined

  constructor(
    options: TestAppOptions,
    database: OwnDatabase | undefined,
    bundled: (() => Promise<readonly AnyPlugin[]>) | undefined,
  ) {
    const { clock } = options
    this.#options = options
    this.#database = database
    this.#bundled = bundled
    this.#memory = openSqlite(':memory:')
    this.#clock = clock === true ? new TestClock() : clock || undefined
    this.#calls = callsTo(
      () => this.url,
      async () => ({}),
    )
  }

  get url(): string {
    return this.#now.url
  }
  get oracleDid(): string {
    return this.#now.app.oracleDid
  }
  get report(): BootReport {
    return this.#now.app.report
  }
  get clock(): TestClock {
    if (this.#clock) return this.#clock
    throw new Error('The app has the real time. Give testApp clock: true.')
  }

  get(path: string, init?: CallInit) {
    return this.#calls.get(path, init)
  }
  delete(path: string, init?: CallInit) {
    return this.#calls.delete(path, init)
  }
  post(path: string, body?: unknown, headers?: Record<string, string>) {
    return this.#calls.post(path, body, headers)
  }
  put(path: string, body?: unknown, headers?: Record<string, string>) {
    return this.#calls.put(path, body, headers)
  }
  patch(path: string, body?: unknown, headers?: Record<string, string>) {
    return this.#calls.patch(path, body, headers)
  }

  user(words?: string): Promise<TestUser> {
    if (words === undefined) return this.#newUser()
    const known = this.#users.get(words) ?? this.#newUser(words)
    this.#users.set(words, known)
    return known
  }

  thread(options?: ThreadOptions): Thread {
    return new Thread(this.#now.app, options)
  }

  /** Boots the app on whatever database there is. */
  async boot(): Promise<void> {
    const { database: _, fetch = noNetwork, log, ...options } = this.#options
    const life: { end: Life['end'] } = { end: 'none' }
    const own = this.#database && { DATABASE_URL: this.#database.url, RUN_LEASE_MS: shortLeaseMs }
    const app = await boot(
      {
        ...options,
        clock: this.#clock,
        fetch: onlyWhile(() => life.end !== 'crashed', fetch),
        env: { DATA_DIR: ':memory:', ...generousLimits, ...own, ...options.env },
        log: (line) => {
          if (life.end === 'crashed') return
          this.log.push(line)
          log?.(line)
        },
      },
      { memory: this.#memory, bundled: this.#bundled },
    )
    const { url } = await app.listen({ port: 0, host: '127.0.0.1', signals: false })
    this.#life = Object.assign(life, { app, url })
  }

  async crash(): Promise<void> {
    const life = this.#now
    if (life.end !== 'none') throw new Error('The app does not run: boot it with again().')
    life.end = 'crashed'
    this.#crashed.push(life.app)
    await life.app.crash()
  }

  async again(overrides: Partial<TestAppOptions> = {}): Promise<this> {
    const { app, end } = this.#now
    const { clock, database } = overrides
    if (clock !== undefined || database !== undefined)
      throw new Error(
        'The clock and the database of an app stay as they were: say them to testApp.',
      )
    if (end === 'none') await this.#stop()
    // The keys of the first boot are used again, so the oracle keeps its DID.
    const env = { ...app.source, ...overrides.env }
    this.#options = { ...this.#options, ...overrides, env }
    await this.boot()
    return this
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  get #now(): Life {
    if (this.#life) return this.#life
    throw new Error('The app has not booted.')
  }

  async #close(): Promise<void> {
    try {
      if (this.#life?.end === 'none') await this.#stop()
    } finally {
      for (const app of this.#crashed) app.forsake()
      this.#memory.close()
      await this.#database?.drop()
    }
  }

  async #stop(): Promise<void> {
    const life = this.#now
    for (const events of this.#heard) events.leave()
    this.#heard.clear()
    await life.app.close()
    life.end = 'closed'
  }

  async #newUser(words?: string): Promise<TestUser> {
    const { createWallet } = await import('./wallet.ts') // heavy, and most tests have no user
    const wallet = await createWallet(words)
    const { did } = wallet
    const credentials = () => wallet.headers(this.oracleDid)
    const calls = callsTo(() => this.url, credentials)
    return {
      ...calls,
      did,
      wallet,
      say: (message, options) => say(this.url, credentials, message, options),
      events: async (options) => {
        const events = await hearEvents(this.url, await credentials(), options)
        this.#heard.add(events)
        return events
      },
      notices: async () => {
        const { status, body } = await calls.get('/notices?limit=100')
        if (status === 200) return body
        throw new Error(`/notices answered ${status}: ${JSON.stringify(body)}`)
      },
      export: () => exportOf(calls),
      erase: () => eraseAll(calls, did),
      granted: (...capabilities) => this.#now.app.grant({ did, capabilities, days: 1 }),
    }
  }
}

/** With PostgreSQL a crash is noticed when the lease ends. The lease is short, or a test of a crash would wait ten seconds. */
const shortLeaseMs = '3000'

const noNetwork: Fetch = () =>
  Promise.reject(new TypeError('No network in tests: give testApp a fakeFetch.'))

/** The same network for as long as the app lives. */
const onlyWhile =
  (isAlive: () => boolean, fetch: Fetch): Fetch =>
  (...request) =>
    isAlive() ? fetch(...request) : forever()

/** Limits that no test meets by chance; a test about a limit sets its own. The watchdog is off, because it would end the test run. */
const generousLimits = {
  REQUEST_LOG: 'off',
  EVENT_LOOP_LIMIT_MS: '0',
  RATE_LIMIT_PER_MINUTE: '1000000',
  CALLS_PER_MINUTE: '1000000',
  AUTH_FAILURES_PER_MINUTE: '1000000',
  TURNS_AT_ONCE: '1000000',
  TURNS_PER_DAY: '1000000',
  TURNS_AT_ONCE_TOTAL: '1000000',
  SOCKETS_PER_DID: '1000000',
  SOCKETS_PER_ADDRESS: '1000000',
  STREAMS_PER_ADDRESS: '1000000',
}

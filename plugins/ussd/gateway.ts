import type { Database, Log, Metrics as AppMetrics, Turns } from '#core'
import { Accounts } from './accounts/accounts.ts'
import { forgetUnused } from './accounts/unused.ts'
import { Aggregators } from './adapters/aggregators.ts'
import { Engine } from './session/engine.ts'
import { Menus } from './screens/entries.ts'
import type { Menu } from './screens/menu.ts'
import { accountMenu } from './menus/account/account.ts'
import { askMenu } from './menus/ask.ts'
import { knowMore } from './menus/know-more.ts'
import { Metrics } from './session/metrics.ts'
import { Oracle } from './oracle/oracle.ts'
import { Pins } from './accounts/pins.ts'
import { SessionRows } from './session/rows.ts'
import type { Session } from './session/session.ts'
import { type Audit, Sessions } from './session/sessions.ts'
import type { Input } from './session/typed.ts'
import type { Tables } from './tables.ts'

/** What the gateway needs of boot. */
export interface GatewayOptions {
  readonly env: {
    readonly PIN_ENCRYPTION_KEY: Buffer
    readonly PIN_ENCRYPTION_KEY_PREVIOUS?: Buffer | undefined
    readonly USSD_SESSION_TTL_SECONDS: number
    readonly USSD_RESUME_SECONDS: number
    readonly USSD_REPLY_BUDGET_MS: number
    readonly USSD_SERVICE_NAME?: string | undefined
  }
  readonly db: Database
  readonly log: Log
  readonly turns: Turns
  readonly metrics: AppMetrics
}

/** The gateway as its routes and other plugins use it; its own menus stand before those of other plugins. */
export class Gateway {
  readonly #menus: Menus
  readonly #metrics: Metrics
  readonly #oracle: Oracle
  readonly #sessions: Sessions
  /** Where the requests of aggregators with bodies of their own are answered. */
  readonly aggregators: Aggregators

  constructor({ env, db, log, turns, metrics }: GatewayOptions) {
    this.#metrics = new Metrics(metrics)
    const tables = db.withTables<Tables>()
    const pins = new Pins(env.PIN_ENCRYPTION_KEY, env.PIN_ENCRYPTION_KEY_PREVIOUS)
    const accounts = new Accounts(tables, pins)
    // Shorter than the reply's budget, so that no handler that waits for an answer outlives the reply.
    const waitMs = env.USSD_REPLY_BUDGET_MS * 0.8
    const oracle = new Oracle({ db: tables, turns, log, waitMs })
    const menus = new Menus(env.USSD_SERVICE_NAME)
    for (const menu of [knowMore, accountMenu(accounts, pins), askMenu(oracle, accounts)])
      menus.add(menu)
    const rows = new SessionRows(tables)
    this.aggregators = new Aggregators(this, log)
    this.#oracle = oracle
    this.#menus = menus
    this.#sessions = new Sessions({
      engine: new Engine(menus, log),
      menus,
      rows,
      pins,
      metrics: this.#metrics,
      log,
      ttlMs: env.USSD_SESSION_TTL_SECONDS * 1000,
      resumeMs: env.USSD_RESUME_SECONDS * 1000,
      replyBudgetMs: env.USSD_REPLY_BUDGET_MS,
      async forget(before) {
        await rows.forget(before)
        await forgetUnused(tables, Date.now())
      },
    })
  }

  /** Adds an entry to the welcome screen, with the next free number. Call it in `setup`. */
  addMenu(menu: Menu): void {
    this.#menus.add(menu)
  }

  /** Answers one input of a phone. */
  answer(request: Input, audit?: Audit): Promise<string> {
    return this.#sessions.answer(request, audit)
  }

  /** Ends a session whose caller has hung up. */
  hangUp(sessionId: string, phoneNumber: string): Promise<void> {
    return this.#sessions.hangUp(sessionId, phoneNumber)
  }

  /** A session that has not expired. */
  find(sessionId: string): Promise<Session | undefined> {
    return this.#sessions.find(sessionId)
  }

  /** The ids of the sessions that are active. */
  active(): Promise<string[]> {
    return this.#sessions.active()
  }

  /** What was counted since this server started. */
  metrics(): ReturnType<Metrics['read']> {
    return this.#metrics.read()
  }

  /** Ends what the gateway does in the background, and waits a moment for handlers. */
  async close(): Promise<void> {
    this.#oracle.close()
    await this.#sessions.close()
  }
}

import type { Database, Log, Turns } from '#core'
import { Accounts } from './accounts/accounts.ts'
import { Engine } from './session/engine.ts'
import { Menus } from './screens/entries.ts'
import type { Menu } from './screens/menu.ts'
import { accountMenu } from './menus/account.ts'
import { askMenu } from './menus/ask.ts'
import { knowMore } from './menus/know-more.ts'
import { Metrics } from './session/metrics.ts'
import { Oracle } from './oracle/oracle.ts'
import { Pins } from './accounts/pins.ts'
import type { UssdRequest } from './request.ts'
import { SessionRows } from './session/rows.ts'
import type { Session } from './session/session.ts'
import { type Audit, Sessions } from './session/sessions.ts'
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
  onClose(close: () => Promise<void>): void
}

/** The gateway as its routes and other plugins know it. */
export interface Gateway {
  /** Adds an entry to the welcome screen, with the next free number. Call it in `setup`. */
  addMenu(menu: Menu): void
  answer(request: UssdRequest, audit?: Audit): Promise<string>
  find(sessionId: string): Promise<Session | undefined>
  active(): Promise<string[]>
  metrics(): ReturnType<Metrics['read']>
}

/** Puts the gateway together, with its own menus first. */
export function setUp({ env, db, log, turns, onClose }: GatewayOptions): Gateway {
  const tables = db.withTables<Tables>()
  const pins = new Pins(env.PIN_ENCRYPTION_KEY, env.PIN_ENCRYPTION_KEY_PREVIOUS)
  const accounts = new Accounts(tables, pins)
  // Within the reply's budget, so that a session never waits for a handler whose server may be gone.
  const waitMs = env.USSD_REPLY_BUDGET_MS * 0.8
  const oracle = new Oracle({ db: tables, turns, log, waitMs })
  const menus = new Menus(env.USSD_SERVICE_NAME)
  for (const menu of [knowMore, accountMenu(accounts, pins), askMenu(oracle, accounts)])
    menus.add(menu)
  const metrics = new Metrics()
  const sessions = new Sessions({
    engine: new Engine(menus, log),
    menus,
    rows: new SessionRows(tables),
    pins,
    metrics,
    log,
    ttlMs: env.USSD_SESSION_TTL_SECONDS * 1000,
    resumeMs: env.USSD_RESUME_SECONDS * 1000,
    replyBudgetMs: env.USSD_REPLY_BUDGET_MS,
  })
  onClose(async () => {
    oracle.close()
    await sessions.close()
  })
  return {
    addMenu: (menu) => menus.add(menu),
    answer: (request, audit) => sessions.answer(request, audit),
    find: (id) => sessions.find(id),
    active: () => sessions.active(),
    metrics: () => metrics.read(),
  }
}

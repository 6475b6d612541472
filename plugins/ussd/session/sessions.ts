import { setTimeout as sleep } from 'node:timers/promises'
import { type Log, type RouteContext, RuntimeError } from '#core'
import { isLanguage, type Language, languages } from '../screens/catalogue.ts'
import {
  mostHeld,
  abandonedMs,
  handlerMs,
  forgetEveryMs,
  countedWithinMs,
  pollMs,
  graceMs,
  closeMs,
} from './bounds.ts'
import { countDropped } from './dropped.ts'
import { type Caller, type Engine, type Outcome, screenName, type State } from './engine.ts'
import type { Menus } from '../screens/entries.ts'
import type { Metrics } from './metrics.ts'
import type { Pins } from '../accounts/pins.ts'
import { invalidInput } from '../request.ts'
import { leftoverOf } from './leftover.ts'
import { Queue } from './queue.ts'
import type { SessionRows } from './rows.ts'
import { withinOrUndefined } from './within.ts'
import { answerOf, fromRow, type Session, toRow } from './session.ts'
import { type Input, type Place, type Typed, typedOf } from './typed.ts'

/** Adds ids to the audit line of a request. */
export type Audit = RouteContext['audit']

/** What `Sessions` needs to answer inputs. */
export interface SessionsOptions {
  readonly engine: Engine
  readonly menus: Menus
  readonly rows: SessionRows
  readonly pins: Pins
  readonly metrics: Metrics
  readonly log: Log
  readonly ttlMs: number
  readonly resumeMs: number
  readonly replyBudgetMs: number
  /** Removes the sessions that expired before then, and what nobody uses any more. */
  readonly forget: (before: number) => Promise<void>
}

/**
 * Answers the inputs of sessions. The inputs of one session run one after the other, and a repeated input gets the same
 * answer again. The database stores a step only if the step follows the stored version, so a step that another replica
 * has overtaken is refused before a handler that writes runs.
 */
export class Sessions {
  readonly #options: SessionsOptions
  readonly #held = new Map<string, Session>()
  readonly #queue = new Queue()
  /** The handlers that still work after their reply, by session. */
  readonly #working = new Map<string, Promise<void>>()
  readonly #timer: NodeJS.Timeout
  readonly #fresh = new Map<Language, Outcome>()
  #forgottenAt = Date.now()
  #sweeping: Promise<void> = Promise.resolve()

  constructor(options: SessionsOptions) {
    this.#options = options
    this.#timer = setInterval(() => this.#sweep(), Math.min(options.ttlMs, 1000)).unref()
  }

  /** Answers one input. */
  async answer(request: Input, audit?: Audit): Promise<string> {
    const started = performance.now()
    try {
      const answer = this.#queue.take(request.sessionId, () => this.#answer(request, audit))
      // When the network to the database is cut silently, the driver waits far longer than a phone does.
      const inTime = await withinOrUndefined(2 * this.#options.replyBudgetMs + graceMs, answer)
      if (inTime !== undefined) return inTime
      answer.catch((error: unknown) =>
        this.#options.log.warn({ err: error }, 'an answer failed after its request had timed out'),
      )
      throw new RuntimeError('UNAVAILABLE', 'The session has no answer in time.')
    } finally {
      this.#options.metrics.replied(performance.now() - started)
    }
  }

  /** Reads a session from the database, because another replica may have continued it. */
  async find(id: string): Promise<Session | undefined> {
    const row = await this.#options.rows.load(id)
    return row && row.expires_at > Date.now() ? fromRow(row) : undefined
  }

  /** Ends a session whose caller has hung up; a redial may go on where it stopped, and a handler at work goes on. */
  hangUp(id: string, phone: string): Promise<void> {
    return this.#queue.take(id, async () => {
      const session = this.#hot(id) ?? (await this.find(id))
      if (session?.phone !== phone || session.ended || session.workingSince > 0) return
      const gone = { ...session, version: session.version + 1, expiresAt: Date.now() }
      // Another replica that has taken the next input meanwhile knows better.
      if (!(await this.#options.rows.save(toRow(gone)))) return
      this.#held.delete(id)
      this.#options.metrics.dropped(screenName(session.state))
    })
  }

  active(): Promise<string[]> {
    return this.#options.rows.active(Date.now())
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    const rest = Promise.allSettled([
      ...this.#queue.waiting(),
      ...this.#working.values(),
      this.#sweeping,
    ])
    await withinOrUndefined(closeMs, rest)
    this.#held.clear()
  }

  async #answer(request: Input, audit: Audit | undefined): Promise<string> {
    const { sessionId: id, phoneNumber } = request
    const typed = typedOf(request, this.#options.pins)
    let session = this.#hot(id) ?? (typed.isFirst ? undefined : await this.find(id))
    // A round fails only when another replica has made a step meanwhile, so few rounds are enough.
    for (let round = 0; round < 20; round++) {
      if (session === undefined) {
        const opened = await this.#open(request, typed, audit)
        if (opened) return opened
        session = await this.find(id)
        continue
      }
      if (session.phone !== phoneNumber) return invalidInput
      const known = typed.isOf(session)
      if (session.workingSince > 0) {
        if (known && this.#working.has(id)) return this.#stillWorking(session)
        session = await this.#awaitWork(session)
        if (session === undefined) continue
        if (session.workingSince > 0) return this.#stillWorking(session)
      }
      if (known) return session.undelivered ? this.#stillWorking(session) : answerOf(session)
      if (session.ended || !typed.follows(session)) return this.#unchanged(session)
      const answer = await this.#advance(session, typed, audit)
      if (answer !== undefined) return answer
      this.#held.delete(id)
      session = await this.find(id)
    }
    throw new Error('A session changed faster than it could be read.')
  }

  /** Begins a session; resolves to undefined if another replica has begun the session. */
  async #open(
    { sessionId, phoneNumber, network, operator }: Input,
    typed: Typed,
    audit: Audit | undefined,
  ): Promise<string | undefined> {
    const { rows, engine, metrics } = this.#options
    const from = { id: sessionId, phone: phoneNumber, network, operator, version: 0 }
    const place = typed.placeAfter(undefined)
    const opening = (language: Language) =>
      engine.walk(this.#begin(language), typed.inputs, this.#caller(sessionId, phoneNumber, audit))
    let session = this.#after(from, place, await opening(languages[0]))
    const kept = await rows.save(toRow(session))
    if (kept === undefined) return undefined
    await rows.noteUse(phoneNumber, kept)
    const chosen = kept.language ?? languages[0]
    if (chosen !== languages[0] && isLanguage(chosen)) {
      session = this.#after(session, place, await opening(chosen))
      if (!(await rows.save(toRow(session)))) return undefined
    }
    this.#hold(session)
    metrics.started()
    if (session.ended) metrics.finished()
    return answerOf(session)
  }

  #begin(language: Language): Outcome {
    const known = this.#fresh.get(language)
    // A plugin may have added a menu since, which changes the welcome screen.
    if (known?.body === this.#options.menus.welcome(language)) return known
    const fresh = this.#options.engine.begin(language)
    this.#fresh.set(language, fresh)
    return fresh
  }

  /** Takes a session one input further; resolves to undefined if another replica was first. */
  async #advance(
    session: Session,
    typed: Typed,
    audit: Audit | undefined,
  ): Promise<string | undefined> {
    const { engine, rows, replyBudgetMs } = this.#options
    const place = typed.placeAfter(session)
    if (session.undelivered) {
      const delivered = this.#after(session, place, session)
      return (await this.#keep(session, delivered)) ? answerOf(delivered) : undefined
    }
    const input = typed.inputAfter(session)
    const caller = this.#caller(session.id, session.phone, audit)
    const claim = (): Session => ({
      ...this.#after(session, place, { ...session, body: this.#workingBody(session) }),
      workingSince: Date.now(),
    })
    let claimed: Session | undefined
    if (engine.isWrite(session.state, input)) {
      claimed = claim()
      if (!(await rows.save(toRow(claimed)))) return undefined
    }
    const work = engine.step(session.state, input, caller)
    let outcome: Outcome | undefined
    try {
      outcome = await withinOrUndefined(replyBudgetMs, work)
    } catch (error) {
      await this.#release(session, claimed)
      throw error
    }
    if (outcome) {
      const next = this.#after(claimed ?? session, place, outcome)
      return (await this.#keep(session, next)) ? answerOf(next) : undefined
    }
    if (claimed === undefined) {
      claimed = claim()
      if (!(await rows.save(toRow(claimed)))) {
        work.catch(() => undefined) // another replica has continued; the result of this read has no use
        return undefined
      }
    }
    this.#hold(claimed)
    this.#goOnBehind(session, claimed, place, work, caller)
    return this.#stillWorking(session)
  }

  /** Lets a handler finish after its reply, and stores the result for the next request. */
  #goOnBehind(
    before: Session,
    claimed: Session,
    place: Place,
    work: Promise<Outcome>,
    caller: Caller,
  ) {
    const { engine, log } = this.#options
    const finish = async () => {
      const outcome = await withinOrUndefined(handlerMs, work).catch((error: unknown) => {
        log.error(
          { err: error, screen: screenName(before.state) },
          'a screen failed after its reply',
        )
        return undefined
      })
      const result = outcome ?? (await engine.again(before.state, caller, 'interrupted'))
      const done = { ...this.#after(claimed, place, result), undelivered: true }
      try {
        await this.#keep(before, done)
      } catch (error) {
        log.warn({ err: error }, 'a late result stays in memory only')
        this.#hold({ ...done, version: claimed.version })
      }
    }
    const finished = finish()
      .catch((error: unknown) => log.error({ err: error }, 'a late result is lost'))
      .finally(() => this.#working.delete(claimed.id))
    this.#working.set(claimed.id, finished)
  }

  /** Frees a session whose handler failed, so that the phone can repeat the input, on this server and on others. */
  async #release(before: Session, claimed: Session | undefined): Promise<void> {
    if (claimed === undefined) return
    const released = { ...before, version: claimed.version + 1 }
    try {
      if (await this.#options.rows.save(toRow(released))) return this.#hold(released)
    } catch {
      // The database fails, probably as it did for the handler; the caller throws the handler's error.
    }
    this.#hold({ ...before, version: claimed.version })
  }

  /** Waits for a handler of this server or of another replica, up to the reply budget. */
  async #awaitWork(session: Session): Promise<Session | undefined> {
    const { replyBudgetMs, engine } = this.#options
    const here = this.#working.get(session.id)
    if (here) {
      await withinOrUndefined(
        replyBudgetMs,
        here.then(() => true),
      )
      return this.#hot(session.id)
    }
    for (const until = performance.now() + replyBudgetMs; ;) {
      const fresh = await this.find(session.id)
      if (fresh === undefined || fresh.workingSince === 0) return fresh
      if (Date.now() - fresh.workingSince > abandonedMs) {
        const caller = this.#caller(session.id, session.phone)
        const again = await engine.again(fresh.state, caller, 'interrupted')
        return { ...fresh, body: again.body, workingSince: 0, undelivered: true }
      }
      if (performance.now() + pollMs > until) return fresh
      await sleep(pollMs)
    }
  }

  async #keep(before: Session, next: Session): Promise<boolean> {
    const { rows, metrics } = this.#options
    const { language } = next.state
    if (language !== before.state.language) await rows.rememberLanguage(next.phone, language)
    if (!(await rows.save(toRow(next)))) return false
    this.#hold(next)
    if (next.ended) metrics.finished()
    return true
  }

  /** The session after an outcome, with the next version. */
  #after(
    before: Pick<Session, 'id' | 'phone' | 'network' | 'operator' | 'version'>,
    { length, mark }: Place,
    { state, body, ended }: Outcome,
  ): Session {
    const touchedAt = Date.now()
    return {
      id: before.id,
      phone: before.phone,
      network: before.network,
      operator: before.operator,
      version: before.version + 1,
      length,
      mark,
      body,
      ended,
      state,
      workingSince: 0,
      undelivered: false,
      touchedAt,
      expiresAt: touchedAt + this.#options.ttlMs,
    }
  }

  #caller(sessionId: string, phoneNumber: string, audit?: Audit): Caller {
    return {
      // The last three digits let an operator recognise a phone, and do not reveal the number to a reader of the log.
      wrote: (what) =>
        audit?.({ who: `phone:…${phoneNumber.slice(-3)}`, session: sessionId, ...what }),
      sessionId,
      phoneNumber,
      leftover: (menu) => this.#leftover(menu, phoneNumber, sessionId),
    }
  }

  async #leftover(menu: string, phone: string, id: string): Promise<State['left']> {
    const { resumeMs, rows } = this.#options
    if (resumeMs === 0) return undefined
    return leftoverOf(rows, menu, { phone, except: id, since: Date.now() - resumeMs })
  }

  /** The answer to a late or wrong copy of a request: the present screen. */
  #unchanged(session: Session): string {
    return session.undelivered ? this.#stillWorking(session) : answerOf(session)
  }

  #workingBody({ state }: Session): string {
    const say = (key: string) => this.#options.menus.say(undefined, state.language, key)
    return `${say('working')}\n1. ${say('continue')}`
  }

  #stillWorking(session: Session): string {
    return answerOf({ ended: false, body: this.#workingBody(session) })
  }

  #hot(id: string): Session | undefined {
    const session = this.#held.get(id)
    return session && session.expiresAt > Date.now() ? session : undefined
  }

  /** Keeps a session in memory, at the end of the map, so that the first session of the map expires first. */
  #hold(session: Session): void {
    this.#held.delete(session.id)
    this.#held.set(session.id, session)
    if (this.#held.size <= mostHeld) return
    const oldest = this.#held.keys().next()
    if (!oldest.done) this.#held.delete(oldest.value)
  }

  #sweep(): void {
    const { resumeMs, forget } = this.#options
    const now = Date.now()
    const expired: Session[] = []
    for (const [id, session] of this.#held) {
      if (session.expiresAt > now) break
      this.#held.delete(id)
      if (!session.ended) expired.push(session)
    }
    const isDue = now - this.#forgottenAt >= Math.min(forgetEveryMs, this.#options.ttlMs)
    if (isDue) this.#forgottenAt = now
    if (expired.length === 0 && !isDue) return
    this.#sweeping = this.#sweeping
      .then(() => countDropped(this.#options, expired))
      .then(() => (isDue ? forget(now - resumeMs - countedWithinMs) : undefined))
      .catch((error: unknown) =>
        this.#options.log.warn(
          { err: error },
          'could not delete expired sessions; a later sweep tries again',
        ),
      )
  }
}

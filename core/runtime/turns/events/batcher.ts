import { RuntimeError } from '../../../errors.ts'
import type { Log } from '../../../plugin.ts'
import { isConnectionError, isFileBusy } from '../../store/database-errors.ts'
import type { Telemetry } from '../../telemetry/telemetry.ts'
import type { Feed } from './feed.ts'
import type { RunStore } from '../journal/store.ts'
import { runsPerWrite } from '../journal/write.ts'

/**
 * How long events wait, so that more are written at once. Readers at other replicas have the events from the database, so
 * the wait is short for a run that another replica follows. Readers here have been shown the events already, and after a
 * crash the run says the events again.
 */
const batchMs = {
  followed: { usual: 50, busy: 100 },
  shared: { usual: 1_000, busy: 1_000 },
  /** What tells more than further words: that somebody spoke, or what a tool does. */
  telling: { usual: 200, busy: 1_000 },
  alone: { usual: 200, busy: 2_000 },
}
/** From so many runs with something to write on, a server counts as busy. */
const busyRuns = 50
const retryMs = 250
/** About how much text one statement carries. */
const portionLength = 4 * 1024 * 1024

/**
 * Collects what the runs of this process emit: once a tick for the readers here, in batches for the database.
 * One batch is under way at a time, and what comes meanwhile goes with the next batch.
 */
export class Batcher {
  /** When the database last took something, by this process's own steady clock. */
  lastWritten = performance.now()
  /** Whether other processes read from the database what is happening here. */
  readonly isShared: boolean
  readonly #store: RunStore
  readonly #log: Log
  readonly #telemetry: Telemetry | undefined
  readonly #ticking = new Set<Feed>()
  /** What has something for the database, each with the time by which it is to be written: 0 is at once. */
  readonly #unwritten = new Map<Feed, number>()
  /** For when the timer is set. */
  #due = Infinity
  #timer: NodeJS.Timeout | undefined
  /** How many runs the last batch was for: the next one begins with a single run. */
  #lastCount = 0
  #writing = false

  constructor(store: RunStore, log: Log, telemetry?: Telemetry) {
    this.#telemetry = telemetry
    this.#store = store
    this.#log = log
    this.isShared = store.dialect === 'postgres'
  }

  /** Has the feed seal its events when this tick is over. */
  atTick(feed: Feed): void {
    if (this.#ticking.size === 0) setImmediate(this.#tick)
    this.#ticking.add(feed)
  }

  /** Writes what the feed has for the database: at once, or with a batch of its kind. */
  toWrite(feed: Feed, urgent: boolean, tells = false): void {
    const due = urgent ? 0 : performance.now() + this.#waitOf(feed, tells)
    this.#unwritten.set(feed, Math.min(due, this.#unwritten.get(feed) ?? Infinity))
    if (!this.#writing) this.#schedule(due)
  }

  forget(feed: Feed): void {
    this.#ticking.delete(feed)
    this.#unwritten.delete(feed)
  }

  #tick = (): void => {
    const timestamp = new Date().toISOString()
    const feeds = [...this.#ticking]
    this.#ticking.clear()
    for (const feed of feeds) feed.seal(timestamp)
  }

  /** Has a batch written at a time, unless one is written before that. */
  #schedule(due: number): void {
    if (due >= this.#due) return
    this.#due = due
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (due === 0) setImmediate(this.#write)
    else this.#timer = setTimeout(this.#write, Math.max(0, due - performance.now()))
  }

  #waitOf(feed: Feed, tells: boolean): number {
    const { usual, busy } = !this.isShared
      ? batchMs.alone
      : feed.isFollowed
        ? batchMs.followed
        : tells
          ? batchMs.telling
          : batchMs.shared
    return this.#lastCount < busyRuns && this.#unwritten.size < busyRuns ? usual : busy
  }

  /** What is to be written now. A process alone writes everything with what is due, for one commit costs as much as many. */
  #takeDue(): Feed[] {
    const now = performance.now()
    const all = [...this.#unwritten]
    const feeds = all.filter(([, due]) => !this.isShared || due <= now).map(([feed]) => feed)
    for (const feed of feeds) this.#unwritten.delete(feed)
    return feeds
  }

  #write = async (): Promise<void> => {
    if (this.#writing) return
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#due = Infinity
    this.#writing = true
    let reached = true
    do {
      const feeds = this.#takeDue()
      this.#lastCount = feeds.length
      for (const some of portions(feeds)) {
        reached &&= await this.#writeSome(some)
        if (!reached) for (const feed of some) if (!feed.isOver) this.#unwritten.set(feed, 0)
      }
    } while (reached && [...this.#unwritten.values()].includes(0))
    this.#writing = false
    const dues = [...this.#unwritten.values()]
    if (dues.length > 0) this.#schedule(reached ? Math.min(...dues) : performance.now() + retryMs)
  }

  /** Writes one portion. False when the database is out of reach: nothing was written, and the feeds keep all of it. */
  async #writeSome(feeds: readonly Feed[]): Promise<boolean> {
    const started = performance.now()
    try {
      const refused = await this.#store.write(feeds.flatMap((feed) => feed.take() ?? []))
      this.lastWritten = started
      const spans = feeds.map(({ traceparent }) => traceparent)
      this.#telemetry?.database('steps', performance.now() - started, spans)
      for (const feed of feeds) {
        const why = refused.get(feed.runId)
        if (why === undefined) feed.written()
        else if (why === 'lost') feed.lose('another process carries it')
        else feed.stopped(why)
      }
      return true
    } catch (error) {
      if (passes(error)) {
        // The database is tried again four times a second; the log says so once in ten.
        const code = 'DATABASE_UNREACHABLE'
        this.#log.warn({ err: error, code, runs: feeds.length }, 'Events wait for the database')
        return false
      }
      if (feeds.length > 1) {
        for (const feed of feeds) if (!(await this.#writeSome([feed]))) return false
        return true
      }
      for (const feed of feeds) {
        this.#log.error({ err: error, runId: feed.runId }, 'A run could not be written')
        feed.lose('the database refused what it wrote')
      }
      return true
    }
  }
}

/** Whether the database may take the same thing a little later. */
const passes = (error: unknown): boolean =>
  isConnectionError(error) ||
  isFileBusy(error) ||
  (error instanceof RuntimeError && error.code === 'UNAVAILABLE')

/** Feeds in portions that one statement takes. */
function* portions(feeds: readonly Feed[]): Generator<Feed[]> {
  let some: Feed[] = []
  let length = 0
  for (const feed of feeds) {
    some.push(feed)
    length += feed.unwrittenLength
    if (some.length < runsPerWrite && length < portionLength) continue
    yield some
    some = []
    length = 0
  }
  if (some.length > 0) yield some
}

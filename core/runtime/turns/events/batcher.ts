import { RuntimeError } from '../../../errors.ts'
import type { Log } from '../../../plugin.ts'
import { isConnectionError, isFileBusy } from '../../store/database-errors.ts'
import type { Telemetry } from '../../telemetry/telemetry.ts'
import type { Feed } from './feed.ts'
import type { RunStore } from '../journal/store.ts'
import { runsPerWrite } from '../journal/write.ts'

/**
 * How long events wait, so that more are written at once. Readers at other replicas have the events from the database, so
 * the wait is short where there may be replicas. A process alone has shown its readers the events already, and after a
 * crash the run says the events again.
 */
const batchMs = { shared: { usual: 50, busy: 100 }, alone: { usual: 200, busy: 2_000 } }
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
  readonly #unwritten = new Set<Feed>()
  #timer: NodeJS.Timeout | undefined
  /** How many runs the last batch was for: the next one begins with a single run. */
  #lastCount = 0
  #urgent = false
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

  /** Writes what the feed has for the database: at once, or with the next batch. */
  toWrite(feed: Feed, urgent: boolean): void {
    this.#unwritten.add(feed)
    if (urgent && !this.#urgent) {
      this.#urgent = true
      clearTimeout(this.#timer)
      this.#timer = undefined
      if (!this.#writing) setImmediate(this.#write)
    } else if (!this.#urgent && !this.#writing) this.#schedule()
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

  #schedule(ms = this.#wait): void {
    this.#timer ??= setTimeout(this.#write, ms)
  }

  get #wait(): number {
    const { usual, busy } = this.isShared ? batchMs.shared : batchMs.alone
    return this.#lastCount < busyRuns && this.#unwritten.size < busyRuns ? usual : busy
  }

  #write = async (): Promise<void> => {
    this.#timer = undefined
    if (this.#writing) return
    this.#writing = true
    let reached = true
    do {
      this.#urgent = false
      const feeds = [...this.#unwritten]
      this.#lastCount = feeds.length
      this.#unwritten.clear()
      for (const some of portions(feeds)) {
        reached &&= await this.#writeSome(some)
        if (!reached) for (const feed of some) if (!feed.isOver) this.#unwritten.add(feed)
      }
    } while (this.#urgent && reached)
    this.#writing = false
    if (!reached) this.#schedule(retryMs)
    else if (this.#unwritten.size > 0) this.#schedule()
  }

  /** Writes one portion. False when the database is out of reach: nothing was written, and the feeds keep all of it. */
  async #writeSome(feeds: readonly Feed[]): Promise<boolean> {
    const started = performance.now()
    try {
      const refused = await this.#store.write(feeds.flatMap((feed) => feed.take() ?? []))
      this.lastWritten = started
      this.#telemetry?.database('steps', performance.now() - started)
      for (const feed of feeds) {
        const why = refused.get(feed.runId)
        if (why === undefined) feed.written()
        else if (why === 'lost') feed.lose('another process carries it')
        else feed.stopped(why)
      }
      return true
    } catch (error) {
      if (passes(error)) {
        this.#log.warn({ err: error, runs: feeds.length }, 'Events wait for the database')
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

import { isMainThread, Worker } from 'node:worker_threads'
import type { Log } from '../../plugin.ts'
import { type WatchdogOrders, watchdogThread } from './thread.ts'
import { noteIn, slotBytes, slots } from './under-way.ts'

/** `EX_SOFTWARE` of sysexits: supervisors start the process again. */
const frozenExitCode = 70

/** A thread that ends the process when the event loop has not turned for too long. */
class Watchdog {
  readonly #signs = new Int32Array(new SharedArrayBuffer(12))
  readonly #turning: NodeJS.Timeout

  constructor(limitMs: number, log: Log) {
    const notes = new SharedArrayBuffer(slots * slotBytes)
    const inspector = process.getBuiltinModule('node:inspector')
    const turn = () => {
      Atomics.add(this.#signs, 0, 1)
      Atomics.store(this.#signs, 1, inspector.url() === undefined ? 0 : 1)
    }
    turn()
    this.#turning = setInterval(turn, Math.min(1_000, Math.max(10, limitMs / 5))).unref()
    const workerData: WatchdogOrders = {
      limitMs,
      signs: this.#signs.buffer,
      notes,
      slots,
      slotBytes,
      exitCode: frozenExitCode,
    }
    const thread = new Worker(`(${watchdogThread})()`, {
      eval: true,
      workerData,
      name: 'watchdog',
      // The thread needs nothing that Node preloads for the server. A report of the process has a part for each thread, with its own
      // list of the variables.
      execArgv: ['--report-exclude-env'],
      env: {},
      resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 2, stackSizeMb: 1 },
    })
    thread.on('error', (err) => log.error({ err }, 'The watchdog of the event loop ended'))
    thread.unref()
    noteIn(notes)
  }

  /** Ends the thread, so that nothing watches the event loop any more. */
  close(): void {
    clearInterval(this.#turning)
    noteIn(undefined)
    Atomics.store(this.#signs, 2, 1)
    Atomics.notify(this.#signs, 2)
  }
}

let running: { readonly watchdog: Watchdog; apps: number } | undefined

/**
 * Watches the event loop until the returned function is called. A process has one event loop and one watchdog, even with
 * several apps; the limit of the first app counts. With a limit of 0 there is no watchdog. A call in a thread that is not
 * the main one starts none either, because that thread has an event loop of its own.
 */
export function watchEventLoop(limitMs: number, log: Log): () => void {
  if (limitMs === 0 || !isMainThread) return () => undefined
  running ??= { watchdog: new Watchdog(limitMs, log), apps: 0 }
  const mine = running
  mine.apps++
  let isWatching = true
  return () => {
    if (!isWatching) return
    isWatching = false
    if (--mine.apps > 0) return
    mine.watchdog.close()
    if (running === mine) running = undefined
  }
}

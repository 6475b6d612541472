import type { Log } from '../plugin.ts'
import type { Closers } from './closers.ts'
import { watchEventLoop } from './watchdog/watchdog.ts'

/** Ends the process when its event loop freezes, from `begin` until the app is closed. */
export class LoopGuard {
  readonly #limitMs: number
  readonly #log: Log
  readonly #closers: Closers
  #stop: (() => void) | undefined

  constructor(limitMs: number, log: Log, closers: Closers) {
    this.#limitMs = limitMs
    this.#log = log
    this.#closers = closers
    closers.add(() => this.#stop?.())
  }

  /** Begins to watch the event loop, unless the guard does already or the app is closing. */
  begin(): void {
    if (this.#closers.hasBegun) return
    this.#stop ??= watchEventLoop(this.#limitMs, this.#log)
  }
}

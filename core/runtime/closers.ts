import type { Log } from '../plugin.ts'

/** How to close what an app opened, as a stack: what was opened last is closed first, also when a boot fails half-way. */
export class Closers {
  readonly #log: Log
  readonly #closers: (() => unknown)[] = []
  #closing: Promise<void> | undefined

  constructor(log: Log) {
    this.#log = log
  }

  /** Puts a close on the stack. Call this beside the line that opens the thing. */
  add(close: () => unknown): void {
    this.#closers.push(close)
  }

  /** Whether closing has begun: then nothing new is opened. */
  get hasBegun(): boolean {
    return this.#closing !== undefined
  }

  /**
   * Closes everything without waiting for any of it, and whatever it throws: for an app whose database is out of reach, so
   * that most closes never end.
   */
  forsake(): void {
    for (let close = this.#closers.pop(); close; close = this.#closers.pop()) void callAside(close)
    this.#closing ??= Promise.resolve()
  }

  /** Closes everything, once. When one close throws, the others still run, and the first fault is thrown at the end. */
  close(): Promise<void> {
    this.#closing ??= this.#unwind()
    return this.#closing
  }

  async #unwind(): Promise<void> {
    this.#log.info('stopping: nothing new is taken, runs are handed over')
    const faults: unknown[] = []
    for (let close = this.#closers.pop(); close; close = this.#closers.pop()) {
      try {
        await close()
      } catch (fault) {
        faults.push(fault)
      }
    }
    if (faults.length > 0) throw faults[0]
    this.#log.info('stopped')
  }
}

async function callAside(close: () => unknown): Promise<void> {
  try {
    await close()
  } catch {
    // The process counts as dead, so the faults are dropped.
  }
}

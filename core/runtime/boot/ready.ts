import { setTimeout as pause } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Boot } from '../../plugin.ts'
import type { PluginRecord } from '../base/plugin-record.ts'

type Call = Parameters<Boot['onReady']>[0]

/** How long a closing server waits for functions of `onReady` that are under way. */
const graceMs = 1000

/** The functions that plugins gave to `onReady`. Each runs once, when the server answers and its plugin is at work. */
export class ReadyCalls {
  readonly #log: Logger
  readonly #waiting = new Map<PluginRecord, Call[]>()
  readonly #underWay = new Set<Promise<void>>()
  readonly #closing = new AbortController()
  #isOpen = false

  constructor(log: Logger) {
    this.#log = log
  }

  /** Keeps a function until its plugin is ready. */
  add(record: PluginRecord, call: Call): void {
    this.#waiting.set(record, [...(this.#waiting.get(record) ?? []), call])
    this.tryNow(record)
  }

  /** Notes that the server answers and every setup has returned: from now on plugins become ready. */
  open(): void {
    if (this.#closing.signal.aborted) return
    this.#isOpen = true
    for (const record of [...this.#waiting.keys()]) this.tryNow(record)
  }

  /** Runs the functions of a plugin when the plugin is at work. */
  tryNow(record: PluginRecord): void {
    const isAtWork = record.state === 'loaded' || record.state === 'available'
    const calls = this.#waiting.get(record)
    if (!this.#isOpen || !isAtWork || !calls) return
    this.#waiting.delete(record)
    for (const call of calls) {
      const run = this.#run(record, call).finally(() => this.#underWay.delete(run))
      this.#underWay.add(run)
    }
  }

  async #run(record: PluginRecord, call: Call): Promise<void> {
    const { signal } = this.#closing
    try {
      await call(signal)
    } catch (err) {
      if (signal.aborted) return
      record.readyFault = `onReady failed: ${err instanceof Error ? err.message : String(err)}`
      this.#log.error({ err, plugin: record.name }, `onReady of ${record.name} failed`)
    }
  }

  /** Starts no function any more, and gives those under way a moment to end. */
  async close(): Promise<void> {
    this.#isOpen = false
    this.#closing.abort()
    if (this.#underWay.size === 0) return
    const enough = new AbortController()
    const late = pause(graceMs, undefined, { signal: enough.signal }).catch(() => undefined)
    await Promise.race([Promise.all(this.#underWay), late])
    enough.abort()
  }
}

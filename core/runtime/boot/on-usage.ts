import type { Log, ModelCall } from '../../plugin.ts'
import { isActive, isOpen, type PluginRecord } from '../base/plugin-record.ts'

/** How many calls one plugin may still be busy with. It is not told of further ones until it has got on. */
const mostAtOnce = 1_000

/** Tells plugins of calls of models as they end: each call at most once, and nobody waits for what a plugin does with it. */
export class UsageListeners {
  readonly #records: readonly PluginRecord[]
  readonly #log: Log
  readonly #busy = new Map<string, number>()

  constructor(records: readonly PluginRecord[], log: Log) {
    this.#records = records.filter(({ definition }) => definition.onUsage !== undefined)
    this.#log = log
  }

  /** Tells every plugin that is at work. */
  tell(call: ModelCall): void {
    for (const record of this.#records)
      if (isActive(record) && isOpen(record)) void this.#tell(record, Object.freeze({ ...call }))
  }

  async #tell(record: PluginRecord, call: ModelCall): Promise<void> {
    const { name, base, definition } = record
    const busy = this.#busy.get(name) ?? 0
    if (base === undefined || busy >= mostAtOnce) return
    this.#busy.set(name, busy + 1)
    try {
      const { runId: requestId = '' } = call
      const ctx = { ...base, signal: never, requestId, audit: () => undefined }
      await definition.onUsage?.(call, ctx)
    } catch (err) {
      this.#log.warn({ err, plugin: name }, '"onUsage" of a plugin failed')
    } finally {
      this.#busy.set(name, (this.#busy.get(name) ?? 1) - 1)
    }
  }
}

const never = new AbortController().signal

import type { Log } from '../../../plugin.ts'
import type { MaybePromise } from '../../../plugin/schema.ts'
import { isOpen, type PluginRecord } from '../../base/plugin-record.ts'
import { underWay } from '../../watchdog/under-way.ts'
import { isLoaded, visibleTo } from '../turn/capabilities.ts'
import { turnContext, type Turn } from '../turn/turn.ts'

/** What a plugin says in the system prompt. */
export interface OwnLine {
  readonly plugin: string
  readonly text: string
}

interface OwnLinesOptions {
  readonly records: readonly PluginRecord[]
  readonly turn: Turn
  /** How long the promises of all plugins together may take. */
  readonly budgetMs: number
  readonly log: Log
}

/**
 * What the plugins of a turn say in the system prompt, in the order of boot. A prompt that answers at once is asked before
 * each call of the model. One that answers with a promise is asked once a turn, and again when the turn loads a plugin.
 */
export class OwnLines {
  readonly #options: OwnLinesOptions
  /** What promises gave: undefined where a promise was late or rejected. */
  readonly #given = new Map<PluginRecord, unknown>()
  readonly #warnedOf = new Set<PluginRecord>()
  /** How many plugins were loaded when the promises were asked for. */
  #loaded = 0

  constructor(options: OwnLinesOptions) {
    this.#options = options
  }

  /** The lines as they are now. */
  now(): MaybePromise<readonly OwnLine[]> {
    const { records, turn } = this.#options
    if (turn.loaded.size !== this.#loaded) this.#given.clear()
    this.#loaded = turn.loaded.size
    const answers = new Map<PluginRecord, unknown>()
    const promises = new Map<PluginRecord, PromiseLike<unknown>>()
    for (const record of visibleTo(records, turn)) {
      if (!record.definition.prompt || !isOpen(record) || !isLoaded(record, turn.loaded)) continue
      const answer = this.#given.has(record) ? this.#given.get(record) : this.#ask(record)
      answers.set(record, answer)
      if (isPromise(answer)) promises.set(record, answer)
    }
    if (promises.size === 0) return linesOf(answers)
    return this.#settle(promises).then(() => {
      for (const record of promises.keys()) answers.set(record, this.#given.get(record))
      return linesOf(answers)
    })
  }

  #ask(record: PluginRecord): unknown {
    underWay(`prompt of ${record.name}`)
    try {
      return record.definition.prompt?.(turnContext(record, this.#options.turn))
    } catch (err) {
      this.#leaveOut(record, `prompt of ${record.name} failed`, err)
      return undefined
    }
  }

  /** Waits for all promises together, no longer than the budget and the turn last. */
  async #settle(promises: ReadonlyMap<PluginRecord, PromiseLike<unknown>>): Promise<void> {
    const { budgetMs, turn } = this.#options
    const texts = new Map<PluginRecord, unknown>()
    const all = [...promises].map(async ([record, promise]) => {
      try {
        texts.set(record, await promise)
      } catch (err) {
        texts.set(record, undefined)
        this.#leaveOut(record, `prompt of ${record.name} failed`, err)
      }
    })
    await within(budgetMs, turn.signal, Promise.all(all))
    for (const record of promises.keys()) {
      this.#given.set(record, texts.get(record))
      if (texts.has(record) || turn.signal.aborted) continue
      this.#leaveOut(record, `prompt of ${record.name} took longer than ${budgetMs} ms`)
    }
  }

  /** Says once a turn that the lines of a plugin are missing: the turn goes on without them. */
  #leaveOut(record: PluginRecord, sentence: string, err?: unknown): void {
    if (this.#warnedOf.has(record)) return
    this.#warnedOf.add(record)
    const { log, turn } = this.#options
    const fields = {
      plugin: record.name,
      requestId: turn.requestId,
      ...(err !== undefined && { err }),
    }
    log.warn(fields, `${sentence}; its lines are left out`)
  }
}

/** Resolves with the work, when the time is over, or when the signal fires. */
function within(ms: number, signal: AbortSignal, work: Promise<unknown>): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', end)
      resolve()
    }
    const timer = setTimeout(end, ms)
    signal.addEventListener('abort', end, { once: true })
    void work.then(end)
    if (signal.aborted) end()
  })
}

/** The answers that are text. A plugin in JavaScript may answer with any value, whatever the types say. */
function linesOf(answers: ReadonlyMap<PluginRecord, unknown>): OwnLine[] {
  const lines: OwnLine[] = []
  for (const [{ name }, answer] of answers) {
    const text = typeof answer === 'string' ? answer.trim() : ''
    if (text) lines.push({ plugin: name, text })
  }
  return lines
}

const isPromise = (value: unknown): value is PromiseLike<unknown> =>
  typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function'

import type { Logger } from 'pino'
import { enter, isActive, type PluginRecord } from '../base/plugin-record.ts'

/** Work of a plugin that goes on after the boot. */
export interface Work {
  /** What the plugin waits for, in a sentence with what to check; a function tells the sentence of the moment. */
  readonly what: string | (() => string)
  /** Whether the plugin serves nothing until the work is done. */
  readonly gates: boolean
  /** The words before the cause when the work fails; by default `what`. */
  readonly failure?: string
}

/** How often the log names work that goes on, and how often a sentence of the moment is asked for. */
const tellMs = 10_000
const askMs = 1_000

/** The work that plugins still wait for. A record shows it: as state, as reason and as gate. */
export class PendingWork {
  readonly #log: Logger
  readonly #open = new Map<PluginRecord, Set<Work>>()
  readonly #watches = new Set<NodeJS.Timeout>()
  #isClosed = false

  constructor(log: Logger) {
    this.#log = log
  }

  /** Whether the plugin waits for anything. */
  has(record: PluginRecord): boolean {
    return this.#open.has(record)
  }

  /** Follows work until it is done or has failed. The log names the work while it lasts, and says how it failed. */
  async follow(record: PluginRecord, promise: Promise<unknown>, work: Work): Promise<void> {
    const open = this.#open.get(record) ?? new Set()
    this.#open.set(record, open.add(work))
    this.#show(record)
    const watches = [setInterval(() => this.#tell(record, work), tellMs).unref()]
    if (typeof work.what === 'function')
      watches.push(setInterval(() => this.#refresh(record), askMs).unref())
    for (const watch of watches) this.#watches.add(watch)
    let failure: { readonly thrown: unknown } | undefined
    try {
      await promise
    } catch (thrown) {
      failure = { thrown }
    }
    for (const watch of watches) {
      clearInterval(watch)
      this.#watches.delete(watch)
    }
    open.delete(work)
    if (open.size === 0) this.#open.delete(record)
    // The boot leaves out a plugin whose setup missed a variable; its record goes on saying that.
    if (this.#isClosed || !isActive(record)) return
    if (failure) this.#fail(record, work, failure.thrown)
    else this.#show(record)
  }

  /** Stops naming work in the log, also work that fails from now on: the server closes. */
  close(): void {
    this.#isClosed = true
    for (const watch of this.#watches) clearInterval(watch)
  }

  /** Shows in the record what the plugin waits for now. A failure stays, as state and as gate. */
  #show(record: PluginRecord): void {
    const open = [...(this.#open.get(record) ?? [])]
    const newest = open.at(-1)
    const reason = newest && sentenceOf(newest)
    const isNews = record.state !== 'pending' || record.reason !== reason
    if (newest && isNews && record.state !== 'failed') enter(record, 'pending', reason)
    if (record.gate?.isFailed) return
    const gating = open.find(({ gates }) => gates)
    record.gate = gating && { isFailed: false, why: sentenceOf(gating) }
  }

  /** Asks for the sentence of the moment. The plugin goes on waiting since when it did. */
  #refresh(record: PluginRecord): void {
    const open = [...(this.#open.get(record) ?? [])]
    const newest = open.at(-1)
    if (newest && record.state === 'pending') record.reason = sentenceOf(newest)
    const gating = open.find(({ gates }) => gates)
    if (gating && !record.gate?.isFailed) record.gate = { isFailed: false, why: sentenceOf(gating) }
  }

  #fail(record: PluginRecord, work: Work, thrown: unknown): void {
    const { gates, failure = sentenceOf(work) } = work
    const cause = thrown instanceof Error ? thrown.message : String(thrown)
    const why = `${failure}: ${cause}`
    enter(record, 'failed', why)
    if (gates) record.gate = { isFailed: true, why }
    this.#log.error({ err: thrown }, `${record.name} pending -> failed: ${cause}`)
  }

  #tell({ name, since }: PluginRecord, work: Work): void {
    const seconds = Math.round((Date.now() - since.getTime()) / 1000)
    this.#log.warn(`${name} pending for ${seconds} s: ${sentenceOf(work)}`)
  }
}

const longestSentence = 500

/** What work waits for now. A function that throws, or answers no text, says so instead. */
function sentenceOf({ what }: Work): string {
  if (typeof what === 'string') return what
  try {
    const sentence: unknown = what()
    if (typeof sentence === 'string' && sentence !== '') return sentence.slice(0, longestSentence)
    return 'it does not say what it waits for'
  } catch (thrown) {
    return `it could not say what it waits for: ${thrown instanceof Error ? thrown.message : String(thrown)}`
  }
}

import { readFile } from 'node:fs/promises'
import { unwatchFile, watchFile } from 'node:fs'
import { RuntimeError, type Log } from '#core'
import { readDescriptorSet } from '../descriptors/descriptors.ts'
import { compileOperations, type OperationOptions, type Operations } from './operations.ts'
import { reflect } from '../descriptors/reflection.ts'
import type { Transport } from '../upstream/transport.ts'

/** Where descriptors come from, and how operations are compiled from them. */
export interface CatalogueOptions extends OperationOptions {
  readonly transport: Transport
  /** A FileDescriptorSet; without it the upstream is asked by reflection. */
  readonly file: string | undefined
  readonly log: Log
  /** The first pause between two attempts; it doubles up to `longestPauseMs`. */
  readonly pauseMs?: number
}

const longestPauseMs = 15_000
const reflectionMs = 10_000
const lookEveryMs = 1000
const betweenReturnsMs = 5000

/** Keeps the operations: read at boot, as often as it takes, and again when the file or the upstream changes. */
export class Catalogue {
  readonly #options: CatalogueOptions
  readonly #ready = Promise.withResolvers<void>()
  #current: Operations | undefined
  #closed = false
  #reading: Promise<void> | undefined
  /** The reading that begins when the one under way has ended. */
  #next: Promise<void> | undefined
  #retry: NodeJS.Timeout | undefined
  #returning: NodeJS.Timeout | undefined
  #lastReturn = -Infinity

  private constructor(options: CatalogueOptions) {
    this.#options = options
  }

  /** Begins to read, and to watch for changes. */
  static open(options: CatalogueOptions): Catalogue {
    const opened = new Catalogue(options)
    void opened.#start(options.pauseMs ?? 500)
    opened.#watch()
    return opened
  }

  /** What is served now; undefined until descriptors were read for the first time. */
  get current(): Operations | undefined {
    return this.#current
  }

  /** Resolves when there is something to serve. */
  get ready(): Promise<void> {
    return this.#ready.promise
  }

  /**
   * Reads the descriptors again. What cannot be used leaves what is served as it is. One reading runs at a time; all
   * who ask meanwhile share the next, which begins after they asked.
   */
  reload(): Promise<void> {
    if (this.#reading === undefined) {
      this.#reading = this.#attempt().finally(() => (this.#reading = undefined))
      return this.#reading
    }
    this.#next ??= this.#reading.then(() => {
      this.#next = undefined
      return this.reload()
    })
    return this.#next
  }

  close(): void {
    const { file } = this.#options
    this.#closed = true
    clearTimeout(this.#retry)
    clearTimeout(this.#returning)
    if (file !== undefined) unwatchFile(file, this.#changed)
    process.off('SIGHUP', this.#changed)
  }

  async #start(pauseMs: number): Promise<void> {
    await this.reload()
    if (this.#current !== undefined || this.#closed) return
    const again = () => void this.#start(Math.min(pauseMs * 2, longestPauseMs))
    this.#retry = setTimeout(again, pauseMs)
    this.#retry.unref()
  }

  #watch(): void {
    const { file, transport } = this.#options
    if (file === undefined) transport.onReturn(() => this.#returned())
    // Polled: a file that is replaced by a rename, or lies on a mounted volume, escapes a watcher.
    else watchFile(file, { interval: lookEveryMs, persistent: false }, this.#changed)
    process.on('SIGHUP', this.#changed)
  }

  readonly #changed = (): void => void this.reload()

  /** A ledger that was upgraded was away for a moment; one that goes away every second is not asked each time. */
  #returned(): void {
    const wait = Math.max(this.#lastReturn + betweenReturnsMs - performance.now(), 0)
    this.#returning ??= setTimeout(() => {
      this.#returning = undefined
      this.#lastReturn = performance.now()
      this.#changed()
    }, wait).unref()
  }

  async #attempt(): Promise<void> {
    try {
      await this.#read()
    } catch (thrown) {
      const why = thrown instanceof Error ? thrown.message : String(thrown)
      const hint = thrown instanceof RuntimeError && thrown.hint ? ` ${thrown.hint}` : ''
      this.#options.log.warn(`the descriptors cannot be used: ${why}${hint}`)
    }
  }

  async #read(): Promise<void> {
    const { file, log, transport } = this.#options
    const files =
      file === undefined
        ? await reflect(transport, reflectionMs)
        : readDescriptorSet(await readFile(file))
    const made = compileOperations(files, this.#options)
    if (this.#closed) return
    const before = this.#current
    if (before?.fingerprint === made.fingerprint) return
    this.#current = made
    for (const note of made.notes) log.warn(`not served: ${note}`)
    log.info(`${before ? 'now serves' : 'serves'} ${made.all.length} bindings`)
    this.#ready.resolve()
  }
}

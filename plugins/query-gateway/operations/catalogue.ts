import { readFile } from 'node:fs/promises'
import { unwatchFile, watchFile } from 'node:fs'
import { RuntimeError, type Log } from '#core'
import { readDescriptorSet } from '../descriptors/descriptors.ts'
import { compileOperations, type OperationOptions, type Operations } from './operations.ts'
import { reflect } from '../descriptors/reflection.ts'
import type { Transport } from '../upstream/transport.ts'

/** The source of the descriptors, and the options for compiling operations from them. */
export interface CatalogueOptions extends OperationOptions {
  readonly transport: Transport
  /** The path of a FileDescriptorSet; without a path the catalogue asks the upstream by reflection. */
  readonly file: string | undefined
  readonly log: Log
  /** The first pause between two attempts; it doubles up to `longestPauseMs`. */
  readonly pauseMs?: number
}

const longestPauseMs = 15_000
const reflectionMs = 10_000
const lookEveryMs = 1000
const betweenReturnsMs = 5000

/** The operations. The catalogue tries to read them at boot until it succeeds, and again when the file or the upstream changes. */
export class Catalogue {
  readonly #options: CatalogueOptions
  readonly #ready = Promise.withResolvers<void>()
  #current: Operations | undefined
  #closed = false
  #reading: Promise<void> | undefined
  /** The reading that begins after the present one has ended. */
  #next: Promise<void> | undefined
  #retry: NodeJS.Timeout | undefined
  #returning: NodeJS.Timeout | undefined
  #lastReturn = -Infinity
  #tellLacking: ((lacking: ReadonlySet<string>) => void) | undefined

  private constructor(options: CatalogueOptions) {
    this.#options = options
  }

  /** Makes a catalogue that reads the descriptors and watches for changes. */
  static open(options: CatalogueOptions): Catalogue {
    const opened = new Catalogue(options)
    void opened.#start(options.pauseMs ?? 500)
    opened.#watch()
    return opened
  }

  /** The operations that the gateway serves now; undefined before the first successful reading. */
  get current(): Operations | undefined {
    return this.#current
  }

  /** Has the function told which served methods the upstream lacks, by its own reflection: at boot and whenever it has come back. */
  onLacking(tell: (lacking: ReadonlySet<string>) => void): void {
    this.#tellLacking = tell
    void this.ready.then(() => this.#learn())
    this.#options.transport.onReturn(() => void this.#learn())
  }

  /** Descriptors from a file may be newer than the upstream, or older. An upstream without reflection teaches nothing. */
  async #learn(): Promise<void> {
    const { file, transport } = this.#options
    const operations = this.#current
    if (file === undefined || !operations || this.#closed) return
    const reflected = await reflect(transport, reflectionMs).catch(() => [])
    const served = new Set(
      reflected.flatMap((one) =>
        one.service.flatMap(({ name, method }) =>
          method.map(
            (each) => `/${one.package === '' ? '' : `${one.package}.`}${name}/${each.name}`,
          ),
        ),
      ),
    )
    if (served.size === 0 || this.#closed) return
    const lacking = operations.all.flatMap(({ path }) => (served.has(path) ? [] : path))
    this.#tellLacking?.(new Set(lacking))
  }

  /** Resolves after the first successful reading. */
  get ready(): Promise<void> {
    return this.#ready.promise
  }

  /**
   * Reads the descriptors again. Unusable descriptors leave the present operations as they are. One reading runs at a time;
   * all calls during a reading share the next one, so each call's reading begins after the call.
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
    // The file is polled, because fs.watch misses a file that a rename replaces or that is on a mounted volume.
    else watchFile(file, { interval: lookEveryMs, persistent: false }, this.#changed)
    process.on('SIGHUP', this.#changed)
  }

  readonly #changed = (): void => void this.reload()

  /** Reads again after the upstream has come back, perhaps from an upgrade, but at most every `betweenReturnsMs`. */
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
    if (before) void this.#learn()
  }
}

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

/** The operations as they are now. */
export interface Catalogue {
  /** What is served now; undefined until descriptors were read for the first time. */
  readonly current: Operations | undefined
  /** Resolves when there is something to serve. */
  readonly ready: Promise<void>
  /** Reads the descriptors again. What cannot be used leaves what is served as it is. */
  reload(): Promise<void>
  close(): void
}

const longestPauseMs = 15_000
const reflectionMs = 10_000
const lookEveryMs = 1000
const betweenReturnsMs = 5000

/** Keeps the operations: read at boot, as often as it takes, and again when the file changes. */
export function openCatalogue(options: CatalogueOptions): Catalogue {
  const { file, log, transport } = options
  const ready = Promise.withResolvers<void>()
  let current: Operations | undefined
  let closed = false
  let timer: NodeJS.Timeout | undefined
  let running: Promise<void> | undefined
  let next: Promise<void> | undefined

  async function read(): Promise<void> {
    const files =
      file === undefined
        ? await reflect(transport, reflectionMs)
        : readDescriptorSet(await readFile(file))
    const made = compileOperations(files, options)
    if (closed) return
    const before = current
    if (before?.fingerprint === made.fingerprint) return
    current = made
    for (const note of made.notes) log.warn(`not served: ${note}`)
    log.info(`${before ? 'now serves' : 'serves'} ${made.all.length} bindings`)
    ready.resolve()
  }

  async function attempt(): Promise<void> {
    try {
      await read()
    } catch (thrown) {
      const why = thrown instanceof Error ? thrown.message : String(thrown)
      const hint = thrown instanceof RuntimeError && thrown.hint ? ` ${thrown.hint}` : ''
      log.warn(`the descriptors cannot be used: ${why}${hint}`)
    }
  }

  /** One reading at a time; all who ask meanwhile share the next, which begins after they asked. */
  function reload(): Promise<void> {
    if (running === undefined) {
      running = attempt().finally(() => (running = undefined))
      return running
    }
    next ??= running.then(() => {
      next = undefined
      return reload()
    })
    return next
  }

  async function start(pauseMs: number): Promise<void> {
    await reload()
    if (current !== undefined || closed) return
    timer = setTimeout(() => void start(Math.min(pauseMs * 2, longestPauseMs)), pauseMs)
    timer.unref()
  }
  void start(options.pauseMs ?? 500)

  const changed = () => void reload()
  // A ledger that was upgraded was away for a moment; one that goes away every second is not asked each time.
  let returning: NodeJS.Timeout | undefined
  let lastReturn = -Infinity
  const returned = () => {
    const wait = Math.max(lastReturn + betweenReturnsMs - performance.now(), 0)
    returning ??= setTimeout(() => {
      returning = undefined
      lastReturn = performance.now()
      changed()
    }, wait).unref()
  }
  if (file === undefined) transport.onReturn(returned)
  // Polled: a file that is replaced by a rename, or lies on a mounted volume, escapes a watcher.
  if (file !== undefined) watchFile(file, { interval: lookEveryMs, persistent: false }, changed)
  process.on('SIGHUP', changed)

  return {
    get current() {
      return current
    },
    ready: ready.promise,
    reload,
    close() {
      closed = true
      clearTimeout(timer)
      clearTimeout(returning)
      if (file !== undefined) unwatchFile(file, changed)
      process.off('SIGHUP', changed)
    },
  }
}

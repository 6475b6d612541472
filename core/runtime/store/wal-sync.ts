import { close, fdatasync, open } from 'node:fs'
import { promisify } from 'node:util'

const openFile = promisify(open)
const sync = promisify(fdatasync)
const closeFile = promisify(close)

/**
 * Brings the write-ahead log of a SQLite file to the disk, beside the event loop. SQLite itself would stop everything
 * until the disk has answered. Callers that ask while a sync is under way share the next one.
 */
export class WalSync {
  readonly #path: string
  #file: Promise<number> | undefined
  #running: Promise<void> = Promise.resolve()
  #next: Promise<void> | undefined

  constructor(database: string) {
    this.#path = `${database}-wal`
  }

  /** Resolves when everything that was committed so far would survive a power cut. */
  synced(): Promise<void> {
    this.#next ??= this.#running.then(() => this.#sync())
    return this.#next
  }

  async close(): Promise<void> {
    await this.#next?.catch(() => undefined)
    await this.#running
    if (this.#file) await closeFile(await this.#file)
    this.#file = undefined
  }

  async #sync(): Promise<void> {
    const written = this.#next
    this.#running = written?.catch(() => undefined) ?? this.#running // the callers of `synced` hear of a failure
    this.#next = undefined
    this.#file ??= openFile(this.#path, 'r+')
    const file = await this.#file.catch((error: NodeJS.ErrnoException) => {
      this.#file = undefined
      // There is no log any more: SQLite was closed and has brought everything into the database.
      if (error.code !== 'ENOENT') throw error
    })
    if (file !== undefined) await sync(file)
  }
}

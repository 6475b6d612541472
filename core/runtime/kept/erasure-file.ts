import { createReadStream, existsSync } from 'node:fs'
import { createInterface } from 'node:readline'
import type { Log } from '../../plugin.ts'
import { fieldsIn } from '../base/fields.ts'
import type { DataDir } from '../store/data-dir.ts'
import { withFile } from '../variables/open-file.ts'

/** An erasure as it outlives the database: by it a restored backup is erased again. */
export interface ErasureLine {
  readonly id: string
  readonly hash: string
  /** When the erasure was asked for. */
  readonly at: string
}

const name = 'erasures.ndjson'
const forms = { id: /^[A-Za-z0-9_-]{16,64}$/, hash: /^[A-Za-z0-9_-]{43}$/ }

/** An erasure of a line; undefined where the line is none. */
export function readErasureLine(line: string): ErasureLine | undefined {
  try {
    const { id, hash, at } = fieldsIn(JSON.parse(line))
    if (typeof id !== 'string' || !forms.id.test(id)) return undefined
    if (typeof hash !== 'string' || !forms.hash.test(hash)) return undefined
    return { id, hash, at: typeof at === 'string' ? at : '' }
  } catch {
    return undefined
  }
}

/** The file beside an embedded database that names every erasure. A restored backup does not bring it back. */
export class ErasureFile {
  readonly #dataDir: DataDir
  readonly #log: Log

  constructor(dataDir: DataDir, log: Log) {
    this.#dataDir = dataDir
    this.#log = log
  }

  /** Adds a line; resolves when it is on the disk. A line may stand there twice. */
  async add(line: ErasureLine): Promise<void> {
    await this.#dataDir.restrict(name, { create: true })
    await withFile(this.#dataDir.file(name), { flags: 'a', mode: 0o600 }, async (file) => {
      await file.appendFile(`${JSON.stringify(line)}\n`)
      await file.sync()
    })
  }

  /** Every line, the oldest first. A line that a crash cut off is left out. */
  async *lines(): AsyncGenerator<ErasureLine> {
    const path = this.#dataDir.file(name)
    if (!existsSync(path)) return
    let broken = 0
    const input = createReadStream(path, 'utf8')
    try {
      for await (const text of createInterface({ input, crlfDelay: Infinity })) {
        const line = readErasureLine(text)
        if (line) yield line
        else if (text !== '') broken++
      }
    } finally {
      input.destroy()
    }
    if (broken > 0) this.#log.warn({ broken }, `${name} has lines that name no erasure`)
  }
}

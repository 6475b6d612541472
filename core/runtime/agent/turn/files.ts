import { randomUUID } from 'node:crypto'
import { RuntimeError } from '../../../errors.ts'
import type { MessagePart } from '../../../plugin.ts'
import { asPart, type Files, type NewFile } from '../../files/files.ts'

/** How many bytes a turn holds of what nothing keeps; the oldest give way. */
const mostHeldBytes = 20 * 1024 * 1024

/** The files of a turn: those of its user, for the models and the tools of the turn. */
export class FilesOfTurn {
  readonly #files: Files
  readonly #did: string
  readonly #sessionId: string
  readonly #known = new Map<string, boolean>()
  readonly #held = new Map<string, Uint8Array>()

  constructor(files: Files, did: string, sessionId: string) {
    this.#files = files
    this.#did = did
    this.#sessionId = sessionId
  }

  /** The bytes of a file, for a model. */
  async read(id: string): Promise<Uint8Array> {
    const bytes = this.#held.get(id) ?? (await this.#files.read(this.#did, id))
    if (bytes) return bytes
    throw new RuntimeError('GONE', `The file "${id.slice(0, 100)}" is not kept any more.`)
  }

  /** Which of these files are kept. Each is asked for once in a turn. */
  async kept(ids: readonly string[]): Promise<ReadonlySet<string>> {
    const asked = ids.filter((id) => !this.#known.has(id) && !this.#held.has(id))
    if (asked.length > 0) {
      const found = await this.#files.find(this.#did, asked)
      for (const id of asked) this.#known.set(id, found.has(id))
    }
    return new Set(ids.filter((id) => this.#held.has(id) || this.#known.get(id)))
  }

  /** Keeps the files of a tool's result. The session refers to them from then on. */
  async keep(files: readonly NewFile[]): Promise<MessagePart[]> {
    const kept = await this.#files.keep(this.#did, files, this.#sessionId)
    return kept.map((file, i) => asPart(file, files[i]?.name))
  }

  /** Has a file at hand until the turn ends. Nothing of it is stored. */
  hold({ body, mediaType, name }: NewFile): MessagePart {
    const fileId = randomUUID()
    this.#held.set(fileId, body)
    let bytes = [...this.#held.values()].reduce((sum, { length }) => sum + length, 0)
    for (const [oldest, { length }] of this.#held) {
      if (bytes <= mostHeldBytes) break
      this.#held.delete(oldest)
      bytes -= length
    }
    return asPart({ fileId, mediaType, name, bytes: body.length })
  }
}

import type { Log } from '../../plugin.ts'
import type { AuditLine } from './line.ts'
import type { AuditTable } from './table.ts'

/** Where audit lines go: the log, and the database where the operator wants them there. */
export class AuditTrail {
  readonly #log: Log
  readonly #table: AuditTable | undefined

  /** `masked` puts `[secret]` in the place of the environment's secrets, for the table as the log does for itself. */
  readonly #masked: (text: string) => string

  constructor(log: Log, table?: AuditTable, masked = (text: string) => text) {
    this.#log = log
    this.#table = table
    this.#masked = masked
  }

  /**
   * Writes one line. For an accepted write it is a promise where there is a table: its answer leaves when the line is
   * in the database, so that a process which dies after an answer has left the line behind. Nobody waits for the rest.
   */
  write(line: AuditLine): Promise<void> | undefined {
    const { route, tool, task, outcome } = line
    this.#log.info({ audit: true, ...line }, `${route ?? tool ?? task} ${outcome}`)
    if (!this.#table) return undefined
    const kept = this.#table.keep({ ...this.#withoutSecrets(line), at: Date.now() })
    return outcome === 'accepted' ? kept : undefined
  }

  /** Ids that callers and models choose may be anything, the value of a key too. */
  #withoutSecrets({ who, what, requestId, callId, ...line }: AuditLine): AuditLine {
    const safe = (text: string | undefined) => text && this.#masked(text)
    const ids = Object.entries(what).map(([name, value]): [string, string | number] => [
      name,
      typeof value === 'string' ? this.#masked(value) : value,
    ])
    return {
      ...line,
      who: this.#masked(who),
      what: Object.fromEntries(ids),
      requestId: safe(requestId),
      callId: safe(callId),
    }
  }

  async close(): Promise<void> {
    await this.#table?.close()
  }
}

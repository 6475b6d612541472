import type { Log } from '../../plugin.ts'
import type { AuditLine } from './line.ts'
import type { AuditTable } from './table.ts'

/** Takes audit lines to the log, and to the database when the operator set AUDIT_TABLE. */
export class AuditTrail {
  readonly #log: Log
  readonly #table: AuditTable | undefined

  /** Puts `[secret]` in the place of the environment's secrets. The log masks them itself; the table needs this. */
  readonly #masked: (text: string) => string

  constructor(log: Log, table?: AuditTable, masked = (text: string) => text) {
    this.#log = log
    this.#table = table
    this.#masked = masked
  }

  /**
   * Writes one line. With a table, an accepted write gets a promise, and its answer waits until the line is in the database:
   * when the process dies after the answer, the line is there. No answer waits for the other lines.
   */
  write(line: AuditLine): Promise<void> | undefined {
    const { route, tool, task, outcome } = line
    this.#log.info({ audit: true, ...line }, `${route ?? tool ?? task} ${outcome}`)
    if (!this.#table) return undefined
    const kept = this.#table.keep({ ...this.#withoutSecrets(line), at: Date.now() })
    return outcome === 'accepted' ? kept : undefined
  }

  /** Masks the line. Callers and models choose some of the ids, so an id may hold a secret. */
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

  /** Writes the lines that wait for the database. */
  async close(): Promise<void> {
    await this.#table?.close()
  }
}

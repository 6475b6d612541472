import type { Selectable } from 'kysely'
import type { MemoriesTable, SourcesTable } from '../tables.ts'
import type { Memory, Said } from './memory.ts'
import type { Vault } from './vault.ts'

const number = (time: number | null) => (time === null ? null : Number(time))

/** A memory out of its row: opened, and with numbers where PostgreSQL has texts. */
export function openedMemory(vault: Vault, row: Selectable<MemoriesTable>): Memory {
  const { id, did } = row
  const read = (words: string) => vault.read(words, id, did)
  return {
    ...row,
    n: Number(row.n),
    about: read(row.about),
    value: read(row.value),
    text: read(row.text),
    valid_from: Number(row.valid_from),
    valid_to: number(row.valid_to),
    denied_at: number(row.denied_at),
    until: number(row.until),
    pinned: row.pinned === 1,
    confirmed_at: Number(row.confirmed_at),
    created_at: Number(row.created_at),
  }
}

/** Where a memory was said, out of its row. */
export function openedSource(vault: Vault, row: Selectable<SourcesTable>): Said {
  const { memory_id, did, session_id, run_id, quote, at } = row
  const opened = vault.read(quote, memory_id, did)
  return { sessionId: session_id, runId: run_id, quote: opened, at: Number(at) }
}

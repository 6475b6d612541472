import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { RuntimeError } from '../core/errors.ts'

/** How many faults of a file are told. */
const mostFaults = 5

/** Throws unless a file is a whole database of the runtime. The file is only read. */
export async function checkDatabase(path: string): Promise<void> {
  const refused = (why: string, cause?: unknown) =>
    new RuntimeError('DATA_DIR_UNUSABLE', `${path} is no backup of this runtime: ${why}.`, {
      hint: 'Name a file that "oracle-runtime backup" made. Nothing was changed.',
      cause,
    })
  try {
    const database = new DatabaseSync(path, { readOnly: true })
    try {
      const found = database.prepare(`pragma integrity_check(${mostFaults})`).all()
      const faults = found.map((row) => String(Object.values(row)[0]))
      if (faults.join() !== 'ok')
        throw refused(`it is damaged (${faults.join('; ').slice(0, 300)})`)
      const ours = database
        .prepare(`select 1 from sqlite_master where type = 'table' and name = 'kernel_migrations'`)
        .get()
      if (!ours) throw refused('it has no table kernel_migrations')
    } finally {
      database.close()
    }
  } catch (error) {
    if (error instanceof RuntimeError) throw error
    throw refused(error instanceof Error ? error.message : String(error), error)
  }
}

/** The SHA-256 of a file, in hex. */
export async function sha256Of(path: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const bytes of createReadStream(path)) hash.update(bytes as Buffer)
  return hash.digest('hex')
}

import { randomUUID } from 'node:crypto'
import { existsSync, statSync } from 'node:fs'
import { chmod, copyFile, rename, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { RuntimeError } from '../../core/errors.ts'
import { openDataDir } from '../../core/runtime/store/data-dir.ts'
import { type Command, UsageError } from '../command.ts'
import { loadEnvFileIfAny } from '../env-file.ts'
import { sync } from '../../core/runtime/variables/open-file.ts'
import { checkDatabase, sha256Of } from '../sqlite-file.ts'

/** Puts a backup in the place of the embedded database, and keeps the database that was there. */
export const command: Command = {
  usage: 'restore <file>',
  example: 'oracle-runtime restore /var/backups/oracle.sqlite',
  notes:
    'Stop the server first: a database that a server holds is not touched. The file is checked before anything is\n' +
    'changed, and the former database stays as oracle.sqlite.before-<time> in DATA_DIR. Keys are not restored.',
  mostPositionals: 1,
  async run({ positionals: [file] }) {
    const env = loadEnvFileIfAny()
    if (env.DATABASE_URL || env.DATABASE_URL_FILE)
      throw new UsageError(
        'DATABASE_URL selects PostgreSQL, which pg_restore brings back: see "Backups" in docs/operate.md.',
      )
    if (!file) throw new UsageError(`Name the file of a backup: oracle-runtime ${command.usage}`)
    if (!existsSync(file)) throw new UsageError(`There is no file ${resolve(file)}.`)
    const before = writtenAt(file)
    await checkDatabase(resolve(file))
    const dataDir = await openDataDir(env.DATA_DIR || '.data')
    const lock = await dataDir.lock({ pid: process.pid })
    const temporary = join(dataDir.path, `.${randomUUID()}.sqlite`)
    try {
      await copyFile(file, temporary)
      await chmod(temporary, 0o600)
      if (writtenAt(file) !== before)
        throw new RuntimeError('DATA_DIR_UNUSABLE', `${file} is being written.`, {
          hint: 'Wait until that has ended. Nothing was changed.',
        })
      // The copy is checked too: the file may have changed meanwhile.
      await checkDatabase(temporary)
      await sync(temporary)
      const former = await putAside(dataDir.file('oracle.sqlite'))
      await rename(temporary, dataDir.file('oracle.sqlite'))
      await sync(dataDir.path)
      console.log(`${file} is the database of ${dataDir.path} now.`)
      console.log(`sha256 ${await sha256Of(dataDir.file('oracle.sqlite'))}`)
      if (former !== undefined) console.log(`The former database is ${former}.`)
    } finally {
      await rm(temporary, { force: true })
      await lock.release()
    }
  },
}

/** How long a file is, and when somebody wrote it last. */
function writtenAt(file: string): string {
  const { size, mtimeMs } = statSync(file)
  return `${size} ${mtimeMs}`
}

/** Renames a database with its log, which goes first: a new database must never find the log of another. */
async function putAside(path: string): Promise<string | undefined> {
  if (!existsSync(path)) return undefined
  try {
    // Closing the last connection brings the log into the database.
    const database = new DatabaseSync(path)
    database.exec('pragma wal_checkpoint(truncate)')
    database.close()
  } catch {
    // A damaged database is put aside as it is, with its log.
  }
  const former = `${path}.before-${new Date().toISOString().replace(/[:.]/g, '-')}`
  if (existsSync(`${path}-wal`)) await rename(`${path}-wal`, `${former}-wal`)
  await rm(`${path}-shm`, { force: true })
  await rename(path, former)
  return former
}

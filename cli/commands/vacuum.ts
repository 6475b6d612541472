import { existsSync, statSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { openDataDir } from '../../core/runtime/store/data-dir.ts'
import { RuntimeError } from '../../core/errors.ts'
import { type Command, UsageError } from '../command.ts'
import { loadEnvFileIfAny } from '../env-file.ts'
import { checkDatabase } from '../sqlite-file.ts'

/** Gives the free pages of the embedded database back to the disk. */
export const command: Command = {
  usage: 'vacuum',
  example: 'oracle-runtime vacuum',
  notes:
    'Stop the server first: a database that a server holds is not touched. The disk needs room for the database once\n' +
    'more. What an interrupted vacuum has begun, SQLite takes back.',
  async run() {
    const env = loadEnvFileIfAny()
    if (env.DATABASE_URL || env.DATABASE_URL_FILE)
      throw new UsageError('DATABASE_URL selects PostgreSQL, which vacuums by itself.')
    const directory = env.DATA_DIR || '.data'
    if (!existsSync(`${directory}/oracle.sqlite`))
      throw new RuntimeError('DATA_DIR_UNUSABLE', `There is no database in ${directory}.`, {
        hint: 'Set DATA_DIR to the folder of the server.',
      })
    const dataDir = await openDataDir(directory)
    const lock = await dataDir.lock({ pid: process.pid })
    try {
      const path = dataDir.file('oracle.sqlite')
      await checkDatabase(path)
      const [before, began] = [statSync(path).size, Date.now()]
      const database = new DatabaseSync(path)
      try {
        database.exec('vacuum; pragma wal_checkpoint(truncate)')
      } finally {
        database.close()
      }
      const seconds = ((Date.now() - began) / 1000).toFixed(1)
      console.log(`${path}: ${before} bytes before, ${statSync(path).size} now, in ${seconds} s`)
    } finally {
      await lock.release()
    }
  },
}

import { randomUUID } from 'node:crypto'
import { copyFileSync, existsSync, mkdirSync, readdirSync, statSync } from 'node:fs'
import { chmod, link, open, rm } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { RuntimeError } from '../../core/errors.ts'
import { type Command, UsageError } from '../command.ts'
import { loadEnvFileIfAny } from '../env-file.ts'
import { sync } from '../../core/runtime/variables/open-file.ts'
import { checkDatabase, sha256Of } from '../sqlite-file.ts'

/** What of DATA_DIR is no key: the database with its logs, the lock, files being written, and databases put aside. */
const noKey = /^(oracle\.sqlite|server\.|\.)/

/** Copies the embedded database into one whole file, beside the running server and without holding it up. */
export const command: Command = {
  usage: 'backup [file] [--keys]',
  example: 'oracle-runtime backup /var/backups/oracle.sqlite --keys',
  notes:
    'By default the file is oracle-<time>.sqlite in this folder. --keys also copies dev.env and what else lies in\n' +
    'DATA_DIR, into the folder <file>.keys. Without its ORACLE_MNEMONIC a backup is another oracle: keep that too.',
  options: { keys: { type: 'boolean' } },
  mostPositionals: 1,
  async run(words) {
    const env = loadEnvFileIfAny()
    if (env.DATABASE_URL || env.DATABASE_URL_FILE)
      throw new UsageError(
        'DATABASE_URL selects PostgreSQL, which pg_dump copies: see "Backups" in docs/operate.md.',
      )
    const dataDir = resolve(env.DATA_DIR || '.data')
    const source = join(dataDir, 'oracle.sqlite')
    if (!existsSync(source))
      throw new RuntimeError('DATA_DIR_UNUSABLE', `There is no database ${source}.`, {
        hint: 'Set DATA_DIR to the folder of the server.',
      })
    const time = new Date().toISOString().replace(/[:.]/g, '-')
    const target = resolve(words.positionals[0] ?? `oracle-${time}.sqlite`)
    await copy(source, target)
    console.log(`${target}: ${statSync(target).size} bytes, checked`)
    console.log(`sha256 ${await sha256Of(target)}`)
    if (words.has('keys')) console.log(`Keys: ${copyKeys(dataDir, `${target}.keys`)}`)
    else
      console.log('Keys are not in it: without the ORACLE_MNEMONIC the backup is another oracle.')
  },
}

/** The copy appears under its name when it is whole, checked and on the disk; nothing is ever written over. */
async function copy(source: string, target: string): Promise<void> {
  const folder = dirname(target)
  if (!existsSync(folder)) throw failed(target, `there is no folder ${folder}`)
  if (existsSync(target)) throw failed(target, 'the file exists already')
  const temporary = join(folder, `.${randomUUID()}.sqlite`)
  try {
    // SQLite would make the file readable to others; it takes an empty one that is there.
    await (await open(temporary, 'wx', 0o600)).close()
    await chmod(temporary, 0o600)
    const database = new DatabaseSync(source, { readOnly: true })
    database.exec('pragma busy_timeout = 5000')
    try {
      database.prepare('vacuum into ?').run(temporary)
    } finally {
      database.close()
    }
    await checkDatabase(temporary)
    await sync(temporary)
    await link(temporary, target)
    await sync(folder)
  } catch (error) {
    if (error instanceof RuntimeError) throw error
    throw failed(target, error instanceof Error ? error.message : String(error), error)
  } finally {
    for (const path of [temporary, `${temporary}-journal`]) await rm(path, { force: true })
  }
}

function copyKeys(dataDir: string, folder: string): string {
  mkdirSync(folder, { mode: 0o700 })
  const names = readdirSync(dataDir, { withFileTypes: true })
    .filter((entry) => entry.isFile() && !noKey.test(entry.name))
    .map(({ name }) => name)
  // A copy keeps the mode of its file, and DATA_DIR closes its files to others.
  for (const name of names) copyFileSync(join(dataDir, name), join(folder, name))
  return `${names.join(', ') || 'none'} in ${folder}`
}

const failed = (target: string, why: string, cause?: unknown) =>
  new RuntimeError('DATA_DIR_UNUSABLE', `The backup ${target} was not made: ${why}.`, {
    hint: 'Name a new file in a folder with room for it, on a disk that this user may write.',
    cause,
  })

import { accessSync, constants, existsSync, readFileSync, statSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { checkDatabase } from '../sqlite-file.ts'
import { fault, faultOf, type Finding, ok, reasonOf, warning } from './finding.ts'

/** A server with less room than this on its disk is about to stop. */
const leastFree = 256 * 1024 * 1024

/** Looks at the folder of the server, its database, its lock and the room on its disk. Changes nothing. */
export async function checkDataDir(directory: string): Promise<readonly Finding[]> {
  const path = resolve(directory)
  const folder = checkFolder(path)
  if (folder.state === 'fault') return [folder]
  const findings: Finding[] = [folder]
  const file = join(path, 'oracle.sqlite')
  const size = existsSync(file) ? statSync(file).size : 0
  if (size > 0) findings.push(await checkFile(file))
  findings.push(...checkLock(path), await checkRoom(path, size))
  return findings
}

function checkFolder(path: string): Finding {
  const remedy = 'Set DATA_DIR to a directory of its own that the user of the server owns.'
  try {
    const there = nearest(path)
    if (!statSync(there).isDirectory())
      return fault('DATA_DIR', `${there} is not a directory.`, remedy)
    accessSync(there, constants.R_OK | constants.W_OK | constants.X_OK)
    return ok('DATA_DIR', there === path ? path : `${path}, which the first start makes`)
  } catch (error) {
    return fault('DATA_DIR', `${path} cannot be used: ${reasonOf(error)}.`, remedy)
  }
}

/** The path itself, or the nearest folder above it that is there. */
function nearest(path: string): string {
  let there = path
  while (!existsSync(there) && dirname(there) !== there) there = dirname(there)
  return there
}

async function checkFile(file: string): Promise<Finding> {
  try {
    await checkDatabase(file)
    // What a running server has not brought into the file yet stands beside it.
    const bytes = [file, `${file}-wal`]
      .map((each) => statSync(each, { throwIfNoEntry: false })?.size ?? 0)
      .reduce((sum, size) => sum + size)
    return ok('database', `${file}, ${bytes} bytes, whole`)
  } catch (error) {
    return fault(
      'database',
      reasonOf(error).replace('is no backup', 'is no database'),
      'Bring back a backup: oracle-runtime restore <file>.',
    )
  }
}

/** Whether a server holds the folder: its lock is an open transaction, beside which nobody can read. */
function checkLock(path: string): readonly Finding[] {
  const file = join(path, 'server.lock')
  if (!existsSync(file)) return []
  try {
    const lock = new DatabaseSync(file, { readOnly: true })
    try {
      lock.prepare('select count(*) from sqlite_master').get()
    } finally {
      lock.close()
    }
    return []
  } catch {
    const who = holderOf(path)
    return [
      warning('lock', `${who} runs on ${path}.`, 'Stop that server before you start another one.'),
    ]
  }
}

function holderOf(path: string): string {
  try {
    const facts: unknown = JSON.parse(readFileSync(join(path, 'server.json'), 'utf8'))
    if (typeof facts === 'object' && facts !== null && 'pid' in facts)
      return `The server with pid ${String(facts.pid)}`
  } catch {
    // A server that has only just begun has not said who it is.
  }
  return 'A server'
}

async function checkRoom(path: string, size: number): Promise<Finding> {
  try {
    const { bavail, bsize } = await statfs(nearest(path))
    const free = bavail * bsize
    const said = `${Math.floor(free / 1024 / 1024)} MiB are free on the disk of ${path}`
    // A backup and a vacuum write the database once more.
    const least = Math.max(leastFree, size)
    if (free >= least) return ok('disk', said)
    return fault(
      'disk',
      `${said}, and ${Math.ceil(least / 1024 / 1024)} MiB are needed.`,
      'Make room, or move DATA_DIR to a larger disk.',
    )
  } catch (error) {
    return faultOf('disk', error)
  }
}

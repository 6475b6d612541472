import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { RuntimeError } from '../../errors.ts'
import { makeRoomOr } from './database-errors.ts'

/** Who holds a data directory. */
export interface Holder {
  readonly pid: number
  /** Where the holder's server answers, once it listens. */
  readonly address?: string
}

/** A data directory held by this process. */
export interface Lock {
  /** Adds facts about the holder, for the sentence that a second server prints. */
  describe(facts: Partial<Holder>): void
  release(): Promise<void>
  /** Lets go as the operating system does for a process that died: the facts about the process stay. */
  drop(): void
}

const sqliteBusy = 5

/** Keeps locked databases alive: a garbage-collected one would close, and its lock would be gone. */
const held = new Set<DatabaseSync>()

/**
 * Locks a directory by an open transaction on `server.lock`: the operating system drops the lock with the process,
 * however the process ends, so there is no stale lock to clean up. The facts about the holder stand beside the lock in
 * `server.json`.
 */
export function takeLock(path: string, holder: Holder): Lock {
  const facts = { ...holder, since: new Date().toISOString() }
  const database = new DatabaseSync(join(path, 'server.lock'))
  try {
    // Two processes that lock at the same moment get in each other's way: without a wait both could fail.
    database.exec('pragma busy_timeout = 250')
    database.exec('begin exclusive')
  } catch (error) {
    database.close()
    throw refusal(path, error)
  }
  held.add(database)
  const describe = (more: Partial<Holder>) => {
    if (held.has(database)) tell(path, Object.assign(facts, more))
  }
  describe({})
  return {
    describe,
    drop() {
      if (held.delete(database)) database.close()
    },
    async release() {
      if (!held.delete(database)) return
      // The facts go first: once the lock is free, the next holder writes facts of its own.
      rmSync(join(path, 'server.json'), { force: true })
      database.close()
    },
  }
}

/** Writes the facts at once and in one piece, so that the file names the former holder for as short a time as possible. */
function tell(path: string, facts: object): void {
  const temporary = join(path, '.server.json.tmp')
  writeFileSync(temporary, JSON.stringify(facts), { mode: 0o600 })
  renameSync(temporary, join(path, 'server.json'))
}

function refusal(path: string, error: unknown): unknown {
  if (!(error instanceof Error)) return error
  if (!('errcode' in error) || error.errcode !== sqliteBusy)
    return new RuntimeError(
      'DATA_DIR_UNUSABLE',
      `DATA_DIR ${path} cannot be locked: ${error.message}.`,
      {
        hint: makeRoomOr(
          error.message,
          'DATA_DIR must lie on a local disk, in a directory that the user of this process owns.',
        ),
        cause: error,
      },
    )
  const { pid, address, since } = factsOf(path)
  const who = pid === undefined ? 'another server' : `the server with pid ${pid}`
  return new RuntimeError(
    'DATA_DIR_IN_USE',
    `DATA_DIR ${path} is in use by ${who}${address ? ` at ${address}` : ''}${since ? `, running since ${since}` : ''}.`,
    {
      hint:
        `Stop it${pid === undefined ? '' : ` (kill ${pid})`}, or give this server a DATA_DIR of its own; ` +
        'several servers share a PostgreSQL (DATABASE_URL).',
      details: { pid, address, since },
    },
  )
}

/** The facts about the present holder; none while the holder has not written them yet. */
function factsOf(path: string): { pid?: number; address?: string; since?: string } {
  try {
    return JSON.parse(readFileSync(join(path, 'server.json'), 'utf8'))
  } catch {
    return {}
  }
}

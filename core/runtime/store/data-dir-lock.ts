import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { RuntimeError } from '../../errors.ts'

/** Who holds a data directory. */
export interface Holder {
  readonly pid: number
  /** Where it answers, once that is known. */
  readonly address?: string
}

/** A data directory held by this process. */
export interface Lock {
  /** Tells what became known since, for the sentence that a second server prints. */
  describe(facts: Partial<Holder>): void
  release(): Promise<void>
}

const sqliteBusy = 5

/** A garbage-collected database would close, and with it the lock would be gone. */
const held = new Set<DatabaseSync>()

/**
 * Locks a directory by an open transaction on `server.lock`: the operating system drops it with the
 * process, however that ends, so there is no stale lock to clean up. What the holder tells of itself
 * lies beside it in `server.json`.
 */
export function takeLock(path: string, holder: Holder): Lock {
  const facts = { ...holder, since: new Date().toISOString() }
  const database = new DatabaseSync(join(path, 'server.lock'))
  try {
    // Two that come at the same moment get in each other's way: without a wait both could fail.
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
    async release() {
      if (!held.delete(database)) return
      // First the facts: once the lock is free, the next holder writes its own.
      rmSync(join(path, 'server.json'), { force: true })
      database.close()
    },
  }
}

/** At once and in one piece, so that hardly a moment passes in which the facts are another's. */
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
        hint: 'It must lie on a local disk, in a directory that the user of this process owns.',
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

/** The holder may not have come to writing them yet. */
function factsOf(path: string): { pid?: number; address?: string; since?: string } {
  try {
    return JSON.parse(readFileSync(join(path, 'server.json'), 'utf8'))
  } catch {
    return {}
  }
}

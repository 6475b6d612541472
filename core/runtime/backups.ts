import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { accessSync, constants, statSync } from 'node:fs'
import { link, open, readdir, rm } from 'node:fs/promises'
import { basename, join, resolve } from 'node:path'
import type { Readable } from 'node:stream'
import { RuntimeError } from '../errors.ts'
import type { Log } from '../plugin.ts'
import type { Blueprint } from './blueprint.ts'
import { sync } from './variables/open-file.ts'

/** What backups are made from. */
export interface BackupsOptions {
  /** The embedded database. */
  readonly source: string
  readonly folder: string
  readonly everyMs: number
  /** How many files stay. */
  readonly keep: number
  readonly log: Log
}

/** How far back the newest copy is. */
export interface BackupState {
  /** Absent while there is no copy. */
  readonly at?: string
  readonly ageSeconds?: number
  /** Whether a copy has been missing for longer than it takes from one to the next. */
  readonly isOverdue: boolean
}

/** A copy that takes longer than this is given up. */
const mostMs = 3_600_000
/** The wait after a copy that failed, and before the first one after a start. */
const waits = { afterFaultMs: 600_000, firstMs: 1_000 }
/** A timer of Node holds no longer wait. */
const longestWaitMs = 2_000_000_000
const longestReason = 500
const dayMs = 86_400_000
/** The names of what is kept and of what is being written: nothing else of the folder is ever touched. */
const made = /^oracle-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z\.sqlite$/
const unfinished = /^\.oracle-[0-9a-f-]{36}\.sqlite(-journal)?$/

/** Copies the embedded database into a folder every so often, by a process of its own, and deletes the oldest copies. */
export class Backups {
  readonly #options: BackupsOptions
  readonly #closing = new AbortController()
  /** When the newest copy was made; undefined where there is none. */
  #newestAt: number | undefined
  readonly #openedAt = Date.now()
  #timer: NodeJS.Timeout | undefined
  #copying: Promise<void> | undefined

  private constructor(options: BackupsOptions) {
    this.#options = options
  }

  /** Goes on from the newest copy in the folder. Throws where the folder cannot take any. */
  static async open(options: BackupsOptions): Promise<Backups> {
    const backups = new Backups(options)
    const { folder } = options
    try {
      if (!statSync(folder).isDirectory()) throw new Error('it is no directory')
      accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK)
      const names = await readdir(folder)
      // A process that died left it: one server at a time has this database.
      for (const name of names.filter((one) => unfinished.test(one)))
        await rm(join(folder, name), { force: true })
      const [newest] = copiesIn(names)
      if (newest !== undefined) backups.#newestAt = timeOf(newest)
      const dueAt = newest === undefined ? 0 : timeOf(newest) + options.everyMs
      backups.#wait(Math.max(waits.firstMs, dueAt - Date.now()))
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause)
      throw new RuntimeError(
        'ENV_INVALID',
        `BACKUP_DIR is "${folder}", which is unusable: ${why}.`,
        {
          hint: 'Make this directory, give it to the user of the server, or unset BACKUP_DIR.',
          cause,
        },
      )
    }
    return backups
  }

  /** How old the newest copy is now. */
  get state(): BackupState {
    const now = Date.now()
    const at = this.#newestAt
    const isOverdue = now - (at ?? this.#openedAt) > 2 * this.#options.everyMs
    if (at === undefined) return { isOverdue }
    const ageSeconds = Math.max(0, Math.round((now - at) / 1000))
    return { at: new Date(at).toISOString(), ageSeconds, isOverdue }
  }

  /** Ends a copy that is under way; what there is of it is deleted. */
  async close(): Promise<void> {
    this.#closing.abort()
    clearTimeout(this.#timer)
    await this.#copying
  }

  #wait(ms: number): void {
    if (this.#closing.signal.aborted) return
    const step = Math.min(ms, longestWaitMs)
    const next = () => {
      if (step < ms) return this.#wait(ms - step)
      this.#copying = this.#turn()
    }
    this.#timer = setTimeout(next, step).unref()
  }

  async #turn(): Promise<void> {
    const { everyMs, log } = this.#options
    const began = Date.now()
    try {
      const file = await this.#copy()
      this.#newestAt = timeOf(basename(file))
      const { size: bytes } = statSync(file)
      log.info({ file, bytes, ms: Date.now() - began }, 'The database was copied')
      await this.#leave()
      this.#wait(everyMs)
    } catch (err) {
      if (this.#closing.signal.aborted) return
      log.error({ err }, 'The database was not copied')
      this.#wait(Math.min(everyMs, waits.afterFaultMs))
    }
  }

  /** The copy appears under its name when it is whole, checked and on the disk. */
  async #copy(): Promise<string> {
    const { source, folder } = this.#options
    const temporary = join(folder, `.oracle-${randomUUID()}.sqlite`)
    const target = join(folder, `oracle-${new Date().toISOString().replace(/[:.]/g, '-')}.sqlite`)
    try {
      // SQLite would make the file readable to others; it takes an empty one that is there.
      await (await open(temporary, 'wx', 0o600)).close()
      await copyAside([source, temporary], this.#closing.signal)
      for (const path of [temporary, folder]) {
        await sync(path)
        if (path === temporary) await link(temporary, target)
      }
      return target
    } finally {
      for (const path of [temporary, `${temporary}-journal`]) await rm(path, { force: true })
    }
  }

  /** Deletes all copies but the newest. */
  async #leave(): Promise<void> {
    const { folder, keep } = this.#options
    for (const name of copiesIn(await readdir(folder)).slice(keep))
      await rm(join(folder, name), { force: true })
  }
}

/** The backups of an app that asks for some. */
export async function openBackups({
  config,
  dataDir,
  log,
}: Pick<Blueprint, 'config' | 'dataDir' | 'log'>): Promise<Backups | undefined> {
  const { BACKUP_DIR: folder, BACKUP_EVERY: everyMs = dayMs, BACKUP_KEEP: keep } = config
  if (folder === undefined) return undefined
  if (config.DATABASE_URL !== undefined || !dataDir)
    throw new RuntimeError(
      'ENV_INVALID',
      'BACKUP_DIR is set, and there is no SQLite file to copy.',
      {
        hint: 'Unset BACKUP_DIR. A PostgreSQL is copied by pg_dump.',
      },
    )
  const source = dataDir.file('oracle.sqlite')
  return Backups.open({ source, folder: resolve(folder), everyMs, keep, log })
}

/** The copies among names, the newest first. */
const copiesIn = (names: readonly string[]): string[] =>
  names.filter((name) => made.test(name)).toSorted((one, other) => (one < other ? 1 : -1))

/** When a copy was made, by its name. */
function timeOf(name: string): number {
  const [day = '', time = ''] = name.slice('oracle-'.length, -'.sqlite'.length).split('T')
  return Date.parse(`${day}T${time.replace('-', ':').replace('-', ':').replace('-', '.')}`) || 0
}

/** Copies a database by a process of its own, whose work holds up no event loop. */
async function copyAside(paths: readonly [string, string], signal: AbortSignal): Promise<void> {
  const child = spawn(process.execPath, ['-e', `(${copyWhole.toString()})()`, ...paths], {
    env: { NODE_NO_WARNINGS: '1' },
    stdio: ['ignore', 'ignore', 'pipe'],
    signal: AbortSignal.any([signal, AbortSignal.timeout(mostMs)]),
    killSignal: 'SIGKILL',
  })
  const ended = new Promise<number | null>((done, fail) => {
    child.once('error', fail)
    child.once('close', done)
  })
  const [code, reason] = await Promise.all([ended, beginningOf(child.stderr)])
  if (code !== 0) throw new Error(`The copy ended with ${code}: ${reason}`)
}

/** The first words of a stream, which is read to its end. */
async function beginningOf(stream: Readable): Promise<string> {
  let text = ''
  for await (const part of stream) text = (text + String(part)).slice(0, longestReason)
  return text
}

/** The whole program of the process that copies. It gets the source text of this function, which uses nothing outside of it. */
function copyWhole(): void {
  const { DatabaseSync } = process.getBuiltinModule('node:sqlite')
  const [, source = '', target = ''] = process.argv
  try {
    const database = new DatabaseSync(source, { readOnly: true })
    database.exec('pragma busy_timeout = 5000')
    database.prepare('vacuum into ?').run(target)
    database.close()
    const copy = new DatabaseSync(target, { readOnly: true })
    const [row = {}] = copy.prepare('pragma integrity_check(1)').all()
    copy.close()
    if (String(Object.values(row)[0]) !== 'ok') throw new Error('the copy is damaged')
  } catch (error) {
    process.stderr.write(error instanceof Error ? error.message : String(error))
    process.exitCode = 1
  }
}

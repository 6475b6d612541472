import { createHash, randomUUID } from 'node:crypto'
import { type QueryExecutorProvider, sql } from 'kysely'
import { RuntimeError } from '../../errors.ts'
import type { Log, MessagePart } from '../../plugin.ts'
import type { Store } from '../store/store.ts'
import { noRoomFor } from './limits.ts'
import { type FileKind, partTypeOf } from './media-type.ts'

/** A file that is to be kept. */
export interface NewFile extends FileKind {
  readonly name: string
  readonly body: Uint8Array
}

/** What is known of a file that is kept. */
export interface KeptFile {
  readonly fileId: string
  readonly mediaType: string
  readonly name: string
  readonly bytes: number
  readonly sha256: string
}

interface FileRow {
  readonly id: string
  readonly media_type: string
  readonly name: string
  readonly bytes: number
  readonly sha256: string
}

/** What files are made of. */
export interface FilesOptions {
  readonly store: Pick<Store, 'db' | 'kind' | 'now'>
  readonly log: Log
  /** How many bytes all files of one user may have together. */
  readonly perUserBytes: number
  /** How many bytes this process keeps at hand: a turn asks its model several times with the same files. */
  readonly cacheBytes?: number
  /** How often files are looked for that nobody refers to. */
  readonly sweepMs?: number
}

/** A file that no session refers to goes after so long. */
const unusedMs = 24 * 3_600_000
/** How many files one statement of a sweep deletes. */
const filesPerSweep = 100
/** Any number will do, as long as every version of the runtime takes the same. */
const filesLock = 7031

/** A transaction of whoever owns its tables: the statements here are plain SQL. */
type Transaction = QueryExecutorProvider

const columns = sql`id, media_type, name, bytes, sha256`

/** The files of users: pictures, sounds and documents that stand in messages. Another user's files do not exist for a caller. */
export class Files {
  readonly #options: FilesOptions
  readonly #cache = new Map<string, Uint8Array>()
  readonly #sweeper: NodeJS.Timeout
  #cached = 0

  constructor(options: FilesOptions) {
    this.#options = options
    const { sweepMs = 600_000 } = options
    this.#sweeper = setInterval(() => void this.#sweep(), sweepMs).unref()
  }

  /** Ends the sweeps. */
  close(): void {
    clearInterval(this.#sweeper)
  }

  /**
   * Keeps files, all of them or none. Bytes that the owner has already are not kept twice. With a session, the session refers to
   * them from then on. Throws ATTACHMENT_TOO_LARGE where the owner has no room.
   */
  async keep(did: string, files: readonly NewFile[], sessionId?: string): Promise<KeptFile[]> {
    const { store } = this.#options
    return store.db.transaction().execute(async (trx) => {
      // Two uploads at once must not both find the last room.
      if (store.kind === 'postgres')
        await sql`select pg_advisory_xact_lock(${filesLock}::int, hashtext(${did}))`.execute(trx)
      const kept: KeptFile[] = []
      for (const file of files) kept.push(await this.#keepOne(trx, did, file))
      if (sessionId !== undefined)
        await this.use(
          trx,
          did,
          sessionId,
          kept.map(({ fileId }) => fileId),
        )
      return kept
    })
  }

  async #keepOne(trx: Transaction, did: string, file: NewFile): Promise<KeptFile> {
    const { store, perUserBytes } = this.#options
    const { body, mediaType, name } = file
    const sha256 = createHash('sha256').update(body).digest('hex')
    const known =
      await sql<FileRow>`update kernel_files set name = ${name}, touched_at = ${store.now}
      where did = ${did} and sha256 = ${sha256} returning ${columns}`.execute(trx)
    if (known.rows[0]) return toKept(known.rows[0])
    const { rows } = await sql<{ sum: number | string | null }>`select sum(bytes) as sum
      from kernel_files where did = ${did}`.execute(trx)
    if (Number(rows[0]?.sum ?? 0) + body.length > perUserBytes) throw noRoomFor(name, perUserBytes)
    const id = randomUUID()
    await sql`insert into kernel_files (id, did, sha256, media_type, name, bytes, touched_at, body)
      values (${id}, ${did}, ${sha256}, ${mediaType}, ${name}, ${body.length}, ${store.now},
        ${body})`.execute(trx)
    return { fileId: id, mediaType, name, bytes: body.length, sha256 }
  }

  /** What is known of files of this owner; those that are not kept are missing. None of them goes within a day from now. */
  async find(did: string, ids: readonly string[]): Promise<ReadonlyMap<string, KeptFile>> {
    if (ids.length === 0) return new Map()
    const { db, now } = this.#options.store
    const { rows } = await sql<FileRow>`update kernel_files set touched_at = ${now}
      where did = ${did} and id in (${sql.join(ids)}) returning ${columns}`.execute(db)
    return new Map(rows.map((row) => [row.id, toKept(row)]))
  }

  /** A file with its bytes, as its owner gets it; undefined where the owner has no such file. */
  async open(
    did: string,
    id: string,
  ): Promise<{ readonly file: KeptFile; readonly body: Uint8Array } | undefined> {
    const { rows } = await sql<FileRow & { readonly body: Uint8Array }>`select ${columns}, body
      from kernel_files where did = ${did} and id = ${id}`.execute(this.#options.store.db)
    const [row] = rows
    return row && { file: toKept(row), body: row.body }
  }

  /** The bytes of a file for a model, which asks for the same files in every step of a turn. */
  async read(did: string, id: string): Promise<Uint8Array | undefined> {
    const key = `${did} ${id}`
    const known = this.#cache.get(key)
    if (known) {
      this.#cache.delete(key)
      this.#cache.set(key, known)
      return known
    }
    const body = (await this.open(did, id))?.body
    if (body) this.#remember(key, body)
    return body
  }

  /** Forgets the bytes of a user's files that this process has at hand. */
  forget(did: string): void {
    for (const [key, { length }] of this.#cache) {
      if (!key.startsWith(`${did} `)) continue
      this.#cache.delete(key)
      this.#cached -= length
    }
  }

  #remember(key: string, body: Uint8Array): void {
    const { cacheBytes = 64 * 1024 * 1024 } = this.#options
    if (this.#cache.has(key)) return
    this.#cache.set(key, body)
    this.#cached += body.length
    for (const [oldest, { length }] of this.#cache) {
      if (this.#cached <= cacheBytes) return
      this.#cache.delete(oldest)
      this.#cached -= length
    }
  }

  /** Has a session refer to files, within a transaction of the session. Throws GONE where one is not kept any more. */
  async use(
    trx: Transaction,
    did: string,
    sessionId: string,
    ids: readonly string[],
  ): Promise<void> {
    await useFiles(this.#options.store, trx, { did, sessionId, ids })
  }

  /** Deletes the files that nobody refers to and nobody asked for within a day. Resolves to how many these were. */
  async sweep(): Promise<number> {
    const { db, now } = this.#options.store
    // The session of a result may have been deleted while its file was being kept.
    await sql`delete from kernel_file_uses where not exists
      (select 1 from kernel_sessions where kernel_sessions.id = kernel_file_uses.session_id)`.execute(
      db,
    )
    for (let swept = 0; ;) {
      const { rows } = await sql`delete from kernel_files where touched_at < ${now} - ${unusedMs}
        and id in (select id from kernel_files as old where old.touched_at < ${now} - ${unusedMs}
          and not exists (select 1 from kernel_file_uses where file_id = old.id)
          limit ${sql.lit(filesPerSweep)}) returning id`.execute(db)
      swept += rows.length
      if (rows.length < filesPerSweep) return swept
    }
  }

  async #sweep(): Promise<void> {
    const { log } = this.#options
    try {
      const swept = await this.sweep()
      if (swept > 0) log.info({ files: swept }, 'Files that nobody refers to were deleted')
    } catch (err) {
      log.warn({ err }, 'Unused files could not be looked for; trying again')
    }
  }
}

/** Which session refers to which files. */
interface FileUse {
  readonly did: string
  readonly sessionId: string
  readonly ids: readonly string[]
}

/** Has a session refer to files of its user. The rows of the files are locked until the transaction ends, so none of them goes. */
export async function useFiles(
  { now }: Pick<Store, 'now'>,
  trx: Transaction,
  { did, sessionId, ids }: FileUse,
): Promise<void> {
  const asked = [...new Set(ids)]
  if (asked.length === 0) return
  const { rows } = await sql<{ id: string }>`update kernel_files set touched_at = ${now}
    where did = ${did} and id in (${sql.join(asked)}) returning id`.execute(trx)
  const found = new Set(rows.map(({ id }) => id))
  const missing = asked.find((id) => !found.has(id))
  if (missing !== undefined)
    throw new RuntimeError('GONE', `The file "${missing}" is not kept any more.`, {
      hint: 'Send it again with POST /files.',
    })
  for (const id of asked)
    await sql`insert into kernel_file_uses (session_id, file_id) values (${sessionId}, ${id})
      on conflict (session_id, file_id) do nothing`.execute(trx)
}

/** Takes a session's uses back, in the transaction that deletes the session. Files without any other use go. */
export async function forgetFilesOf(
  kind: Store['kind'],
  trx: Transaction,
  sessionId: string,
): Promise<void> {
  const { rows } = await sql<{ file_id: string }>`delete from kernel_file_uses
    where session_id = ${sessionId} returning file_id`.execute(trx)
  // A message of another session may be taking one of the files into use: the statement after the lock sees that use.
  for (let i = 0; i < rows.length; i += filesPerSweep) {
    const ids = sql.join(rows.slice(i, i + filesPerSweep).map(({ file_id }) => file_id))
    if (kind === 'postgres')
      await sql`select id from kernel_files where id in (${ids}) order by id for update`.execute(
        trx,
      )
    await sql`delete from kernel_files where id in (${ids}) and not exists
      (select 1 from kernel_file_uses where file_id = kernel_files.id)`.execute(trx)
  }
}

/** A file as it stands in a message, which may call it by another name. */
export const asPart = (
  { fileId, mediaType, bytes, name }: Omit<KeptFile, 'sha256'>,
  ownName = name,
): MessagePart => ({
  type: partTypeOf(mediaType),
  mediaType,
  name: ownName,
  bytes,
  file: fileId,
})

const toKept = ({ id, media_type, name, bytes, sha256 }: FileRow): KeptFile => ({
  fileId: id,
  mediaType: media_type,
  name,
  bytes,
  sha256,
})

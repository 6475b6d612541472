import { sql } from 'kysely'
import { type Database, type Log, type OfferedModels, type RunBeginning, RuntimeError } from '#core'
import type { MemoryEnv } from './environment.ts'
import type { Noticing, Reading } from './keeping/noticing.ts'
import { eraseAll, forgetPassages } from './kept/erasing.ts'
import { Memories } from './kept/memories.ts'
import type { Kept, Memory, NewMemory, Said, Settings } from './kept/memory.ts'
import { Passages } from './kept/passages.ts'
import { type Standing, type StandingAtEnd, Standings } from './kept/standings.ts'
import { Vault } from './kept/vault.ts'
import { countWrite } from './kept/writes.ts'
import { type MemoryDatabase, type Mode, withMemoryTables } from './tables.ts'
import { Times } from './using/times.ts'
import type { Index } from './using/ranking.ts'
import { UsedNotes } from './using/used.ts'
import type { Using } from './using/using.ts'

/** What memory is made of. */
export interface RememberingOptions {
  readonly env: MemoryEnv
  readonly db: Database
  readonly log: Log
  now(): Date
}

/** A turn as the end of a run tells of it. */
export interface HeardTurn {
  readonly runId: string
  readonly sessionId: string
  readonly did: string
  readonly at: number
  readonly words: string
  readonly reply: string
}

/** Where a turn stands: whose it is, and where it is said. */
export interface Where {
  readonly did: string
  readonly sessionId: string
  readonly room: string
  readonly shared: boolean
}

/** Where a turn stands. */
export const whereOf = ({
  user,
  session,
  room,
  shared,
}: {
  readonly user: { readonly did: string }
  readonly session: { readonly id: string }
  readonly room: string
  readonly shared: boolean
}): Where => ({ did: user.did, sessionId: session.id, room, shared })

/** What went, and the sessions that still hold the words. */
export interface Erased {
  readonly gone: readonly Memory[]
  readonly sessions: readonly string[]
}

/** What a prompt is made for. */
export interface Asked {
  readonly requestId: string
  readonly question: string
  readonly models: OfferedModels
  readonly signal: AbortSignal
  /** Told when memories of an owner lack a vector of a model. */
  lack(owner: string, model: string, version: number): Promise<unknown>
}

const dayMs = 86_400_000
/** The attempts that a reading of a session has. */
export const mostAttempts = 4

/** Who owns what is remembered in a turn: the person, or the room where others read along. */
export const ownerOf = ({ did, room, shared }: Where): string => (shared ? `room:${room}` : did)

/** What the oracle remembers: the one place where the parts of memory meet. */
export class Remembering {
  readonly env: MemoryEnv
  readonly log: Log
  readonly memories: Memories
  readonly vault: Vault
  readonly passages: Passages
  readonly standings: Standings
  readonly notes: UsedNotes
  /** How long prompts and readings took in this process. */
  readonly times = { prompts: new Times(), readings: new Times() }
  readonly #db: MemoryDatabase
  readonly #now: () => Date
  // A server that starts needs neither: they come with the first turn.
  #noticing: Promise<Noticing> | undefined
  #using: Using | undefined

  private constructor({ env, db, log, now }: RememberingOptions) {
    this.env = env
    this.log = log
    this.#db = withMemoryTables(db)
    this.#now = () => now()
    this.vault = new Vault(env.MEMORY_KEY, env.MEMORY_KEY_PREVIOUS)
    this.passages = new Passages(this.#db)
    this.standings = new Standings(this.#db, env.MEMORY_MODE, this.passages.isPostgres)
    this.notes = new UsedNotes(this.#db, this.passages.isPostgres)
    this.memories = new Memories(this.vault, env.MEMORY_MAX, this.passages)
  }

  /** Opens the memory. Throws where it was sealed with another key. */
  static async open(options: RememberingOptions): Promise<Remembering> {
    const remembering = new Remembering(options)
    // Deleted words are overwritten in the file; without this they stay there until something else takes their place.
    if (!remembering.passages.isPostgres) {
      await sql`pragma secure_delete = on`.execute(remembering.#db)
      // A process that died between an erasing and this left what was erased in the log.
      await remembering.wipe()
    }
    await remembering.vault.open(remembering.#db)
    if (options.env.MEMORY_KEY !== undefined && options.env.MEMORY_PASSAGES === 'on')
      options.log.info(
        'With MEMORY_KEY what was said in conversations cannot be found again: recall finds memories alone.',
      )
    return remembering
  }

  /** Whether what was said can be found again by its words. */
  get findsPassages(): boolean {
    return this.env.MEMORY_PASSAGES === 'on' && !this.vault.seals
  }

  get now(): number {
    return this.#now().getTime()
  }

  /** Does work in a transaction in which nobody else changes the memories of the owner. */
  async alone<T>(did: string, work: (trx: MemoryDatabase) => Promise<T>): Promise<T> {
    const done = await this.#db.transaction().execute(async (trx) => {
      await this.memories.lock(trx, did)
      return work(trx)
    })
    this.#using?.forget(did)
    this.standings.forget(did)
    return done
  }

  /** Erases all that an owner has, settings too where `withSettings`. Resolves to how many memories went. */
  async eraseAll(did: string, withSettings: boolean): Promise<number> {
    const { passages, now: at } = this
    const erased = await this.alone(did, (trx) =>
      eraseAll(trx, did, { passages, at, withSettings }),
    )
    await this.wipe()
    return erased
  }

  /** Erases memories of an owner for good. Resolves to what went, with the sessions in which it was said. */
  async erase(did: string, ids: readonly string[]): Promise<Erased> {
    const { sources, gone } = await this.alone(did, async (trx) => ({
      sources: await this.memories.sourcesOf(trx, did),
      gone: await this.memories.erase(trx, did, ids, this.now),
    }))
    if (gone.length > 0) await this.wipe()
    const said = gone.flatMap(({ id }) => sources.get(id) ?? [])
    const sessions = new Set(said.map(({ sessionId }) => sessionId).filter((id) => id !== ''))
    return { gone, sessions: [...sessions] }
  }

  /** Takes what was deleted out of the log of SQLite, too. PostgreSQL frees the bytes at its next VACUUM. */
  async wipe(): Promise<void> {
    if (!this.passages.isPostgres) await sql`pragma wal_checkpoint(truncate)`.execute(this.#db)
  }

  /** The database without a transaction. */
  get db(): MemoryDatabase {
    return this.#db
  }

  /** What a person has chosen. */
  settingsOf(did: string, db = this.#db): Promise<Settings> {
    return this.memories.settingsOf(db, did, this.env.MEMORY_MODE)
  }

  /** Whether anything is kept of a person: where memory is on for everybody, words are kept before the person has a row. */
  async isKnown(did: string, db = this.#db): Promise<boolean> {
    const row = await db
      .selectFrom('memory_people')
      .select('did')
      .where('did', '=', did)
      .unionAll(db.selectFrom('memory_passages').select('did').where('did', '=', did))
      .limit(1)
      .executeTakeFirst()
    return row !== undefined
  }

  /** Chooses for a person. Nothing is erased. */
  async choose(
    did: string,
    chosen: { readonly mode?: Mode; readonly sensitive?: 'ask' | 'never' },
  ): Promise<Settings> {
    return this.alone(did, async (trx) => {
      if (chosen.mode ?? chosen.sensitive)
        await trx.updateTable('memory_people').set(chosen).where('did', '=', did).execute()
      // What was said while it was wanted is not read once it is not.
      if (chosen.mode === 'off' || chosen.mode === 'paused')
        await trx
          .updateTable('memory_passages')
          .set((eb) => ({
            read_at: this.now,
            reply: '',
            words: eb.case().when('findable', '=', 1).then(eb.ref('words')).else('').end(),
          }))
          .where('did', '=', did)
          .where('read_at', 'is', null)
          .execute()
      return this.settingsOf(did, trx)
    })
  }

  /** Counts a write of a person; throws RATE_LIMITED past the limit. */
  countWrite = (did: string): Promise<void> => countWrite(this.#db, did, this.now)

  /** Whether the person keeps a session out of memory. */
  async isIncognito(did: string, sessionId: string, db = this.#db): Promise<boolean> {
    const row = await db
      .selectFrom('memory_sessions')
      .select('incognito')
      .where('did', '=', did)
      .where('session_id', '=', sessionId)
      .executeTakeFirst()
    return row?.incognito === 1
  }

  /** Keeps a session out of memory, or lets it in again. What waits to be read is forgotten. */
  async setIncognito(did: string, sessionId: string, incognito: boolean): Promise<void> {
    const value = incognito ? 1 : 0
    await this.alone(did, async (trx) => {
      await trx
        .insertInto('memory_sessions')
        .values({ session_id: sessionId, did, incognito: value })
        .onConflict((conflict) =>
          conflict.columns(['did', 'session_id']).doUpdateSet({ incognito: value }),
        )
        .execute()
      if (incognito) await forgetPassages(trx, this.passages, did, sessionId)
    })
  }

  /** How a turn may use memory, and which version of its owner's memories stands. */
  standing(where: Where, db = this.#db): Promise<Standing> {
    return this.standings.now({ ...where, owner: ownerOf(where) }, db)
  }

  /** How a turn may use memory: as it began, or as things stand now where nobody read that then, or it was read before. */
  async standingOf(part: 'prompt' | 'tools', where: Where, requestId: string): Promise<Standing> {
    const known = where.shared ? undefined : this.standings.taken(part, { ...where, requestId })
    return known ?? this.standing(where)
  }

  /** Whether memory has to do with a turn that begins: whether it may be shown something, or its words may be kept. */
  async begins(
    trx: MemoryDatabase,
    { user, sessionId, requestId }: RunBeginning,
  ): Promise<boolean> {
    const { mode } = await this.standings.begins(trx, { did: user.did, sessionId, requestId })
    return mode === 'on' || mode === 'paused'
  }

  /** How a turn may use memory: the mode, or `incognito` in such a session. */
  async modeIn(where: Where): Promise<Mode | 'incognito'> {
    return (await this.standing(where)).mode
  }

  /** The lines of a turn's prompt, and notes which memories it was shown. */
  async prompt(where: Where, asked: Asked): Promise<string | undefined> {
    const began = performance.now()
    const standing = await this.standingOf('prompt', where, asked.requestId)
    if (standing.mode !== 'on' && standing.mode !== 'paused') return undefined
    const block = await (await this.#used()).prompt(where, standing, asked)
    if (block !== undefined) this.times.prompts.add(performance.now() - began)
    return block
  }

  /** The index of an owner's memories. */
  async indexOf(did: string, version?: number): Promise<Index> {
    const stands = version ?? (await this.settingsOf(did)).version
    return (await this.#used()).indexOf(did, stands)
  }

  /** Makes the vectors that a model has not made yet of the memories of an owner. */
  async makeVectors(
    did: string,
    model: string,
    by: { models: OfferedModels; signal: AbortSignal },
  ): Promise<void> {
    await (await this.#used()).makeVectors(did, model, by)
  }

  async #used(): Promise<Using> {
    if (this.#using) return this.#using
    const { Using } = await import('./using/using.ts')
    return (this.#using ??= new Using(this))
  }

  #reader(): Promise<Noticing> {
    this.#noticing ??= import('./keeping/noticing.ts').then(({ Noticing }) => new Noticing(this))
    return this.#noticing
  }

  /** How things stand for a turn that has ended; notes by which run memories were used. */
  async ends(
    trx: MemoryDatabase,
    turn: Pick<HeardTurn, 'runId' | 'sessionId' | 'did' | 'at'>,
  ): Promise<StandingAtEnd> {
    // SQLite does one thing after the other: there the note was written before this transaction began.
    if (this.passages.isPostgres) await this.#using?.noted(turn.sessionId)
    const standing = await this.standings.atEnd(trx, turn)
    if (standing.wasShown) await this.notes.used(trx, turn)
    return standing
  }

  /** Takes a turn in that has ended, within the transaction that tells of it; false where nothing of it is to be read. */
  async hear(trx: MemoryDatabase, turn: HeardTurn, standing?: StandingAtEnd): Promise<boolean> {
    const stands = standing ?? (await this.standings.atEnd(trx, turn))
    return (await this.#reader()).hear(trx, turn, stands)
  }

  /** How many turns of a session have yet to be read. */
  async unread(sessionId: string, db = this.#db): Promise<number> {
    return (await this.#reader()).unread(sessionId, db)
  }

  /** Reads the turns of a session that nobody has read, once it is quiet or has enough of them. Each is read once. */
  async notice(did: string, sessionId: string, asked: Reading): Promise<void> {
    await (await this.#reader()).notice(did, sessionId, asked)
  }

  /** Keeps what a person asked for, or wrote by hand. Throws MEMORY_REFUSED with the reason. */
  async remember(
    did: string,
    given: NewMemory,
    said: Said,
    sensitive: 'ask' | 'never',
  ): Promise<Kept> {
    const [{ refusalOfGiven }, { refused }] = await Promise.all([
      import('./keeping/checks.ts'),
      import('./keeping/refusals.ts'),
    ])
    const refusal = refusalOfGiven({ ...given, quote: said.quote }, sensitive)
    if (refusal) await this.count(`refused:${refusal}`)
    if (refusal) throw refused(refusal)
    const kept = await this.alone(did, (trx) => this.memories.keep(trx, did, given, said, this.now))
    if (kept.outcome === 'full')
      throw new RuntimeError(
        'MEMORY_FULL',
        `${this.env.MEMORY_MAX} memories are kept, and none of them may go.`,
        {
          status: 409,
          hint: 'Erase some of them, or unpin some.',
        },
      )
    return kept
  }

  /** Counts something that was done or refused; no words. */
  async count(what: string, db = this.#db): Promise<void> {
    const day = Math.floor(this.now / dayMs)
    await sql`insert into memory_counts (day, what, count) values (${day}, ${what}, 1)
      on conflict (day, what) do update set count = memory_counts.count + 1`.execute(db)
  }

  /** Seals with the key of now what it has not sealed. Resolves to how many rows. */
  async reseal(): Promise<number> {
    const { reseal } = await import('./kept/resealing.ts')
    const count = await reseal(this.#db, this.vault, this.passages)
    if (count > 0) await this.wipe()
    return count
  }

  /** Lets old rows go: what turns were shown, turns that were read, counts of long ago. */
  async sweep(): Promise<void> {
    const { sweep } = await import('./kept/sweeping.ts')
    await sweep(this.#db, this.now)
  }
}

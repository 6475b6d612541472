import { sql } from 'kysely'
import { type Database, type Log, type OfferedModels, RuntimeError } from '#core'
import type { MemoryEnv } from './environment.ts'
import { refusalOfGiven } from './keeping/checks.ts'
import { Noticing, type Reading } from './keeping/noticing.ts'
import { refused } from './keeping/refusals.ts'
import { eraseAll, forgetPassages } from './kept/erasing.ts'
import { Memories } from './kept/memories.ts'
import type { Kept, Memory, NewMemory, Said, Settings } from './kept/memory.ts'
import { Passages } from './kept/passages.ts'
import { reseal } from './kept/resealing.ts'
import { Vault } from './kept/vault.ts'
import { countWrite, writes } from './kept/writes.ts'
import { type MemoryDatabase, type Mode, withMemoryTables } from './tables.ts'
import { blockOf } from './using/lines.ts'
import { Indexes } from './using/ranking.ts'
import { Times } from './using/times.ts'
import { askedVector, makeVectors, vectorsOf, written } from './using/vectors.ts'

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
const usedDays = 30
/** The attempts that a reading of a session has. */
export const mostAttempts = 4

/** Who owns what is remembered in a turn: the person, or the room where others read along. */
export const ownerOf = ({ did, room, shared }: Where): string => (shared ? `room:${room}` : did)

/** What the oracle remembers: the one place where the parts of memory meet. */
export class Remembering {
  readonly env: MemoryEnv
  readonly memories: Memories
  readonly vault: Vault
  readonly passages: Passages
  /** How long prompts and readings took in this process. */
  readonly times = { prompts: new Times(), readings: new Times() }
  readonly #db: MemoryDatabase
  readonly #noticing: Noticing
  readonly #now: () => Date
  readonly #indexes = new Indexes()

  private constructor({ env, db, now }: RememberingOptions) {
    this.env = env
    this.#db = withMemoryTables(db)
    this.#now = () => now()
    this.vault = new Vault(env.MEMORY_KEY, env.MEMORY_KEY_PREVIOUS)
    this.passages = new Passages(this.#db)
    this.memories = new Memories(this.vault, env.MEMORY_MAX, this.passages)
    this.#noticing = new Noticing(this)
  }

  /** Opens the memory. Throws where it was sealed with another key. */
  static async open(options: RememberingOptions): Promise<Remembering> {
    const remembering = new Remembering(options)
    // Deleted words are overwritten in the file; without this they stay there until something else takes their place.
    if (!remembering.passages.isPostgres)
      await sql`pragma secure_delete = on`.execute(remembering.#db)
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
    this.#indexes.forget(did)
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

  /** Whether memory has ever had to do with a person. */
  async isKnown(did: string, db = this.#db): Promise<boolean> {
    const row = await db
      .selectFrom('memory_people')
      .select('did')
      .where('did', '=', did)
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

  /** How a turn may use memory: the mode, or `off` in an incognito session. */
  async modeIn(where: Where): Promise<Mode | 'incognito'> {
    if (await this.isIncognito(where.did, where.sessionId)) return 'incognito'
    return where.shared ? 'on' : (await this.settingsOf(where.did)).mode
  }

  /** The lines of a turn's prompt, and notes which memories it was shown. */
  async prompt(where: Where, asked: Asked): Promise<string | undefined> {
    const mode = await this.modeIn(where)
    if (mode !== 'on' && mode !== 'paused') return undefined
    const began = performance.now()
    const owner = ownerOf(where)
    const index = await this.indexOf(owner)
    if (index.memories.length === 0) return undefined
    const at = this.now
    const vector = await askedVector(asked.models, asked.question, asked.signal)
    if (vector && index.lacking(vector.model).length > 0)
      await asked.lack(owner, vector.model, index.version)
    const { MEMORY_PROMPT_TOKENS: tokens, MEMORY_PROMPT_COUNT: count } = this.env
    const found = index.find(asked.question, at, false, vector)
    const block = blockOf([...index.standing(at), ...found], {
      tokens,
      count,
      isRoom: where.shared,
    })
    if (block) await this.#noteShown(where, asked.requestId, block.shown, at)
    this.times.prompts.add(performance.now() - began)
    return block?.text
  }

  async #noteShown(
    { did, sessionId }: Where,
    requestId: string,
    shown: readonly Memory[],
    at: number,
  ): Promise<void> {
    const ids = JSON.stringify(shown.map(({ id }) => id))
    await this.#db
      .insertInto('memory_used')
      .values({ session_id: sessionId, request_id: requestId, did, run_id: null, ids, at })
      .onConflict((conflict) =>
        conflict.columns(['session_id', 'request_id']).doUpdateSet({ ids, at }),
      )
      .execute()
  }

  /** The index of an owner's memories. */
  async indexOf(did: string) {
    const { version } = await this.settingsOf(did)
    return this.#indexes.of(did, version, async () => ({
      memories: await this.memories.all(this.#db, did),
      vectors: await vectorsOf(this.#db, this.vault, did),
    }))
  }

  /** Makes the vectors that a model has not made yet of the memories of an owner. */
  async makeVectors(
    did: string,
    model: string,
    { models, signal }: { models: OfferedModels; signal: AbortSignal },
  ): Promise<void> {
    const lacking = (await this.indexOf(did)).lacking(model)
    await makeVectors(models, lacking, signal, (made) =>
      this.alone(did, async (trx) => {
        const all = new Map((await this.memories.all(trx, did)).map((one) => [one.id, one.text]))
        for (const [{ id, text }, vector] of made) {
          // What was erased or corrected meanwhile has no use for this vector.
          if (all.get(id) !== text) continue
          const row = { model: vector.model, vector: this.vault.write(written(vector), id, did) }
          await trx
            .insertInto('memory_vectors')
            .values({ memory_id: id, did, ...row })
            .onConflict((conflict) => conflict.column('memory_id').doUpdateSet(row))
            .execute()
        }
      }),
    )
  }

  /** Takes a turn in that has ended, within the transaction that tells of it; false where nothing of it is to be read. */
  hear(trx: MemoryDatabase, turn: HeardTurn): Promise<boolean> {
    return this.#noticing.hear(trx, turn)
  }

  /** How many turns of a session have yet to be read. */
  unread(sessionId: string, db = this.#db): Promise<number> {
    return this.#noticing.unread(sessionId, db)
  }

  /** Reads the turns of a session that nobody has read, once it is quiet or has enough of them. Each is read once. */
  notice(did: string, sessionId: string, asked: Reading): Promise<void> {
    return this.#noticing.notice(did, sessionId, asked)
  }

  /** Keeps what a person asked for, or wrote by hand. Throws MEMORY_REFUSED with the reason. */
  async remember(
    did: string,
    given: NewMemory,
    said: Said,
    sensitive: 'ask' | 'never',
  ): Promise<Kept> {
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
    const count = await reseal(this.#db, this.vault, this.passages)
    if (count > 0) await this.wipe()
    return count
  }

  /** Lets old rows go: what turns were shown, turns that were read, counts of long ago. */
  async sweep(): Promise<void> {
    const before = this.now - usedDays * dayMs
    await this.#db.deleteFrom('memory_used').where('at', '<', before).execute()
    // What stays findable goes with its session.
    await this.#db
      .deleteFrom('memory_passages')
      .where('read_at', '<', this.now - dayMs)
      .where('findable', '=', 0)
      .execute()
    await this.#db
      .deleteFrom('memory_passages')
      .where('at', '<', before)
      .where('findable', '=', 0)
      .execute()
    await this.#db
      .deleteFrom('memory_counts')
      .where('day', '<', Math.floor(before / dayMs))
      .execute()
    for (const table of ['memory_erased', 'memory_denied'] as const)
      await this.#db
        .deleteFrom(table)
        .where('at', '<', this.now - 365 * dayMs)
        .execute()
    await this.#db
      .deleteFrom('memory_writes')
      .where('at', '<', this.now - writes.perMs)
      .execute()
  }
}

import { sql } from 'kysely'
import { type AskableModel, type Database, type Log, RuntimeError } from '#core'
import type { MemoryEnv } from './environment.ts'
import { proposalsIn } from './keeping/rules.ts'
import { askModel, type Numbered } from './keeping/model.ts'
import { refusalOf, refusalOfGiven } from './keeping/checks.ts'
import { refused } from './keeping/refusals.ts'
import { Memories } from './kept/memories.ts'
import type { Kept, NewMemory, Said, Settings } from './kept/memory.ts'
import { Vault } from './kept/vault.ts'
import { countWrite, writes } from './kept/writes.ts'
import { type MemoryDatabase, type Mode, withMemoryTables } from './tables.ts'
import { blockOf } from './using/lines.ts'
import { Indexes } from './using/ranking.ts'

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

const mostCharacters = 4_000
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
  readonly #db: MemoryDatabase
  readonly #now: () => Date
  readonly #indexes = new Indexes()

  private constructor({ env, db, now }: RememberingOptions) {
    this.env = env
    this.#db = withMemoryTables(db)
    this.#now = () => now()
    this.vault = new Vault(env.MEMORY_KEY, env.MEMORY_KEY_PREVIOUS)
    this.memories = new Memories(this.vault, env.MEMORY_MAX)
  }

  /** Opens the memory. Throws where it was sealed with another key. */
  static async open(options: RememberingOptions): Promise<Remembering> {
    const remembering = new Remembering(options)
    await remembering.vault.open(remembering.#db)
    return remembering
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

  /** The database without a transaction. */
  get db(): MemoryDatabase {
    return this.#db
  }

  /** What a person has chosen. */
  settingsOf(did: string, db = this.#db): Promise<Settings> {
    return this.memories.settingsOf(db, did, this.env.MEMORY_MODE)
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
        await trx.deleteFrom('memory_passages').where('did', '=', did).execute()
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
      if (incognito)
        await trx
          .deleteFrom('memory_passages')
          .where('did', '=', did)
          .where('session_id', '=', sessionId)
          .execute()
    })
  }

  /** How a turn may use memory: the mode, or `off` in an incognito session. */
  async modeIn(where: Where): Promise<Mode | 'incognito'> {
    if (await this.isIncognito(where.did, where.sessionId)) return 'incognito'
    return where.shared ? 'on' : (await this.settingsOf(where.did)).mode
  }

  /** The lines of a turn's prompt, and notes which memories it was shown. */
  async prompt(where: Where, requestId: string, question: string): Promise<string | undefined> {
    const mode = await this.modeIn(where)
    if (mode !== 'on' && mode !== 'paused') return undefined
    const index = await this.indexOf(ownerOf(where))
    const at = this.now
    const { MEMORY_PROMPT_TOKENS: tokens, MEMORY_PROMPT_COUNT: count } = this.env
    const block = blockOf([...index.standing(at), ...index.find(question, at)], {
      tokens,
      count,
      isRoom: where.shared,
    })
    if (!block) return undefined
    const ids = JSON.stringify(block.shown.map(({ id }) => id))
    await this.#db
      .insertInto('memory_used')
      .values({
        session_id: where.sessionId,
        request_id: requestId,
        did: where.did,
        run_id: null,
        ids,
        at,
      })
      .onConflict((conflict) =>
        conflict.columns(['session_id', 'request_id']).doUpdateSet({ ids, at }),
      )
      .execute()
    return block.text
  }

  /** The index of an owner's memories. */
  async indexOf(did: string) {
    const { version } = await this.settingsOf(did)
    return this.#indexes.of(did, version, () => this.memories.all(this.#db, did))
  }

  /** Takes a turn in that has ended, within the transaction that tells of it; false where nothing of it is to be read. */
  async hear(trx: MemoryDatabase, turn: HeardTurn): Promise<boolean> {
    const { runId, sessionId, did, at } = turn
    await trx
      .updateTable('memory_used')
      .set({ run_id: runId })
      .where('session_id', '=', sessionId)
      .where('did', '=', did)
      .where('run_id', 'is', null)
      .execute()
    const { mode } = await this.settingsOf(did, trx)
    if (mode !== 'on' || turn.words.trim() === '' || (await this.isIncognito(did, sessionId, trx)))
      return false
    const sealed = (text: string) =>
      this.vault.write(text.slice(0, mostCharacters).toWellFormed(), runId, did)
    await trx
      .insertInto('memory_passages')
      .values({
        run_id: runId,
        session_id: sessionId,
        did,
        at,
        words: sealed(turn.words),
        reply: sealed(turn.reply),
        read_at: null,
      })
      .onConflict((conflict) => conflict.doNothing())
      .execute()
    return true
  }

  /** How many turns of a session have yet to be read. */
  async unread(sessionId: string, db = this.#db): Promise<number> {
    const { count } = await db
      .selectFrom('memory_passages')
      .select((eb) => eb.fn.countAll<number>().as('count'))
      .where('session_id', '=', sessionId)
      .where('read_at', 'is', null)
      .executeTakeFirstOrThrow()
    return Number(count)
  }

  /** Reads the turns of a session that nobody has read, once it is quiet or has enough of them. Each is read once. */
  async notice(
    did: string,
    sessionId: string,
    asked: { model?: AskableModel; signal: AbortSignal; isLast: boolean },
  ): Promise<void> {
    const turns = await this.#unreadTurns(did, sessionId)
    const newest = turns.at(-1)
    if (!newest) return
    const quietFor = this.now - newest.at
    const isQuiet = quietFor >= this.env.MEMORY_AFTER_SECONDS * 1_000 || quietFor < -dayMs
    // A later turn has asked for a job of its own, which reads these turns too.
    if (!isQuiet && turns.length < this.env.MEMORY_AFTER_TURNS) return
    let proposals: readonly Numbered[] = []
    try {
      proposals = await this.#propose(did, turns, asked)
    } catch (error) {
      if (!asked.isLast) throw error
      await this.count('dropped')
    }
    await this.alone(did, async (trx) => {
      const { mode } = await this.settingsOf(did, trx)
      const mine = await this.#takeUnread(
        trx,
        turns.map(({ runId }) => runId),
      )
      if (mode !== 'on') return
      for (const proposal of proposals) await this.#keepProposal(trx, did, proposal, turns, mine)
    })
  }

  async #unreadTurns(did: string, sessionId: string): Promise<HeardTurn[]> {
    const rows = await this.#db
      .selectFrom('memory_passages')
      .selectAll()
      .where('session_id', '=', sessionId)
      .where('did', '=', did)
      .where('read_at', 'is', null)
      .orderBy('at')
      .limit(50)
      .execute()
    return rows.map(({ run_id: runId, session_id, at, words, reply }) => ({
      runId,
      sessionId: session_id,
      did,
      at: Number(at),
      words: this.vault.read(words, runId, did),
      reply: this.vault.read(reply, runId, did),
    }))
  }

  async #propose(
    did: string,
    turns: readonly HeardTurn[],
    { model, signal }: { model?: AskableModel; signal: AbortSignal },
  ): Promise<readonly Numbered[]> {
    if (!model)
      return turns.flatMap(({ words }, i) =>
        proposalsIn(words).map((one) => ({ ...one, message: i + 1 })),
      )
    const index = await this.indexOf(did)
    const known = index.find(turns.map(({ words }) => words).join('\n'), this.now).slice(0, 10)
    await this.count('model-calls')
    return askModel(model, turns, known, signal)
  }

  /** Marks turns as read; resolves to those that nobody had read, and that are still there. */
  async #takeUnread(trx: MemoryDatabase, runIds: readonly string[]): Promise<ReadonlySet<string>> {
    const rows = await trx
      .updateTable('memory_passages')
      // The row stays, so that a run that ends twice is read once; its words have done their work.
      .set({ read_at: this.now, words: '', reply: '' })
      .where('run_id', 'in', [...runIds])
      .where('read_at', 'is', null)
      .returning('run_id')
      .execute()
    return new Set(rows.map(({ run_id }) => run_id))
  }

  async #keepProposal(
    trx: MemoryDatabase,
    did: string,
    proposal: Numbered,
    turns: readonly HeardTurn[],
    mine: ReadonlySet<string>,
  ): Promise<void> {
    const turn = turns[proposal.message - 1]
    if (turn && !mine.has(turn.runId)) return
    const earlier = turns.slice(0, proposal.message - 1).map(({ words }) => words)
    const refusal = refusalOf(proposal, turn?.words, earlier)
    if (refusal || !turn) return this.count(`refused:${refusal ?? 'no-evidence'}`, trx)
    const { slot = null, value = '', text, kind, quote } = proposal
    const about = proposal.about.trim() === '' ? 'me' : proposal.about
    const said: Said = { sessionId: turn.sessionId, runId: turn.runId, quote, at: turn.at }
    const until = turn.words.includes(proposal.until ?? '-') ? untilOf(proposal.until) : null
    const kept = proposal.ends
      ? await this.memories.end(trx, did, { about, slot, value }, turn.at)
      : await this.memories.keep(
          trx,
          did,
          { kind, about, slot, value, text, by: 'noticed', until },
          said,
          this.now,
        )
    await this.count(kept.outcome === 'erased' ? 'refused:erased' : `kept:${kept.outcome}`, trx)
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

  /** Lets old rows go: what turns were shown, turns that were read, counts of long ago. */
  async sweep(): Promise<void> {
    const before = this.now - usedDays * dayMs
    await this.#db.deleteFrom('memory_used').where('at', '<', before).execute()
    await this.#db
      .deleteFrom('memory_passages')
      .where('read_at', '<', this.now - dayMs)
      .execute()
    await this.#db.deleteFrom('memory_passages').where('at', '<', before).execute()
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

const untilOf = (until: string | undefined): number | null => {
  const time = until === undefined ? NaN : Date.parse(until)
  return Number.isNaN(time) ? null : time
}

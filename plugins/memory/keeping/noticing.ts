import { type AskableModel, prepared } from '#core'
import type { Said } from '../kept/memory.ts'
import type { StandingAtEnd } from '../kept/standings.ts'
import type { HeardTurn, Remembering } from '../remembering.ts'
import type { MemoryDatabase, PassagesTable } from '../tables.ts'
import { tellsSecret } from '../words/secrets.ts'
import { refusalOf } from './checks.ts'
import { untilIn } from './dates.ts'
import { askModel, type Numbered } from './model.ts'
import { proposalsIn } from './rules.ts'

const mostCharacters = 4_000
/** How many turns one call of the model reads, and how many such parts one reading has. */
const [mostTurns, mostParts] = [50, 20]
/** How long one reading waits for the model, shorter than the job: a model that hangs is a model that fails. */
const usualPatienceMs = 60_000

/** How a session is read. Without a model the rules of the demonstration model read it. */
export interface Reading {
  readonly model?: AskableModel
  readonly signal: AbortSignal
  /** The turn that asks for the reading: where a later one waits to be read, that one asks for all. */
  readonly runId?: string | undefined
  /** Whether no further attempt will be made. */
  readonly isLast: boolean
  /** How long to wait for the model. */
  readonly patienceMs?: number
}

/** Turns as they are heard, kept for a reading, and read once for what is worth remembering. */
export class Noticing {
  readonly #self: Remembering
  readonly #keep

  constructor(self: Remembering) {
    this.#self = self
    this.#keep = keepStatement(self.db)
  }

  /** Keeps a turn for the reading, and findable; false where nothing of it is to be read. */
  async hear(trx: MemoryDatabase, turn: HeardTurn, standing: StandingAtEnd): Promise<boolean> {
    const self = this.#self
    const { runId, sessionId, did, at } = turn
    const { mode, erased } = standing
    if (turn.words.trim() === '' || mode !== 'on' || erased === 'all') return false
    const { words, reply } = { words: cut(turn.words), reply: cut(turn.reply) }
    // What the person had erased in this very turn stands in its words.
    const findable = self.findsPassages && !erased && !tellsSecret(words) && !tellsSecret(reply)
    const sealed = (text: string) => self.vault.write(text, runId, did)
    const kept = {
      run_id: runId,
      session_id: sessionId,
      did,
      at,
      words: sealed(words),
      reply: sealed(reply),
      read_at: null,
      findable: findable ? 1 : 0,
    }
    const [row] = (await this.#keep(kept, trx)).rows
    if (row && findable) await self.passages.add(trx, did, runId, `${words}\n${reply}`)
    return true
  }

  /** How many turns of a session have yet to be read. */
  async unread(sessionId: string, db: MemoryDatabase): Promise<number> {
    const { count } = await db
      .selectFrom('memory_passages')
      .select((eb) => eb.fn.countAll<number>().as('count'))
      .where('session_id', '=', sessionId)
      .where('read_at', 'is', null)
      .executeTakeFirstOrThrow()
    return Number(count)
  }

  /** Reads the turns of a session that nobody has read, once it is quiet or has enough of them. Each is read once. */
  async notice(did: string, sessionId: string, asked: Reading): Promise<void> {
    const newest = await this.#newestUnread(did, sessionId)
    if (!newest || (asked.runId !== undefined && asked.runId !== newest.runId)) return
    const { env, now } = this.#self
    const quietFor = now - newest.at
    // A turn that is yet to come was heard by a clock that has gone back since.
    const isQuiet = quietFor >= env.MEMORY_AFTER_SECONDS * 1_000 || quietFor < 0
    // A later turn has asked for a job of its own, which reads these turns too.
    if (!isQuiet && (await this.unread(sessionId, this.#self.db)) < env.MEMORY_AFTER_TURNS) return
    for (let part = 0; part < mostParts; part++) {
      const turns = await this.#unreadTurns(did, sessionId)
      if (turns.length > 0) await this.#read(did, turns, asked)
      if (turns.length < mostTurns) return
    }
  }

  async #read(did: string, turns: readonly HeardTurn[], asked: Reading): Promise<void> {
    const self = this.#self
    const began = performance.now()
    let proposals: readonly Numbered[] = []
    try {
      proposals = await this.#propose(did, turns, asked)
    } catch (error) {
      // Where the server stops in the last attempt, the attempt is given back: nothing is dropped.
      if (!asked.isLast || asked.signal.aborted) throw error
      await self.count('dropped')
    }
    await self.alone(did, async (trx) => {
      const { mode } = await self.settingsOf(did, trx)
      const mine = await this.#takeUnread(
        trx,
        turns.map(({ runId }) => runId),
      )
      if (mode !== 'on') return
      for (const proposal of proposals) await this.#keepProposal(trx, did, proposal, turns, mine)
    })
    self.times.readings.add(performance.now() - began)
  }

  async #newestUnread(did: string, sessionId: string) {
    const row = await this.#self.db
      .selectFrom('memory_passages')
      .select(['run_id', 'at'])
      .where('session_id', '=', sessionId)
      .where('did', '=', did)
      .where('read_at', 'is', null)
      .orderBy('at', 'desc')
      .orderBy('run_id', 'desc')
      .limit(1)
      .executeTakeFirst()
    return row && { runId: row.run_id, at: Number(row.at) }
  }

  async #unreadTurns(did: string, sessionId: string): Promise<HeardTurn[]> {
    const { db, vault } = this.#self
    const rows = await db
      .selectFrom('memory_passages')
      .selectAll()
      .where('session_id', '=', sessionId)
      .where('did', '=', did)
      .where('read_at', 'is', null)
      .orderBy('at')
      .limit(mostTurns)
      .execute()
    return rows.map(({ run_id: runId, session_id, at, words, reply }) => ({
      runId,
      sessionId: session_id,
      did,
      at: Number(at),
      words: vault.read(words, runId, did),
      reply: vault.read(reply, runId, did),
    }))
  }

  async #propose(
    did: string,
    turns: readonly HeardTurn[],
    { model, signal, patienceMs = usualPatienceMs }: Reading,
  ): Promise<readonly Numbered[]> {
    const self = this.#self
    if (!model)
      return turns.flatMap(({ words }, i) =>
        proposalsIn(words).map((one) => ({ ...one, message: i + 1 })),
      )
    const index = await self.indexOf(did)
    const known = index.find(turns.map(({ words }) => words).join('\n'), self.now).slice(0, 10)
    await self.count('model-calls')
    const patience = AbortSignal.any([signal, AbortSignal.timeout(patienceMs)])
    patience.throwIfAborted()
    const late = Promise.withResolvers<never>()
    // A model that does not hear the signal is not waited for either.
    const stop = () => late.reject(patience.reason)
    patience.addEventListener('abort', stop, { once: true })
    try {
      return await Promise.race([askModel(model, turns, known, patience), late.promise])
    } finally {
      patience.removeEventListener('abort', stop)
    }
  }

  /** Marks turns as read; resolves to those that nobody had read, and that are still there. */
  async #takeUnread(trx: MemoryDatabase, runIds: readonly string[]): Promise<ReadonlySet<string>> {
    const taken = await trx
      .updateTable('memory_passages')
      // The row stays, so that a run that ends twice is read once; the words of what stays findable stay, too.
      .set((eb) => ({
        read_at: this.#self.now,
        reply: '',
        words: eb.case().when('findable', '=', 1).then(eb.ref('words')).else('').end(),
      }))
      .where('run_id', 'in', [...runIds])
      .where('read_at', 'is', null)
      .returning('run_id')
      .execute()
    return new Set(taken.map(({ run_id }) => run_id))
  }

  async #keepProposal(
    trx: MemoryDatabase,
    did: string,
    proposal: Numbered,
    turns: readonly HeardTurn[],
    mine: ReadonlySet<string>,
  ): Promise<void> {
    const self = this.#self
    const turn = turns[proposal.message - 1]
    if (turn && !mine.has(turn.runId)) return
    const earlier = turns.slice(0, proposal.message - 1).map(({ words }) => words)
    const refusal = refusalOf(proposal, turn?.words, earlier)
    if (refusal || !turn) return self.count(`refused:${refusal ?? 'no-evidence'}`, trx)
    const { slot = null, value = '', text, kind, quote } = proposal
    const about = proposal.about.trim() === '' ? 'me' : proposal.about
    const said: Said = { sessionId: turn.sessionId, runId: turn.runId, quote, at: turn.at }
    const until = untilIn(quote, proposal.until, turn.at)
    const kept = proposal.ends
      ? await self.memories.end(trx, did, { about, slot, value }, turn.at)
      : await self.memories.keep(
          trx,
          did,
          { kind, about, slot, value, text, by: 'noticed', until },
          said,
          self.now,
        )
    await self.count(kept.outcome === 'erased' ? 'refused:erased' : `kept:${kept.outcome}`, trx)
  }
}

const cut = (text: string) => text.slice(0, mostCharacters).toWellFormed().replaceAll('\0', '')

const keepStatement = (db: MemoryDatabase) =>
  prepared(db, (row: PassagesTable) =>
    db
      .insertInto('memory_passages')
      .values({
        run_id: row.run_id,
        session_id: row.session_id,
        did: row.did,
        at: row.at,
        words: row.words,
        reply: row.reply,
        read_at: row.read_at,
        findable: row.findable,
      })
      .onConflict((conflict) => conflict.doNothing())
      .returning('run_id'),
  )

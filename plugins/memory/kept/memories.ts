import { randomUUID } from 'node:crypto'
import type { MemoryDatabase, Mode } from '../tables.ts'
import {
  holdsAt,
  isAlike,
  isNear,
  isSame,
  isSingle,
  type Kept,
  type Memory,
  never,
  type NewMemory,
  type Said,
  type Settings,
  type ToldOf,
} from './memory.ts'
import { deleteMemory, forgetWords, makeRoom } from './erasing.ts'
import { denialOf, deniedAt, erasedWords, wasErased } from './known-again.ts'
import { openedMemory, openedSource } from './opened.ts'
import type { Passages } from './passages.ts'
import type { Vault } from './vault.ts'

/** The memories in the database. Whoever changes those of an owner holds the owner's row until the transaction ends. */
export class Memories {
  readonly #vault: Vault
  readonly #max: number
  readonly #passages: Passages

  constructor(vault: Vault, max: number, passages: Passages) {
    this.#vault = vault
    this.#passages = passages
    this.#max = max
  }

  /** Takes the row of an owner: other writers of the owner's memories wait. Resolves to the number of the next memory. */
  async lock(trx: MemoryDatabase, did: string): Promise<number> {
    const row = await trx
      .insertInto('memory_people')
      .values({ did, mode: null, sensitive: 'ask', version: 1, next: 1 })
      .onConflict((conflict) =>
        conflict
          .column('did')
          .doUpdateSet((eb) => ({ version: eb('memory_people.version', '+', 1) })),
      )
      .returning('next')
      .executeTakeFirstOrThrow()
    return Number(row.next)
  }

  /** What a person has chosen, and which version of the person's memories stands. */
  async settingsOf(db: MemoryDatabase, did: string, usual: Mode): Promise<Settings> {
    const row = await db
      .selectFrom('memory_people')
      .select(['mode', 'sensitive', 'version'])
      .where('did', '=', did)
      .executeTakeFirst()
    return {
      mode: row?.mode ?? usual,
      sensitive: row?.sensitive ?? 'ask',
      version: Number(row?.version ?? 0),
    }
  }

  /** All memories of an owner, those that ended too. */
  async all(db: MemoryDatabase, did: string): Promise<Memory[]> {
    const rows = await db
      .selectFrom('memory_memories')
      .selectAll()
      .where('did', '=', did)
      .orderBy('n')
      .execute()
    return rows.map((row) => openedMemory(this.#vault, row))
  }

  /** Where the memories of an owner were said, by memory, the first place first. */
  async sourcesOf(db: MemoryDatabase, did: string): Promise<Map<string, Said[]>> {
    const rows = await db
      .selectFrom('memory_sources')
      .selectAll()
      .where('did', '=', did)
      .orderBy('at')
      .execute()
    const found = new Map<string, Said[]>()
    for (const row of rows) {
      const said = openedSource(this.#vault, row)
      const others = found.get(row.memory_id)
      if (others) others.push(said)
      else found.set(row.memory_id, [said])
    }
    return found
  }

  /**
   * Keeps something that was said at a time. A slot of one value holds one value at any time: what was said later holds, also
   * when this call comes late. The same meaning is confirmed. Call it with the owner's row taken. Whoever keeps many things hands
   * on what is there, which this brings up to date: reading it again for each of them would take the square of the time.
   */
  async keep(
    trx: MemoryDatabase,
    did: string,
    given: NewMemory,
    said: Said,
    at: number,
    there?: Memory[],
  ): Promise<Kept> {
    if (given.by === 'noticed' && (await wasErased(trx, this.#vault, did, given, said)))
      return { outcome: 'erased', replaced: [] }
    const all = there ?? (await this.all(trx, did))
    const denied = await deniedAt(trx, this.#vault, did, given, said.at)
    const same = all.find(
      (one) =>
        isSame(one, given) &&
        isNear(one, said.at, all) &&
        // Said before it was denied, and told of again: what began after the denial did not hold before it.
        (denied ?? never) > one.valid_from,
    )
    if (same) {
      await this.#confirm(trx, same, said)
      return { outcome: 'confirmed', memory: same, replaced: [] }
    }
    if (all.length >= this.#max) {
      const gone = await makeRoom(trx, all, at)
      if (!gone) return { outcome: 'full', replaced: [] }
      all.splice(all.indexOf(gone), 1)
    }
    const memory = await this.#insert(trx, did, given, said, at)
    memory.denied_at = denied
    if (memory.denied_at !== null) await this.#endAt(trx, memory, memory.denied_at)
    const before = new Map(all.map((one) => [one.id, one.valid_to]))
    const again = isSingle(given) ? await this.#saidAgain(trx, all, memory, at) : []
    const chain = isSingle(given) ? await this.#rechain(trx, [...all, memory, ...again], given) : []
    all.push(memory, ...again)
    const replaced = chain.filter((one) => one.valid_to !== null && before.get(one.id) === null)
    return { outcome: 'new', memory: chain.find(({ id }) => id === memory.id) ?? memory, replaced }
  }

  /** Ends what holds in a slot, because the person said that it holds no more. */
  async end(
    trx: MemoryDatabase,
    did: string,
    given: Pick<NewMemory, 'about' | 'slot' | 'value'>,
    at: number,
    there?: Memory[],
  ): Promise<Kept> {
    const all = there ?? (await this.all(trx, did))
    const ended = all.filter(
      (one) =>
        given.slot !== null &&
        one.slot === given.slot &&
        one.about === given.about &&
        holdsAt(one, at) &&
        // All that a person likes does not end with one sentence that names nothing.
        (given.value === '' ? isSingle(one) : isAlike(one.value, given.value)),
    )
    for (const one of ended) {
      // A denial that is read late ends nothing that was said again after it.
      const again = await this.#splitAt(trx, one, at)
      one.denied_at = at
      await this.#endAt(trx, one, at)
      if (!again) continue
      all.push(again)
      if (isSingle(again)) await this.#rechain(trx, all, again)
    }
    if (given.slot !== null && (given.value !== '' || isSingle(given)))
      await trx
        .insertInto('memory_denials')
        .values({ did, hash: this.#vault.hash(denialOf(did, given)), at })
        .onConflict((conflict) => conflict.doNothing())
        .execute()
    return { outcome: ended.length > 0 ? 'ended' : 'nothing', replaced: ended }
  }

  /** Erases memories with all that was known of them; what a replaced slot held before goes too. Resolves to what went. */
  async erase(
    trx: MemoryDatabase,
    did: string,
    ids: readonly string[],
    at: number,
  ): Promise<Memory[]> {
    const all = await this.all(trx, did)
    const asked = all.filter(({ id }) => ids.includes(id))
    const gone = all.filter(
      (one) =>
        asked.includes(one) ||
        asked.some(
          (other) =>
            isSingle(one) &&
            one.slot === other.slot &&
            one.about === other.about &&
            one.valid_from < other.valid_from,
        ),
    )
    const sources = gone.length > 0 ? await this.sourcesOf(trx, did) : new Map<string, Said[]>()
    for (const one of gone) {
      const quotes = (sources.get(one.id) ?? []).map(({ quote }) => quote)
      for (const words of new Set(erasedWords(did, one, quotes)))
        await trx
          .insertInto('memory_erased')
          .values({ did, hash: this.#vault.hash(words), at })
          .onConflict((conflict) => conflict.columns(['did', 'hash']).doUpdateSet({ at }))
          .execute()
      await deleteMemory(trx, one.id)
    }
    await forgetWords(trx, this.#passages, did, gone, sources, at)
    return gone
  }

  /** Adds what an export tells of a memory beside its first place: further places, how often it was used, and its days. */
  async bring(trx: MemoryDatabase, memory: Memory, told: ToldOf): Promise<void> {
    for (const said of told.sources) await this.#confirm(trx, memory, said)
    memory.uses = Math.max(memory.uses, told.uses)
    memory.created_at = Math.min(memory.created_at, told.createdAt)
    memory.confirmed_at = Math.max(memory.confirmed_at, told.confirmedAt)
    const { id, uses, created_at, confirmed_at } = memory
    await trx
      .updateTable('memory_memories')
      .set({ uses, created_at, confirmed_at })
      .where('id', '=', id)
      .execute()
  }

  /** Writes what a person corrected by hand, in place of what stood there before. */
  async change(trx: MemoryDatabase, memory: Memory, before: Memory): Promise<void> {
    const { id, did, kind, about, slot, value, text, until, pinned, by } = memory
    const sealed = (words: string) => this.#vault.write(words, id, did)
    await trx
      .updateTable('memory_memories')
      .set({
        ...{ kind, slot, until, by },
        about: sealed(about),
        value: sealed(value),
        text: sealed(text),
        pinned: pinned ? 1 : 0,
      })
      .where('id', '=', id)
      .execute()
    if (text !== before.text)
      await trx.deleteFrom('memory_vectors').where('memory_id', '=', id).execute()
    if (memory.slot !== before.slot) await this.#endAt(trx, memory, memory.denied_at)
    // Where a memory left a slot, the value before it holds again.
    for (const one of memory.slot === before.slot ? [memory] : [before, memory])
      if (isSingle(one)) await this.#rechain(trx, await this.all(trx, did), one)
  }

  async #endAt(trx: MemoryDatabase, memory: Memory, validTo: number | null): Promise<void> {
    memory.valid_to = validTo
    await trx
      .updateTable('memory_memories')
      .set({ valid_to: validTo, denied_at: memory.denied_at })
      .where('id', '=', memory.id)
      .execute()
  }

  /** What held before a memory that comes late, and was said again after it, holds again from then on. */
  async #saidAgain(
    trx: MemoryDatabase,
    all: readonly Memory[],
    late: Memory,
    at: number,
  ): Promise<Memory[]> {
    const held = all.find(
      (one) =>
        one.slot === late.slot &&
        one.about === late.about &&
        one.valid_from < late.valid_from &&
        (one.valid_to ?? never) > late.valid_from,
    )
    const again = held && (await this.#splitAt(trx, held, late.valid_from, at))
    if (!held || !again) return []
    await this.#endAt(trx, held, late.valid_from)
    return [again]
  }

  /** The places where a memory was said after a time become a memory of their own; undefined where there are none. */
  async #splitAt(
    trx: MemoryDatabase,
    held: Memory,
    time: number,
    at = held.created_at,
  ): Promise<Memory | undefined> {
    const sources = (await this.sourcesOf(trx, held.did)).get(held.id) ?? []
    const [first, ...rest] = sources.filter((said) => said.at > time)
    if (!first) return undefined
    for (const { runId } of [first, ...rest])
      await trx
        .deleteFrom('memory_sources')
        .where('memory_id', '=', held.id)
        .where('run_id', '=', runId)
        .execute()
    const { kind, about, slot, value, text, by, until, pinned } = held
    const given = { kind, about, slot, value, text, by, until, pinned }
    const again = await this.#insert(trx, held.did, given, first, at)
    again.denied_at = held.denied_at
    held.denied_at = null
    await this.#endAt(trx, again, again.denied_at)
    for (const said of rest) await this.#confirm(trx, again, said)
    return again
  }

  async #insert(
    trx: MemoryDatabase,
    did: string,
    given: NewMemory,
    said: Said,
    at: number,
  ): Promise<Memory> {
    const id = randomUUID()
    const person = await trx
      .updateTable('memory_people')
      .set((eb) => ({ next: eb('next', '+', 1) }))
      .where('did', '=', did)
      .returning('next')
      .executeTakeFirstOrThrow()
    const memory: Memory = {
      ...given,
      id,
      did,
      n: Number(person.next) - 1,
      valid_from: said.at,
      valid_to: null,
      denied_at: null,
      until: given.until ?? null,
      pinned: given.pinned ?? false,
      uses: 0,
      confirmed_at: said.at,
      created_at: at,
    }
    const sealed = (words: string) => this.#vault.write(words, id, did)
    await trx
      .insertInto('memory_memories')
      .values({
        ...memory,
        about: sealed(memory.about),
        value: sealed(memory.value),
        text: sealed(memory.text),
        pinned: memory.pinned ? 1 : 0,
      })
      .execute()
    await this.#addSource(trx, memory, said)
    return memory
  }

  async #addSource(trx: MemoryDatabase, { id, did }: Memory, said: Said): Promise<void> {
    const quote = this.#vault.write(said.quote, id, did)
    await trx
      .insertInto('memory_sources')
      .values({
        memory_id: id,
        did,
        session_id: said.sessionId,
        run_id: said.runId,
        quote,
        at: said.at,
      })
      .onConflict((conflict) => conflict.columns(['memory_id', 'run_id']).doNothing())
      .execute()
  }

  async #confirm(trx: MemoryDatabase, memory: Memory, said: Said): Promise<void> {
    memory.confirmed_at = Math.max(memory.confirmed_at, said.at)
    memory.valid_from = Math.min(memory.valid_from, said.at)
    await trx
      .updateTable('memory_memories')
      .set({ confirmed_at: memory.confirmed_at, valid_from: memory.valid_from })
      .where('id', '=', memory.id)
      .execute()
    await this.#addSource(trx, memory, said)
  }

  /** Makes each memory of a one-value slot end where the next begins, by the time at which they were said. */
  async #rechain(
    trx: MemoryDatabase,
    all: readonly Memory[],
    { slot, about }: Pick<NewMemory, 'slot' | 'about'>,
  ): Promise<Memory[]> {
    const chain = all
      .filter((one) => one.slot === slot && one.about === about)
      .sort((one, other) => one.valid_from - other.valid_from || one.n - other.n)
    for (const [i, one] of chain.entries()) {
      const next = chain[i + 1]?.valid_from ?? never
      const ends = Math.min(next, one.denied_at ?? never)
      const validTo = ends === never ? null : ends
      if (one.valid_to === validTo) continue
      one.valid_to = validTo
      await trx
        .updateTable('memory_memories')
        .set({ valid_to: validTo })
        .where('id', '=', one.id)
        .execute()
    }
    return chain
  }
}

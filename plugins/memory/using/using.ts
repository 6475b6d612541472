import type { OfferedModels } from '#core'
import type { Standing } from '../kept/standings.ts'
import type { Asked, Remembering, Where } from '../remembering.ts'
import { blockOf } from './lines.ts'
import { type Index, Indexes } from './ranking.ts'
import { askedVector, makeVectors, vectorsOf, written } from './vectors.ts'

/** What is remembered, as turns use it. */
export class Using {
  readonly #self: Remembering
  readonly #indexes = new Indexes()
  readonly #notes = new Map<string, Promise<void>>()

  constructor(self: Remembering) {
    this.#self = self
  }

  /** The lines of a turn's prompt, and notes which memories it was shown. */
  async prompt(
    where: Where,
    { owner, version }: Standing,
    asked: Asked,
  ): Promise<string | undefined> {
    const { env, now: at } = this.#self
    const index = await this.indexOf(owner, version)
    if (index.memories.length === 0) return undefined
    const vector = await askedVector(asked.models, asked.question, asked.signal)
    if (vector && index.lacking(vector.model).length > 0)
      await asked.lack(owner, vector.model, index.version)
    const found = index.find(asked.question, at, false, vector)
    const block = blockOf([...index.standing(at), ...found], {
      tokens: env.MEMORY_PROMPT_TOKENS,
      count: env.MEMORY_PROMPT_COUNT,
      isRoom: where.shared,
    })
    if (block) {
      const { notes } = this.#self
      this.#note(where.sessionId, notes.shown(where, asked.requestId, block.shown, at))
    }
    return block?.text
  }

  /** Lets a note be written while the turn goes on: the person sees it once the run has ended. */
  #note(sessionId: string, note: Promise<void>): void {
    const written = note
      .catch((error: unknown) => {
        const reason = error instanceof Error ? error.message : String(error)
        this.#self.log.warn({ reason }, 'What a turn was shown could not be noted.')
      })
      .finally(() => {
        if (this.#notes.get(sessionId) === written) this.#notes.delete(sessionId)
      })
    this.#notes.set(sessionId, written)
  }

  /** Resolves when what the turns of a session were shown has been noted. */
  async noted(sessionId: string): Promise<void> {
    await this.#notes.get(sessionId)
  }

  /** The index of an owner's memories, of a version. */
  indexOf(did: string, version: number): Promise<Index> {
    const { memories, vault, db } = this.#self
    return this.#indexes.of(did, version, async () => ({
      memories: await memories.all(db, did),
      vectors: await vectorsOf(db, vault, did),
    }))
  }

  /** Drops the index of an owner. */
  forget(did: string): void {
    this.#indexes.forget(did)
  }

  /** Makes the vectors that a model has not made yet of the memories of an owner. */
  async makeVectors(
    did: string,
    model: string,
    { models, signal }: { models: OfferedModels; signal: AbortSignal },
  ): Promise<void> {
    const { memories, vault } = this.#self
    const lacking = (await this.#self.indexOf(did)).lacking(model)
    await makeVectors(models, lacking, signal, (made) =>
      this.#self.alone(did, async (trx) => {
        const all = new Map((await memories.all(trx, did)).map((one) => [one.id, one.text]))
        // What was erased or corrected meanwhile has no use for this vector.
        const rows = [...made]
          .filter(([{ id, text }]) => all.get(id) === text)
          .map(([{ id }, vector]) => ({
            memory_id: id,
            did,
            model: vector.model,
            vector: vault.write(written(vector), id, did),
          }))
        if (rows.length > 0)
          await trx
            .insertInto('memory_vectors')
            .values(rows)
            .onConflict((conflict) =>
              conflict.column('memory_id').doUpdateSet((eb) => ({
                model: eb.ref('excluded.model'),
                vector: eb.ref('excluded.vector'),
              })),
            )
            .execute()
      }),
    )
  }
}

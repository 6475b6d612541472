import type { OfferedModels } from '#core'
import type { Memory } from '../kept/memory.ts'
import type { Vault } from '../kept/vault.ts'
import type { MemoryDatabase } from '../tables.ts'

/** What a memory means, a byte a place, and what made it. */
export interface StoredVector {
  readonly model: string
  readonly places: Int8Array
  /** The length of the vector, which every comparison needs. */
  readonly length: number
}

/** What a question means. */
export interface AskedVector {
  readonly model: string
  readonly places: Float32Array
}

/** How many texts one job hands to the embedder at a time. */
const perBatch = 96
/** The most characters of a question that are made into a vector. */
const mostAsked = 2_000
/** How long a turn waits for the vector of its question: it then goes by words alone. */
const patienceMs = 300

/** The vectors of a person's memories, by memory. */
export async function vectorsOf(
  db: MemoryDatabase,
  vault: Vault,
  did: string,
): Promise<ReadonlyMap<string, StoredVector>> {
  const rows = await db.selectFrom('memory_vectors').selectAll().where('did', '=', did).execute()
  return new Map(
    rows.map(({ memory_id, model, vector }) => {
      const bytes = Buffer.from(vault.read(vector, memory_id, did), 'base64')
      return [
        memory_id,
        storedOf(model, new Int8Array(bytes.buffer, bytes.byteOffset, bytes.length)),
      ]
    }),
  )
}

/** A vector with its length. */
export const storedOf = (model: string, places: Int8Array): StoredVector => ({
  model,
  places,
  length: lengthOf(places),
})

/** What an embedder reads of a memory. */
const textOf = ({ text, about }: Memory) => (about === 'me' ? text : `${about}: ${text}`)

/** Makes vectors of memories, in parts; hands each part on to be stored. */
export async function makeVectors(
  models: OfferedModels,
  memories: readonly Memory[],
  signal: AbortSignal,
  store: (made: ReadonlyMap<Memory, StoredVector>) => Promise<void>,
): Promise<void> {
  for (let at = 0; at < memories.length; at += perBatch) {
    const part = memories.slice(at, at + perBatch)
    const { vectors, model } = await models.embed(part.map(textOf), { kind: 'document', signal })
    await store(
      new Map(
        part.flatMap((memory, i) => {
          const vector = vectors[i]
          return vector ? [[memory, storedOf(model, inBytes(vector))] as const] : []
        }),
      ),
    )
  }
}

/** A vector as it is stored: the greatest place becomes 127. A cosine does not mind the scale. */
function inBytes(vector: Float32Array): Int8Array {
  const most = vector.reduce((max, place) => Math.max(max, Math.abs(place)), 0) || 1
  return Int8Array.from(vector, (place) => Math.round((place / most) * 127))
}

/** A stored vector as text. */
export const written = ({ places }: StoredVector): string =>
  Buffer.from(places.buffer, places.byteOffset, places.length).toString('base64')

/** The vector of a question; undefined where the embedder fails or is late: words are enough then. */
export async function askedVector(
  models: OfferedModels,
  question: string,
  signal: AbortSignal,
): Promise<AskedVector | undefined> {
  const text = question.slice(0, mostAsked).toWellFormed()
  if (text.trim() === '') return undefined
  const patience = AbortSignal.any([signal, AbortSignal.timeout(patienceMs)])
  const made = await models
    .embed([text], { kind: 'query', signal: patience })
    .catch(() => undefined)
  const places = made?.vectors[0]
  return made && places ? { model: made.model, places } : undefined
}

/** The length of a vector. */
export function lengthOf(places: Float32Array | Int8Array): number {
  let sum = 0
  for (let i = 0; i < places.length; i++) {
    const place = places[i] ?? 0
    sum += place * place
  }
  return Math.sqrt(sum)
}

/** The places of a vector that are not zero: of most questions these are few. */
export function filledPlaces(places: Float32Array): Uint16Array {
  const filled: number[] = []
  for (let i = 0; i < places.length; i++) if (places[i] !== 0) filled.push(i)
  return Uint16Array.from(filled)
}

/** How near a vector is to a stored one, from -1 to 1, but for its own length. */
export function cosine(
  asked: Float32Array,
  { places, length }: StoredVector,
  filled = filledPlaces(asked),
): number {
  if (asked.length !== places.length || length === 0) return 0
  let product = 0
  for (let n = 0; n < filled.length; n++) {
    const i = filled[n] ?? 0
    product += (asked[i] ?? 0) * (places[i] ?? 0)
  }
  return product / length
}

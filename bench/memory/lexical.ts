/** Vectors by the embedder that needs no model. */
import { LexicalEmbedder } from '../../core/runtime/model/embed/lexical.ts'
import type { OfferedModels } from '#core'
import type { Memory } from '../../plugins/memory/kept/memory.ts'
import { storedOf, type StoredVector } from '../../plugins/memory/using/vectors.ts'

const lexical = new LexicalEmbedder()
/** The name under which its vectors are stored. */
export const lexicalId = lexical.id

/** The vector of a text. */
export async function vectorOf(text: string): Promise<Float32Array> {
  const { vectors } = await lexical.embed([text], { signal: new AbortController().signal })
  return vectors[0] ?? new Float32Array()
}

/** The vectors of memories, as they are stored. */
export async function stored(memories: readonly Memory[]): Promise<Map<string, StoredVector>> {
  const made = new Map<string, StoredVector>()
  for (const { id, text } of memories) {
    const places = await vectorOf(text)
    const most = places.reduce((max, place) => Math.max(max, Math.abs(place)), 0) || 1
    made.set(
      id,
      storedOf(
        lexicalId,
        Int8Array.from(places, (place) => Math.round((place / most) * 127)),
      ),
    )
  }
  return made
}

const offered: unknown = {
  embed: async (texts: readonly string[], { signal }: { readonly signal: AbortSignal }) => ({
    vectors: (await lexical.embed([...texts], { signal })).vectors,
    model: lexicalId,
  }),
}
/** The models as a turn has them, of which memory asks the embedder alone. */
export const models = offered as OfferedModels

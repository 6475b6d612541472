import { giveWay } from '../../../manifest/loop-time.ts'
import type { Embedder, Embeddings } from '../../../plugin.ts'

/** How many numbers a vector has: a power of two, as the places are bits of a hash. */
const dimensions = 512
/** What a whole word counts beside its triples, and what a triple counts. */
const ofWord = 1
const ofTriple = 0.5
/** A word of up to three letters is mostly one that every sentence has. */
const ofShortWord = 0.25

/**
 * Vectors without a language model: each word and each three letters of it add to one of 512 places. Texts that are written
 * alike are near each other, inflected and misspelt words too; other words for the same thing are not.
 */
export class LexicalEmbedder implements Embedder {
  readonly id = 'lexical'

  async embed(
    texts: readonly string[],
    { signal }: { readonly signal: AbortSignal },
  ): Promise<Embeddings> {
    const vectors: Float32Array[] = []
    for (const text of texts) {
      await giveWay()
      signal.throwIfAborted()
      vectors.push(lexicalVector(text))
    }
    return { vectors, usage: { inputTokens: 0, outputTokens: 0 } }
  }
}

/** The vector of a text, of length one; all zeros where the text has neither letters nor digits. */
function lexicalVector(text: string): Float32Array {
  const vector = new Float32Array(dimensions)
  const plain = text
    .normalize('NFKD')
    .replace(/\p{M}+/gu, '')
    .toLowerCase()
  for (const [word] of plain.matchAll(/[\p{L}\p{N}]+/gu)) {
    const isShort = word.length <= 3
    add(vector, hashOf(word, 0, word.length), isShort ? ofShortWord : ofWord)
    if (isShort) continue
    // The ends of a word are letters of their own, so that beginnings and endings count.
    const marked = ` ${word} `
    for (let at = 0; at + 3 <= marked.length; at++)
      add(vector, hashOf(marked, at, at + 3), ofTriple)
  }
  return scaled(vector)
}

/** FNV-1a of a piece of a text. Its low bits depend on few bits of the text, so the high ones are mixed in. */
function hashOf(text: string, from: number, to: number): number {
  let hash = 0x811c9dc5 ^ (to - from)
  for (let at = from; at < to; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  return hash ^ (hash >>> 15)
}

/** Adds to a place. The sign comes from the hash, too: pieces that share a place then cancel out on average. */
function add(vector: Float32Array, hash: number, weight: number): void {
  const place = hash & (dimensions - 1)
  vector[place] = (vector[place] ?? 0) + (hash & dimensions ? weight : -weight)
}

function scaled(vector: Float32Array): Float32Array {
  let sum = 0
  for (const value of vector) sum += value * value
  if (sum === 0) return vector
  const length = Math.sqrt(sum)
  for (const [at, value] of vector.entries()) if (value !== 0) vector[at] = value / length
  return vector
}

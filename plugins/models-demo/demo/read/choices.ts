import type { Sentence } from './arguments.ts'
import type { Field } from './schema.ts'
import { meaning, mostDescription, Stems } from './words.ts'

/** The value of a list whose description has the most words of a sentence; undefined where none has more than all others. */
export function byDescription({ schema, required }: Field, { text, tool }: Sentence): unknown {
  const own = new Stems(meaning(tool))
  const said = [...new Set(meaning(text))].filter((word) => own.likeness(word) === 0)
  const scored = (schema.members ?? []).map(({ value, about }) => {
    const described = new Stems(meaning(about.slice(0, mostDescription)))
    return { value, score: said.filter((word) => described.likeness(word) > 0).length }
  })
  const [best, next] = scored.sort((a, b) => b.score - a.score)
  if (!best || best.score === 0 || best.score === next?.score) return undefined
  // One word may be there by chance, which a field that may be left out is not filled for.
  return required || best.score > 1 ? best.value : undefined
}

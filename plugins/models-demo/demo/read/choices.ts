import type { Sentence } from './arguments.ts'
import type { Field } from './schema.ts'
import { meaning, mostDescription, stem, Stems, words } from './words.ts'

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

/** What a sentence says of a field that takes yes or no; undefined where it says nothing. */
export function yesOrNo(name: string, text: string): boolean | undefined {
  const own = words(name).filter(
    (word) => !['is', 'has', 'should', 'enabled', 'enable', 'include', 'with'].includes(word),
  )
  const said = words(text)
  const stems = new Stems(said.map(stem))
  const names = new Stems(own.map(stem))
  // One word of a long name may be there by chance: "a sample" does not ask for a smallSampleCorrection.
  const spoken = own.filter((one) => stems.likeness(stem(one)) > 0).length
  const at = said.findIndex((word) => names.likeness(stem(word)) > 0)
  if (at < 0 || (own.length > 2 && spoken < 2)) return undefined
  const before = said.slice(Math.max(0, at - 3), at)
  const next = said[at + 1]
  const isNo = before.some((word) =>
    /^(no|not|without|non|never|dont|disable|disabled|off|skip)$/.test(word),
  )
  return !isNo && !/^(off|false|no|disabled)$/.test(next ?? '')
}

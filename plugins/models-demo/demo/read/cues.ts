import { surroundings, type Finding } from './findings.ts'
import type { Field } from './schema.ts'
import { meaning, mostDescription, stem, Stems, words } from './words.ts'

/** How well the words around a value name a field. Nearer words count more. */
export function cue({ names, about }: FieldWords, { before, after }: Around): number {
  let score = 0
  for (const [side, list] of [
    [1, before],
    [0.9, after],
  ] as const)
    for (const [distance, word] of list.entries())
      score += (side * Math.max(3 * names.likeness(word), about.likeness(word))) / (distance + 1)
  return score
}

type Around = ReturnType<typeof surroundings>

/** The stems of the words around a value. */
export function stemsAround(text: string, value: Finding): Around {
  const { before, after } = surroundings(text, value)
  return { before: before.map(stem), after: after.map(stem) }
}

interface FieldWords {
  readonly names: Stems
  readonly about: Stems
}

/** The stems of a field's name, and the stems of its description. */
export function wordsOf({ name, schema }: Field): FieldWords {
  const about = meaning((schema.description ?? '').slice(0, mostDescription))
  return { names: new Stems(words(name).map(stem)), about: new Stems(about) }
}

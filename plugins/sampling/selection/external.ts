import type { SampleDesign, Selection } from '../design/record.ts'
import { insufficient, invalid } from '../refusal.ts'
import type { Reveal } from '../request.ts'
import { sizesOf } from './sizes.ts'
import type { StoredFrames } from './stored-frames.ts'

/** Checks what a verifier drew: its ids must come from the frame, once each, and suffice. */
export async function checkExternal(
  frames: StoredFrames,
  design: SampleDesign,
  frameId: string,
  external: NonNullable<Reveal['external']>,
): Promise<Pick<Selection, 'external' | 'strata'>> {
  const sizes = sizesOf(design)
  const strata = []
  for (const name of Object.keys(external.strata))
    if (!sizes.has(name)) throw invalid('external.strata', `the design has no stratum "${name}"`)
  for (const [name, required] of sizes) {
    const ids = external.strata[name] ?? []
    const missing = new Set(ids)
    if (missing.size !== ids.length)
      throw invalid(`external.strata.${name}`, 'an id stands in it twice')
    if (ids.length < required)
      throw insufficient(
        `The selection has ${ids.length} ids of stratum "${name}", and ${required} are required.`,
        'Select as many as the design requires.',
        { field: `external.strata.${name}`, value: ids.length, required, available: ids.length },
      )
    for await (const part of frames.ids(frameId, name)) for (const id of part) missing.delete(id)
    const [foreign] = missing
    if (foreign !== undefined)
      throw invalid(
        `external.strata.${name}`,
        `the id "${foreign}" is not in the committed frame of this stratum`,
      )
    strata.push({ name, ids, reserves: [] })
  }
  return { external: { verifier: external.verifier, method: external.method }, strata }
}

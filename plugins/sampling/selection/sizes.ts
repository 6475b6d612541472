import type { SampleDesign } from '../design/record.ts'
import type { Figures } from '../design/design.ts'
import { insufficient, invalid } from '../refusal.ts'
import type { Frame } from './frame.ts'

/** The sample size of each stratum; a design without strata has the single stratum "all". */
export function sizesOf({
  stratification,
  parameters,
}: Pick<Figures, 'stratification' | 'parameters'>): Map<string, number> {
  return new Map(
    stratification?.strata.map(({ name, sampleSize }) => [name, sampleSize]) ?? [
      ['all', parameters.adjustedSize],
    ],
  )
}

/** Refuses a frame that names other strata than the design, or lists too few ids of one. */
export function mustSuffice(frame: Frame, design: SampleDesign): void {
  const sizes = sizesOf(design)
  for (const name of frame.counts.keys())
    if (!sizes.has(name))
      throw invalid(
        'frame',
        `the design has no stratum "${name}"`,
        `Its strata: ${[...sizes.keys()].join(', ')}.`,
      )
  for (const [name, required] of sizes) {
    const available = frame.counts.get(name) ?? 0
    if (available < required)
      throw insufficient(
        `The frame lists ${available} ids of stratum "${name}", and ${required} are to be drawn.`,
        'List every household of the stratum, non-adopters included.',
        { field: `frame.${name}`, value: available, required, available },
      )
  }
}

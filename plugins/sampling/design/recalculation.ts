import type { Who } from '../access.ts'
import { discounted, reliability } from '../arithmetic/arithmetic.ts'
import { invalid } from '../refusal.ts'
import type { Recalculation, SamplingRequest } from '../request.ts'
import { sizesOf } from '../selection/sizes.ts'
import type { RevisionRow } from '../tables.ts'
import { design } from './design.ts'
import { parsed, requestOf, type Outcome, type SampleDesign } from './record.ts'

/** What extends the sample of a revision to new sizes by stratum; undefined where nothing was drawn. */
export type Extend = (
  of: { readonly designId: string; readonly revision: number },
  sizes: ReadonlyMap<string, number>,
) => Promise<Outcome['change']['idsToAdd']>

/** The revision that follows from what a monitoring period found. */
export async function nextRevision(
  before: RevisionRow,
  actual: Recalculation,
  who: Who,
  extend: Extend,
): Promise<RevisionRow> {
  const request = withActual(requestOf(before), actual)
  const figures = design(request)
  const { adjustedSize, population } = figures.parameters
  const previous = parsed<SampleDesign>(before.figures).parameters.adjustedSize
  const delta = adjustedSize - previous
  const found = reliabilityOf(request, population, actual)
  const idsToAdd = await extend(
    { designId: before.design_id, revision: before.revision },
    sizesOf(figures),
  )
  const outcome: Outcome = {
    change: {
      previousAdjustedSize: previous,
      delta,
      direction: delta > 0 ? 'up' : delta < 0 ? 'down' : 'unchanged',
      ...(idsToAdd && { idsToAdd }),
    },
    ...(found && { reliability: found }),
  }
  return {
    ...before,
    revision: before.revision + 1,
    created_at: new Date().toISOString(),
    request: JSON.stringify(request),
    figures: JSON.stringify({
      ...figures,
      ...(found && { working: { ...figures.working, imprecisionDiscount: found.relHalfWidth } }),
    }),
    outcome: JSON.stringify(outcome),
    verification: JSON.stringify({ status: 'draft' }),
    version: 1,
    newest: 1,
    made_by: who.caller,
  }
}

/** The request with what was found in place of what was expected. */
function withActual(request: SamplingRequest, actual: Recalculation): SamplingRequest {
  const proportion = request.estimator === 'proportion'
  if (!proportion && actual.actualSD === undefined)
    throw invalid('actualSD', 'missing; give a number of at least 0')
  if (proportion && actual.actualMean > 1)
    throw invalid('actualMean', `give a proportion above 0 and at most 1, not ${actual.actualMean}`)
  const found = new Map(actual.strata?.map((stratum) => [stratum.name, stratum]))
  const strata = request.stratification?.strata?.map((stratum) => {
    const { actualMean, actualSD, actualDropoutRate } = found.get(stratum.name) ?? {}
    found.delete(stratum.name)
    return {
      ...stratum,
      ...(actualMean !== undefined && { mean: actualMean }),
      ...(actualSD !== undefined && { sd: actualSD }),
      ...(actualDropoutRate !== undefined && { dropoutRate: actualDropoutRate }),
    }
  })
  const [unknown] = found.keys()
  if (unknown !== undefined) throw invalid('strata', `the design has no stratum "${unknown}"`)
  return {
    ...request,
    expectedMean: actual.actualMean,
    expectedSD: actual.actualSD ?? request.expectedSD,
    dropoutRate: actual.actualDropoutRate,
    ...(request.stratification && {
      stratification: { ...request.stratification, ...(strata && { strata }) },
    }),
  }
}

function reliabilityOf(
  { confidence, precision, estimator }: SamplingRequest,
  population: number,
  { actualMean: mean, actualSD: sd, completes, er }: Recalculation,
): Outcome['reliability'] {
  if (completes === undefined) return undefined
  if (completes > population)
    throw invalid('completes', `${completes} are more than the population of ${population}`)
  // Student's t stretches the deviation, by 13 at most.
  if (sd !== undefined && !Number.isFinite(100 * sd))
    throw invalid('actualSD', `the standard deviation ${sd} is too large to be worked with`)
  const found = reliability({ confidence, precision, population, estimator, mean, sd, completes })
  return {
    completes,
    ...found,
    ...(er !== undefined && { erConservative: discounted(er, found.relHalfWidth) }),
  }
}

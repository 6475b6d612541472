import type { Who } from '../access.ts'
import { invalid } from '../refusal.ts'
import type { Recalculation, SamplingRequest } from '../request.ts'
import { sizesOf } from '../selection/sizes.ts'
import type { RevisionRow } from '../tables.ts'
import { design } from './design.ts'
import type { Warning } from './population.ts'
import { parsed, requestOf, type Outcome, type SampleDesign } from './record.ts'
import { reliabilityOf } from './reliability.ts'

/** Extends the drawn sample of a revision to new sizes by stratum; resolves to undefined where no sample was drawn. */
export type Extend = (
  of: { readonly designId: string; readonly revision: number },
  was: ReadonlyMap<string, number>,
  sizes: ReadonlyMap<string, number>,
) => Promise<Outcome['change']['idsToAdd']>

/** The revision that follows from the results of a monitoring period. */
export async function nextRevision(
  before: RevisionRow,
  { actual, unread }: { readonly actual: Recalculation; readonly unread: readonly Warning[] },
  who: Who,
  extend: Extend,
): Promise<RevisionRow> {
  const request = withActual(requestOf(before), actual, before.revision)
  const figures = await design(request, unread, { mean: 'actualMean', sd: 'actualSD' })
  const { adjustedSize } = figures.parameters
  const previous = parsed<SampleDesign>(before.figures).parameters.adjustedSize
  const delta = adjustedSize - previous
  const found = reliabilityOf(request, figures, actual)
  const idsToAdd = await extend(
    { designId: before.design_id, revision: before.revision },
    sizesOf(parsed<SampleDesign>(before.figures)),
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

/** The request with the actual values in place of the expected ones. */
function withActual(
  request: SamplingRequest,
  actual: Recalculation,
  revision: number,
): SamplingRequest {
  const proportion = request.estimator === 'proportion'
  if (!proportion && actual.actualSD === undefined)
    throw invalid('actualSD', 'missing; give a number of at least 0')
  if (proportion && actual.actualMean > 1)
    throw invalid('actualMean', `give a proportion above 0 and at most 1, not ${actual.actualMean}`)
  for (const [index, { actualMean = 1 }] of (actual.strata ?? []).entries())
    if (proportion && actualMean > 1)
      throw invalid(
        `strata.${index}.actualMean`,
        `give a proportion above 0 and at most 1, not ${actualMean}`,
      )
  const found = new Map(actual.strata?.map((stratum) => [stratum.name, stratum]))
  const strata = request.stratification?.strata?.map((stratum) => {
    const { actualMean, actualSD, actualDropoutRate, basis } = found.get(stratum.name) ?? {}
    found.delete(stratum.name)
    return {
      ...stratum,
      ...(actualMean !== undefined && { mean: actualMean }),
      ...(actualSD !== undefined && { sd: actualSD }),
      ...(actualDropoutRate !== undefined && { dropoutRate: actualDropoutRate }),
      ...(basis !== undefined && { basis }),
    }
  })
  const [unknown] = found.keys()
  if (unknown !== undefined) throw invalid('strata', `the design has no stratum "${unknown}"`)
  return {
    ...request,
    expectedMean: actual.actualMean,
    expectedSD: actual.actualSD ?? request.expectedSD,
    dropoutRate: actual.actualDropoutRate,
    ...(actual.erCoverage !== undefined && { erCoverage: actual.erCoverage }),
    ...justified(request, actual, revision),
    ...(request.stratification && {
      stratification: { ...request.stratification, ...(strata && { strata }) },
    }),
  }
}

/**
 * The justifications of a revision. What supported an expected value does not support another one that was measured: the
 * period supports it, where the period tells how many answers it is from.
 */
function justified(
  { justification, expectedMean, expectedSD, dropoutRate }: SamplingRequest,
  actual: Recalculation,
  revision: number,
): Pick<SamplingRequest, 'justification'> {
  const counts = [actual.completes, ...(actual.strata ?? []).map(({ completes }) => completes)]
  const completes = actual.completes ?? counts.reduce<number>((sum, one) => sum + (one ?? 0), 0)
  const measured = (what: string) =>
    completes > 0
      ? {
          text: `${what} of ${completes} completed answers of the monitoring period.`,
          source: `The recalculation of revision ${revision}`,
        }
      : undefined
  const isSame = {
    mean: actual.actualMean === expectedMean,
    sd: actual.actualSD === undefined || actual.actualSD === expectedSD,
    dropoutRate: actual.actualDropoutRate === dropoutRate,
  }
  const { mean, sd, dropoutRate: dropout, sdCalculation } = justification ?? {}
  const kept = {
    mean: isSame.mean ? mean : measured(`The mean ${actual.actualMean}`),
    sd: isSame.sd ? sd : measured(`The standard deviation ${actual.actualSD}`),
    dropoutRate: isSame.dropoutRate ? dropout : measured(`The dropout ${actual.actualDropoutRate}`),
    sdCalculation: isSame.sd ? sdCalculation : undefined,
    ...actual.justification,
  }
  const given = Object.entries(kept).filter(([, value]) => value !== undefined)
  return { justification: given.length > 0 ? Object.fromEntries(given) : undefined }
}

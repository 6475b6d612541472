import { discounted, reliability, type Reliability } from '../arithmetic/arithmetic.ts'
import { clusterEffect } from '../arithmetic/clusters.ts'
import { exact, minus, one, over, times, toRoot } from '../arithmetic/rational.ts'
import { weightedReliability, type WeightedReliability } from '../arithmetic/weighted.ts'
import { invalid } from '../refusal.ts'
import type { Recalculation, SamplingRequest } from '../request.ts'
import type { Figures } from './design.ts'

/** The precision that a period reached, in whole and by stratum. */
export type PeriodReliability = Reliability &
  Partial<Pick<WeightedReliability, 'mean' | 'degreesOfFreedom'>> & {
    /** `weighted`: the mean of the strata by their populations; `simple`: one mean of all answers. */
    readonly estimator: 'simple' | 'weighted'
    readonly completes: number
    readonly erConservative?: number
    readonly strata?: readonly (Reliability & {
      readonly name: string
      readonly completes: number
      readonly mean: number
    })[]
    /** Whether the period met other levels, which the design asks to have reported. */
    readonly reports?: readonly {
      readonly confidence: number
      readonly precision: number
      readonly standard?: string
      readonly relHalfWidth: number
      readonly meetsPrecision: boolean
    }[]
  }

interface Level {
  readonly confidence: number
  readonly precision: number
}

/** How reliable a period was; undefined where nobody says how many answers were completed. */
export function reliabilityOf(
  request: SamplingRequest,
  figures: Figures,
  actual: Recalculation,
): PeriodReliability | undefined {
  const { er } = actual
  const at = byStratum(request, figures, actual) ?? inWhole(request, figures, actual)
  if (!at) return undefined
  const found = at(request)
  return {
    ...found,
    ...(er !== undefined && { erConservative: discounted(er, found.relHalfWidth) }),
    ...(request.reports && {
      reports: request.reports.map(({ confidence, precision, standard }) => {
        const { relHalfWidth, meetsPrecision } = at({ confidence, precision })
        return {
          confidence,
          precision,
          ...(standard !== undefined && { standard }),
          relHalfWidth,
          meetsPrecision,
        }
      }),
    }),
  }
}

type AtLevel = (level: Level) => PeriodReliability

function inWhole(
  request: SamplingRequest,
  { parameters: { population } }: Figures,
  { actualMean: mean, actualSD: sd, completes }: Recalculation,
): AtLevel | undefined {
  if (completes === undefined) return undefined
  mustFit('completes', completes, population)
  mustBeWorkable('actualSD', sd)
  const { estimator } = request
  const effect = effectOf(request)
  return ({ confidence, precision }) => ({
    estimator: 'simple',
    completes,
    ...reliability({ confidence, precision, population, estimator, mean, sd, completes, effect }),
  })
}

/** The weighted estimator, where the period counts the completed answers of every stratum. */
function byStratum(
  request: SamplingRequest,
  { stratification }: Figures,
  actual: Recalculation,
): AtLevel | undefined {
  const counted = new Map(actual.strata?.map((one) => [one.name, one]))
  const strata = stratification?.strata ?? []
  if (![...counted.values()].some(({ completes }) => completes !== undefined)) return undefined
  const found = strata.map(({ name, population }, index) => {
    const own = counted.get(name)
    const at = `strata.${index}`
    if (own?.completes === undefined)
      throw invalid(
        'strata',
        `stratum "${name}" has no completes, and other strata have some`,
        'Give the completed answers of every stratum, or of none.',
      )
    mustFit(`${at}.completes`, own.completes, population)
    const mean = own.actualMean ?? actual.actualMean
    const sd = own.actualSD ?? actual.actualSD
    mustBeWorkable(`${at}.actualSD`, sd)
    return { name, population, completes: own.completes, mean, sd }
  })
  const completes = found.reduce((sum, one) => sum + one.completes, 0)
  if (actual.completes !== undefined && actual.completes !== completes)
    throw invalid(
      'completes',
      `${actual.completes} are not the ${completes} of the strata together`,
    )
  const { estimator } = request
  const effect = effectOf(request)
  return (level) => {
    const strata = found.map(({ name, population, completes, mean, sd }) => ({
      name,
      completes,
      mean,
      ...reliability({ ...level, population, estimator, mean, sd, completes, effect }),
    }))
    const weighted = weightedReliability(
      found.map((one) => ({
        ...one,
        sd: estimator === 'proportion' ? deviationOfShare(one.mean, one.completes) : (one.sd ?? 0),
        effect,
      })),
      level,
    )
    return { estimator: 'weighted', completes, ...weighted, strata }
  }
}

/** The deviation of n answers of which a share is yes, with the divisor n - 1. */
function deviationOfShare(share: number, completes: number): number {
  const p = exact(share)
  const n = exact(completes)
  return toRoot(over(times(n, times(p, minus(one, p))), minus(n, one)))
}

/** The effect of clusters on the variance; how two stages vary is in the deviation that the period found. */
const effectOf = ({ deff }: SamplingRequest): number | undefined =>
  deff?.kind === 'cluster' ? clusterEffect(deff.clusterSize, deff.icc) : undefined

function mustFit(field: string, completes: number, population: number): void {
  if (completes > population)
    throw invalid(field, `${completes} are more than the population of ${population}`)
}

/** Student's t multiplies the deviation by up to 13, and the product must stay finite. */
function mustBeWorkable(field: string, sd: number | undefined): void {
  if (sd !== undefined && !Number.isFinite(100 * sd))
    throw invalid(field, `the standard deviation ${sd} is too large to be worked with`)
}

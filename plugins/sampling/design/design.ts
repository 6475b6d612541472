import { discounted } from '../arithmetic/arithmetic.ts'
import { deviationOf } from '../arithmetic/deviation.ts'
import { exact, minus, one, toNumber } from '../arithmetic/rational.ts'
import { insufficient } from '../refusal.ts'
import type { SamplingRequest } from '../request.ts'
import { levelReports, type LevelReport } from '../reports/levels.ts'
import { divide, type Chosen, type Stratification } from './divide.ts'
import { effectOf, figuresOf, type EffectFigures } from './effect.ts'
import { partition } from './partition.ts'
import { within, work, type Warning, type Working } from './population.ts'

/** The figures of a design: everything but its id, its time and its verification. */
export interface Figures {
  readonly parameters: {
    readonly confidence: number
    readonly precision: number
    readonly population: number
    readonly estimator: 'mean' | 'proportion'
    readonly expectedMean: number
    readonly expectedSD: number | null
    readonly dropoutRate: number
    readonly calculatedSize: number
    readonly adjustedSize: number
    readonly erCoverage: number
    readonly erCoverageBasis: 'given' | 'default'
    readonly smallSampleCorrection: boolean
    readonly allowCensus: boolean
  }
  readonly working: {
    readonly z: number
    readonly relativeVariance: number
    readonly baseUnrounded: number
    readonly fpcUnrounded: number
    readonly tSize: number
    readonly tAdjustedSize: number
    readonly imprecisionDiscount: number
    readonly expectedER?: number
    readonly erConservative?: number
    readonly deff?: EffectFigures
  }
  readonly stratification?: Stratification
  readonly justification?: SamplingRequest['justification']
  /** The sizes at other levels, beside the mandatory ones, which alone decide. */
  readonly reports?: readonly LevelReport[]
  readonly warnings: readonly Warning[]
}

/**
 * Works out a design; among many strata other requests are served meanwhile. Throws what the request lacks; nothing is
 * stored by then. `unread` is what of a body was not read; `fields` names where the caller has the mean and the deviation.
 */
export async function design(
  request: SamplingRequest,
  unread: readonly Warning[] = [],
  fields = { mean: 'expectedMean', sd: 'expectedSD' },
): Promise<Figures> {
  const population = atLeastTwo(request.population)
  const simple = work(request, population, {}, fields)
  const effect = effectOf(request, population, simple)
  const pooled = effect?.working ?? simple
  const warnings: Warning[] = [...unread]
  const { stratification } = request
  const strata = stratification?.enabled ? stratification.strata : undefined
  const parts = strata && partition(strata, population)
  const chosen = parts
    ? await divide(request, parts, stratification?.method ?? 'proportional', pooled, warnings)
    : alone(request, population, pooled, warnings)
  const { calculatedSize, adjustedSize } = chosen

  if (!request.smallSampleCorrection && pooled.tSize > pooled.calculatedSize)
    warnings.push({
      code: 'SMALL_SAMPLE',
      message:
        `With Student's t instead of the normal distribution the size is ${pooled.tSize}, ` +
        `${pooled.tAdjustedSize} with dropout. Set smallSampleCorrection to use it.`,
    })
  const { erCoverage, expectedER } = request
  if (erCoverage === undefined)
    warnings.push({
      code: 'ER_COVERAGE_DEFAULT',
      message:
        'No erCoverage was given; 1 - dropoutRate stands in for it and should be documented.',
    })
  warnings.push(...unsupported(request))

  return {
    parameters: {
      confidence: request.confidence,
      precision: request.precision,
      population,
      estimator: request.estimator,
      expectedMean: request.expectedMean,
      expectedSD: request.expectedSD ?? null,
      dropoutRate: request.dropoutRate,
      calculatedSize,
      adjustedSize,
      erCoverage: erCoverage ?? toNumber(minus(one, exact(request.dropoutRate))),
      erCoverageBasis: erCoverage === undefined ? 'default' : 'given',
      smallSampleCorrection: request.smallSampleCorrection,
      allowCensus: request.allowCensus,
    },
    working: {
      z: pooled.z,
      relativeVariance: pooled.relativeVariance,
      baseUnrounded: pooled.baseUnrounded,
      fpcUnrounded: pooled.fpcUnrounded,
      tSize: pooled.tSize,
      tAdjustedSize: pooled.tAdjustedSize,
      imprecisionDiscount: request.precision,
      ...(expectedER !== undefined && {
        expectedER,
        erConservative: discounted(expectedER, request.precision),
      }),
      ...(effect && { deff: figuresOf(effect, adjustedSize) }),
    },
    ...(chosen.stratification && { stratification: chosen.stratification }),
    ...(request.justification && { justification: request.justification }),
    ...(request.reports && { reports: levelReports(request, population, parts) }),
    warnings,
  }
}

function atLeastTwo(population: number | undefined): number {
  if (population !== undefined && population >= 2) return population
  throw insufficient(
    population === undefined
      ? 'The population is not given.'
      : `A population of ${population} is too small to sample.`,
    'Give the number of households; a sample needs at least 2.',
    { field: 'population', value: population ?? null, required: 2, available: population ?? 0 },
  )
}

function alone(
  { allowCensus }: SamplingRequest,
  population: number,
  pooled: Working,
  warnings: Warning[],
): Chosen {
  const adjustedSize = within(pooled.adjustedSize, population, allowCensus, 'population', warnings)
  return { calculatedSize: pooled.calculatedSize, adjustedSize }
}

/** What a request says of its mean, deviation and dropout without supporting it, or against its own values. */
function unsupported({ justification, estimator, expectedSD = 0 }: SamplingRequest): Warning[] {
  const warnings: Warning[] = []
  const fields = { mean: 'mean', sd: 'standard deviation', dropoutRate: 'dropout rate' } as const
  for (const field of ['mean', 'sd', 'dropoutRate'] as const)
    if (!justification?.[field] && !(field === 'sd' && estimator === 'proportion'))
      warnings.push({
        code: 'NOT_JUSTIFIED',
        message: `The expected ${fields[field]} is not justified: give justification.${field} with its text and source.`,
      })
  const data = justification?.sdCalculation?.data
  const found = data && estimator === 'mean' ? deviationOf(data, expectedSD) : undefined
  if (found && !found.agrees)
    warnings.push({
      code: 'SD_DIFFERS',
      message:
        `The ${found.n} values of justification.sdCalculation have the standard deviation ${found.sd} ` +
        `and the mean ${found.mean}; the design has ${expectedSD}.`,
    })
  return warnings
}

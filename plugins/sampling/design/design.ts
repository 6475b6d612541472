import {
  discounted,
  sampleSize,
  studentSize,
  withDropout,
  type SmallQuestion,
} from '../arithmetic/arithmetic.ts'
import { partition, type Part } from './partition.ts'
import {
  compare,
  exact,
  minus,
  one,
  over,
  times,
  toNumber,
  toRoot,
} from '../arithmetic/rational.ts'
import { insufficient, invalid } from '../refusal.ts'
import type { SamplingRequest } from '../request.ts'
import { allocate, smallestTotal, totalBounds } from './strata.ts'

/** What one population needs, with every intermediate value. */
export interface Working {
  readonly z: number
  readonly relativeVariance: number
  readonly baseUnrounded: number
  readonly fpcUnrounded: number
  readonly calculatedSize: number
  readonly adjustedSize: number
  readonly tSize: number
  readonly tAdjustedSize: number
}

/** What a reader of a design should know of it. */
export interface Warning {
  readonly code: string
  readonly message: string
}

/** The figures of a stratum. */
export interface StratumFigures {
  readonly name: string
  readonly weight: number
  readonly population: number
  /** What its own mean, deviation, dropout and population demand. */
  readonly requiredSize: number
  /** What it gets. */
  readonly sampleSize: number
  readonly mean: number
  /** Of a proportion the one that it brings, √(p (1 - p)). */
  readonly sd: number
  readonly dropoutRate: number
  readonly basis?: string
  readonly note?: string
  readonly working: Working
}

/** The figures of a design: everything but its name, its time and its verification. */
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
  }
  readonly stratification?: {
    readonly method: 'proportional' | 'independent' | 'pooled'
    readonly pooledSize: number
    readonly oversampling: number
    readonly strata: readonly StratumFigures[]
  }
  readonly justification?: SamplingRequest['justification']
  readonly warnings: readonly Warning[]
}

/**
 * The longest search for a proportional total, in totals times strata: a fraction of a second. It takes longest for
 * a stratum that is a tiny part of the whole.
 */
const longestSearch = 500_000

/** Works out a design. Throws what the request lacks; nothing is stored by then. */
export function design(request: SamplingRequest): Figures {
  const population = atLeastTwo(request.population)
  const pooled = work(request, population, {})
  const warnings: Warning[] = []
  const { stratification } = request
  const strata = stratification?.enabled ? stratification.strata : undefined
  const parts = strata && partition(strata, population)
  const chosen = parts
    ? divide(request, parts, stratification?.method ?? 'proportional', pooled, warnings)
    : alone(request, population, pooled, warnings)
  const { calculatedSize, adjustedSize } = chosen

  if (!request.smallSampleCorrection && pooled.tSize > pooled.calculatedSize)
    warnings.push({
      code: 'SMALL_SAMPLE',
      message: `With Student's t instead of the normal distribution the size is ${pooled.tSize}, ${pooled.tAdjustedSize} with dropout. Set smallSampleCorrection to use it.`,
    })
  const { erCoverage, expectedER } = request
  if (erCoverage === undefined)
    warnings.push({
      code: 'ER_COVERAGE_DEFAULT',
      message:
        'No erCoverage was given; 1 - dropoutRate stands in for it and should be documented.',
    })
  for (const [field, text] of Object.entries({
    mean: 'mean',
    sd: 'standard deviation',
    dropoutRate: 'dropout rate',
  }))
    if (
      !request.justification?.[field as 'mean' | 'sd' | 'dropoutRate'] &&
      !(field === 'sd' && request.estimator === 'proportion')
    )
      warnings.push({
        code: 'NOT_JUSTIFIED',
        message: `The expected ${text} is not justified: give justification.${field} with its text and source.`,
      })

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
    },
    ...(chosen.stratification && { stratification: chosen.stratification }),
    ...(request.justification && { justification: request.justification }),
    warnings,
  }
}

function deviationOf(request: SamplingRequest, part: Parameters): number {
  if (request.estimator === 'mean') return part.sd ?? request.expectedSD ?? 0
  const p = exact(part.mean ?? request.expectedMean)
  return toRoot(times(p, minus(one, p)))
}

/** What replaces the project's own parameters. */
interface Parameters {
  readonly mean?: number
  readonly sd?: number
  readonly dropoutRate?: number
}

function work(
  request: SamplingRequest,
  population: number,
  own: Parameters,
  fields = { mean: 'expectedMean', sd: 'expectedSD' },
): Working {
  const question: SmallQuestion = {
    confidence: request.confidence,
    precision: request.precision,
    population,
    estimator: request.estimator,
    mean: own.mean ?? request.expectedMean,
    sd: own.sd ?? request.expectedSD ?? 0,
  }
  const dropout = own.dropoutRate ?? request.dropoutRate
  const { z, relativeVariance, base, finite, size } = sampleSize(question)
  // The size would be right, but no reader could be shown how it came about.
  if (!Number.isFinite(relativeVariance) || !Number.isFinite(base))
    throw question.estimator === 'proportion'
      ? invalid(fields.mean, `the proportion ${question.mean} is too small to be worked with`)
      : invalid(
          fields.sd,
          `the standard deviation ${question.sd} is too many times the mean ${question.mean}`,
          'Give both in the same unit.',
        )
  const tSize = studentSize(question)
  const calculatedSize = request.smallSampleCorrection ? tSize : size
  return {
    z,
    relativeVariance,
    baseUnrounded: base,
    fpcUnrounded: finite,
    calculatedSize,
    adjustedSize: withDropout(calculatedSize, dropout),
    tSize,
    tAdjustedSize: withDropout(tSize, dropout),
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

interface Chosen {
  readonly calculatedSize: number
  readonly adjustedSize: number
  readonly stratification?: NonNullable<Figures['stratification']>
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

type Method = NonNullable<Figures['stratification']>['method']

/** A stratum: its part of the population, what it demands, and the working that says so. */
interface Stratum {
  readonly part: Part
  readonly required: number
  readonly working: Working
}

/** How large the strata become together, and each of them. */
interface Sizes {
  readonly calculatedSize: number
  readonly sizes: readonly number[]
}

function divide(
  request: SamplingRequest,
  parts: readonly Part[],
  method: Method,
  pooled: Working,
  warnings: Warning[],
): Chosen {
  const population = parts.reduce((sum, part) => sum + part.population, 0)
  const strata = demanded(request, parts, method, warnings)
  const pooledSize = within(
    pooled.adjustedSize,
    population,
    request.allowCensus || method !== 'pooled',
    'population',
    method === 'pooled' ? warnings : [],
  )
  const { calculatedSize, sizes } =
    method === 'independent'
      ? independent(strata)
      : method === 'pooled'
        ? shared(strata, pooled.calculatedSize, pooledSize, warnings)
        : proportional(request, strata, population, warnings)
  const adjustedSize = sizes.reduce((sum, size) => sum + size, 0)
  return {
    calculatedSize,
    adjustedSize,
    stratification: {
      method,
      pooledSize,
      oversampling: toNumber(over(exact(adjustedSize), exact(pooledSize))),
      strata: strata.map(({ part, required, working }, index) => ({
        name: part.name,
        weight: part.weight,
        population: part.population,
        requiredSize: required,
        sampleSize: sizes[index]!,
        mean: part.mean ?? request.expectedMean,
        sd: deviationOf(request, part),
        dropoutRate: part.dropoutRate ?? request.dropoutRate,
        ...(part.basis !== undefined && { basis: part.basis }),
        ...(part.note !== undefined && { note: part.note }),
        working,
      })),
    },
  }
}

/** What each stratum demands by itself. All are worked out before the first is held against its population. */
function demanded(
  request: SamplingRequest,
  parts: readonly Part[],
  method: Method,
  warnings: Warning[],
): Stratum[] {
  const worked = parts.map((part, index) => {
    const at = `stratification.strata.${index}`
    const fields = { mean: `${at}.mean`, sd: `${at}.sd` }
    return { part, at, working: work(request, part.population, part, fields) }
  })
  return worked.map(({ part, at, working }) => {
    const { population, name } = part
    const size = working.adjustedSize
    const required =
      method === 'pooled'
        ? Math.min(size, population)
        : within(size, population, request.allowCensus, `${at}.population`, warnings, name)
    return { part, required, working }
  })
}

/** Each stratum gets what it demands. */
const independent = (strata: readonly Stratum[]): Sizes => ({
  calculatedSize: strata.reduce((sum, { working }) => sum + working.calculatedSize, 0),
  sizes: strata.map(({ required }) => required),
})

/** The size of the whole population is shared out by weight. */
function shared(
  strata: readonly Stratum[],
  calculatedSize: number,
  pooledSize: number,
  warnings: Warning[],
): Sizes {
  const sizes = allocate(pooledSize, strata.map(demandOf))
  warnings.push({
    code: 'POOLED',
    message:
      'One size for all strata was shared out by weight: single strata may miss the precision. requiredSize tells what each needs.',
  })
  return { calculatedSize, sizes }
}

/** The smallest total that gives each stratum what it demands when it is shared out by weight. */
function proportional(
  { allowCensus, dropoutRate }: SamplingRequest,
  strata: readonly Stratum[],
  population: number,
  warnings: Warning[],
): Sizes {
  const demands = strata.map(demandOf)
  const { low, high } = totalBounds(demands)
  const first = calculatedBelow(low, dropoutRate) + 1
  if ((high - low) * strata.length > longestSearch) {
    const smallest = strata.map(({ part }) => part).reduce((a, b) => (b.weight < a.weight ? b : a))
    throw insufficient(
      `Stratum "${smallest.name}" with the weight ${smallest.weight} is too small a part for a proportional sample.`,
      'Use the method "independent", or merge the stratum with another.',
      {
        field: 'stratification.method',
        value: 'proportional',
        required: high,
        available: population,
      },
    )
  }
  const found = smallestTotal(demands, calculatedSizes(first, population, dropoutRate), (size) =>
    withDropout(size, dropoutRate),
  )
  if (found) return { calculatedSize: found.candidate, sizes: found.sizes }
  const least = Math.max(high, population + 1)
  const total = within(least, population, allowCensus, 'population', warnings)
  return {
    calculatedSize: Math.min(population, calculatedBelow(total, dropoutRate) + 1),
    sizes: allocate(total, demands),
  }
}

const demandOf = ({ part, required }: Stratum) => ({
  weight: exact(part.weight),
  required,
  most: part.population,
})

/** The largest calculated size whose size with dropout stays below `total`. */
function calculatedBelow(total: number, dropoutRate: number): number {
  const stays = minus(one, exact(dropoutRate))
  // ⌈c/s⌉ < T means c ≤ s·(T - 1).
  const most = { num: stays.num * BigInt(total - 1), den: stays.den }
  return Number(most.num / most.den)
}

function* calculatedSizes(first: number, population: number, dropoutRate: number) {
  for (let size = first; withDropout(size, dropoutRate) <= population; size++) yield size
}

/** A size that the population can give; with `allowCensus` everybody is asked instead of refusing. */
function within(
  size: number,
  population: number,
  allowCensus: boolean,
  field: string,
  warnings: Warning[],
  stratum?: string,
): number {
  if (compare(exact(size), exact(population)) <= 0) return size
  const whose = stratum === undefined ? 'The population' : `Stratum "${stratum}"`
  if (!allowCensus)
    throw insufficient(
      `${whose} has ${population}, and ${size} are required with dropout.`,
      'Set allowCensus to ask everybody, expect a lower dropout rate, or widen the population.',
      { field, value: population, required: size, available: population },
    )
  warnings.push({
    code: 'CENSUS',
    message: `${whose} has ${population}, fewer than the ${size} required: everybody is asked, and with the expected dropout the precision may be missed.`,
  })
  return population
}

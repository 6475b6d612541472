import { giveWay } from '#core'
import { withDropout } from '../arithmetic/arithmetic.ts'
import { exact, minus, one, over, times, toNumber, toRoot } from '../arithmetic/rational.ts'
import { insufficient } from '../refusal.ts'
import type { SamplingRequest } from '../request.ts'
import type { Part } from './partition.ts'
import { within, work, type Parameters, type Warning, type Working } from './population.ts'
import { allocate, smallestTotal, totalBounds } from './strata.ts'

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

/** How the strata of a design share its sample. */
export interface Stratification {
  readonly method: 'proportional' | 'independent' | 'pooled'
  readonly pooledSize: number
  readonly oversampling: number
  readonly strata: readonly StratumFigures[]
}

/** The size of a design, and its strata where it has any. */
export interface Chosen {
  readonly calculatedSize: number
  readonly adjustedSize: number
  readonly stratification?: Stratification
}

/**
 * The longest search for a proportional total, in totals times strata: a fraction of a second. It takes longest for
 * a stratum that is a tiny part of the whole.
 */
const longestSearch = 500_000

type Method = Stratification['method']

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

/** Divides the sample among the strata of a population, and works out what each of them demands and gets. */
export async function divide(
  request: SamplingRequest,
  parts: readonly Part[],
  method: Method,
  pooled: Working,
  warnings: Warning[],
): Promise<Chosen> {
  const population = parts.reduce((sum, part) => sum + part.population, 0)
  const strata = await demanded(request, parts, method, warnings)
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

function deviationOf(request: SamplingRequest, part: Parameters): number {
  if (request.estimator === 'mean') return part.sd ?? request.expectedSD ?? 0
  const p = exact(part.mean ?? request.expectedMean)
  return toRoot(times(p, minus(one, p)))
}

/**
 * What each stratum demands by itself. All are worked out before the first is held against its population; the
 * correction for small samples makes one stratum cost up to a few milliseconds.
 */
async function demanded(
  request: SamplingRequest,
  parts: readonly Part[],
  method: Method,
  warnings: Warning[],
): Promise<Stratum[]> {
  const worked: { part: Part; at: string; working: Working }[] = []
  for (const [index, part] of parts.entries()) {
    const at = `stratification.strata.${index}`
    const fields = { mean: `${at}.mean`, sd: `${at}.sd` }
    worked.push({ part, at, working: work(request, part.population, part, fields) })
    await giveWay()
  }
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

/** Divides the sample size of the whole population among the strata by weight. */
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

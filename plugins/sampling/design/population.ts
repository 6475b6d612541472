import {
  sampleSize,
  studentSize,
  withDropout,
  type SmallQuestion,
} from '../arithmetic/arithmetic.ts'
import { clusterEffect } from '../arithmetic/clusters.ts'
import { compare, exact } from '../arithmetic/rational.ts'
import { insufficient, invalid } from '../refusal.ts'
import type { SamplingRequest } from '../request.ts'

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

/** What a stratum has of its own in place of the project's parameters. */
export interface Parameters {
  readonly mean?: number
  readonly sd?: number
  readonly dropoutRate?: number
}

/** Works out what one population demands. `fields` names where the request has the mean and the deviation. */
export function work(
  request: SamplingRequest,
  population: number,
  own: Parameters,
  fields: { readonly mean: string; readonly sd: string },
): Working {
  const clusters = request.deff?.kind === 'cluster' ? request.deff : undefined
  const question: SmallQuestion = {
    confidence: request.confidence,
    precision: request.precision,
    population,
    estimator: request.estimator,
    mean: own.mean ?? request.expectedMean,
    sd: own.sd ?? request.expectedSD ?? 0,
    ...(clusters && { effect: clusterEffect(clusters.clusterSize, clusters.icc) }),
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

/** A size that the population can give; with `allowCensus` everybody is asked instead of refusing. */
export function within(
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
    message:
      `${whose} has ${population}, fewer than the ${size} required: everybody is asked, and with ` +
      'the expected dropout the precision may be missed.',
  })
  return population
}

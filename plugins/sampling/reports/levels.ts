import { sampleSize, withDropout, type Question } from '../arithmetic/arithmetic.ts'
import { clusterEffect, twoStageSize } from '../arithmetic/clusters.ts'
import { twoStageOf } from '../design/effect.ts'
import type { Part } from '../design/partition.ts'
import type { Parameters } from '../design/population.ts'
import type { SamplingRequest } from '../request.ts'

/** The sizes at another confidence and precision, which other standards ask for. They decide nothing. */
export interface LevelReport {
  readonly confidence: number
  readonly precision: number
  readonly standard?: string
  readonly calculatedSize: number
  readonly adjustedSize: number
  readonly strata?: readonly { readonly name: string; readonly requiredSize: number }[]
}

/** Works out the sizes at the levels that a request asks to have reported. */
export function levelReports(
  request: SamplingRequest,
  population: number,
  parts: readonly Part[] | undefined,
): LevelReport[] {
  return (request.reports ?? []).map(({ confidence, precision, standard }) => {
    const level = { confidence, precision }
    const calculatedSize = sizeAt(request, population, {}, level)
    return {
      ...level,
      ...(standard !== undefined && { standard }),
      calculatedSize,
      adjustedSize: withDropout(calculatedSize, request.dropoutRate),
      ...(parts && {
        strata: parts.map((part) => ({
          name: part.name,
          requiredSize: withDropout(
            sizeAt(request, part.population, part, level),
            part.dropoutRate ?? request.dropoutRate,
          ),
        })),
      }),
    }
  })
}

function sizeAt(
  request: SamplingRequest,
  population: number,
  own: Parameters,
  level: { confidence: number; precision: number },
): number {
  const effect = request.deff
  if (effect?.kind === 'two-stage') {
    const { clusters } = twoStageSize(twoStageOf(request, effect, level))
    return Math.min(population, clusters * effect.take)
  }
  const question: Question = {
    ...level,
    population,
    estimator: request.estimator,
    mean: own.mean ?? request.expectedMean,
    sd: own.sd ?? request.expectedSD ?? 0,
    ...(effect && { effect: clusterEffect(effect.clusterSize, effect.icc) }),
  }
  return sampleSize(question).size
}

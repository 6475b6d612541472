import { withDropout } from '../arithmetic/arithmetic.ts'
import { clusterEffect, twoStageSize, type TwoStage } from '../arithmetic/clusters.ts'
import { exact, over, toNumber } from '../arithmetic/rational.ts'
import { insufficient, invalid } from '../refusal.ts'
import type { DesignEffect, SamplingRequest } from '../request.ts'
import type { Working } from './population.ts'

/** What a design effect does to a size. */
export interface Effect {
  readonly asked: DesignEffect
  /** How many times the size of a simple random sample is needed; of a sample of clusters the factor of the variance. */
  readonly value: number
  readonly formula: string
  readonly working: Working
  /** The clusters before rounding, in two stages. */
  readonly clustersUnrounded?: number
}

/** The design effect in the record of a design. */
export interface EffectFigures {
  readonly kind: DesignEffect['kind']
  readonly value: number
  readonly formula: string
  /** How many clusters the households of the sample come from. */
  readonly clusters: number
  readonly clustersUnrounded?: number
}

/** The effect that a request declares, on the size that a simple random sample of its population needs. */
export function effectOf(
  request: SamplingRequest,
  population: number,
  working: Working,
): Effect | undefined {
  const { deff: asked, dropoutRate } = request
  if (!asked) return undefined
  if (asked.kind === 'cluster') {
    const { clusterSize, icc } = asked
    const value = clusterEffect(clusterSize, icc)
    const formula = `deff = 1 + (m - 1) icc = 1 + (${clusterSize} - 1) ${icc}; V is multiplied by it`
    return { asked, value, formula, working }
  }
  if (request.stratification?.enabled)
    throw invalid(
      'deff.kind',
      '"two-stage" and strata are not worked out together',
      'Make a design for each stratum, or declare clusters.',
    )
  if (asked.take > asked.clusterSize)
    throw invalid('deff.take', `${asked.take} are more than the ${asked.clusterSize} of a cluster`)
  const { unrounded, clusters, tClusters } = twoStageSize(twoStageOf(request, asked))
  const drawn = request.smallSampleCorrection ? tClusters : clusters
  if (drawn > asked.clusters)
    throw insufficient(
      `There are ${asked.clusters} clusters, and ${drawn} are required with ${asked.take} households in each.`,
      'Draw more households in each cluster.',
      {
        field: 'deff.clusters',
        value: asked.clusters,
        required: drawn,
        available: asked.clusters,
      },
    )
  const calculatedSize = Math.min(population, drawn * asked.take)
  const tSize = Math.min(population, tClusters * asked.take)
  return {
    asked,
    value: toNumber(over(exact(calculatedSize), exact(working.calculatedSize))),
    formula:
      'c = (SB²/mean² M/(M - 1) + SW²/mean²/u (N - u)/(N - 1)) / (e²/z² + SB²/mean²/(M - 1)), and u households in each',
    clustersUnrounded: unrounded,
    working: {
      ...working,
      calculatedSize,
      adjustedSize: withDropout(calculatedSize, dropoutRate),
      tSize,
      tAdjustedSize: withDropout(tSize, dropoutRate),
    },
  }
}

/** The question of two stages, at the confidence and precision of a request or at other ones. */
export const twoStageOf = (
  request: SamplingRequest,
  asked: Extract<DesignEffect, { kind: 'two-stage' }>,
  { confidence, precision }: { confidence: number; precision: number } = request,
): TwoStage => ({ ...asked, mean: request.expectedMean, confidence, precision })

/** The effect as the record shows it, with the clusters that the households to draw come from. */
export function figuresOf(
  { asked, value, formula, clustersUnrounded }: Effect,
  adjustedSize: number,
): EffectFigures {
  const perCluster = asked.kind === 'cluster' ? asked.clusterSize : asked.take
  const clusters = Math.ceil(adjustedSize / perCluster)
  if (asked.kind === 'two-stage' && clusters > asked.clusters)
    throw insufficient(
      `There are ${asked.clusters} clusters, and ${clusters} are required with dropout.`,
      'Draw more households in each cluster, or expect a lower dropout rate.',
      {
        field: 'deff.clusters',
        value: asked.clusters,
        required: clusters,
        available: asked.clusters,
      },
    )
  return {
    kind: asked.kind,
    value,
    formula,
    clusters,
    ...(clustersUnrounded !== undefined && { clustersUnrounded }),
  }
}

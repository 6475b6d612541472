import { agreed, decided, each, tAtMost, zSquared } from './deciding.ts'
import {
  ceiling,
  exact,
  minus,
  one,
  over,
  plus,
  squared,
  times,
  toNumber,
  type Exact,
  type Rational,
} from './rational.ts'

/** Kish's design effect of a sample of clusters: deff = 1 + (m - 1)·icc. */
export const clusterEffect = (clusterSize: Exact, icc: Exact): number =>
  toNumber(plus(one, times(minus(exact(clusterSize), one), exact(icc))))

/** A sample in two stages: of `clusters` some are drawn, and `take` households of the `clusterSize` in each. */
export interface TwoStage {
  readonly confidence: Exact
  /** The half-width of the interval as a fraction of the mean. */
  readonly precision: Exact
  readonly mean: Exact
  readonly clusters: number
  readonly clusterSize: number
  readonly take: number
  readonly betweenSD: Exact
  readonly withinSD: Exact
}

/** How many clusters two stages need. */
export interface TwoStageSize {
  readonly unrounded: number
  readonly clusters: number
  /** With Student's t instead of z, with one degree of freedom less than clusters. */
  readonly tClusters: number
}

/**
 * The clusters that two stages need, by the formula of the CDM guideline on sampling and surveys for multi-stage sampling:
 * c ≥ (SB²/p²·M/(M - 1) + SW²/p²/u·(N - u)/(N - 1)) / (e²/z² + SB²/p²/(M - 1)). More than M means that all of them do
 * not suffice.
 */
export function twoStageSize(asked: TwoStage): TwoStageSize {
  const { between, within, rest } = variances(asked)
  const needed = plus(times(between, over(exact(asked.clusters), rest)), within)
  const { unrounded, clusters } = decided((digits) => {
    const unrounded = each(zSquared(asked, digits), (z2) =>
      over(needed, plus(over(squared(exact(asked.precision)), z2), over(between, rest))),
    )
    const clusters = agreed(each(unrounded, (c) => exact(ceiling(c))))
    return clusters && { unrounded: toNumber(unrounded.low), clusters: toNumber(clusters) }
  })
  const least = Math.max(1, clusters)
  let low = Math.max(2, least)
  let high = asked.clusters + 1
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    if (isEnough(middle, asked)) high = middle
    else low = middle + 1
  }
  return { unrounded, clusters: least, tClusters: low }
}

/** Whether so many clusters meet the precision with Student's t. */
function isEnough(clusters: number, asked: TwoStage): boolean {
  const { between, within, rest } = variances(asked)
  const c = exact(clusters)
  const open = minus(exact(asked.clusters), c)
  const variance = over(plus(times(between, over(open, rest)), within), c)
  return tAtMost(clusters, asked.confidence, variance, squared(exact(asked.precision)))
}

/** The relative variances of the two stages for one cluster, and M - 1. */
function variances({ mean, clusters, clusterSize, take, betweenSD, withinSD }: TwoStage) {
  const relative = (sd: Exact): Rational => squared(over(exact(sd), exact(mean)))
  const left = over(exact(clusterSize - take), exact(clusterSize - 1))
  return {
    between: relative(betweenSD),
    within: over(times(relative(withinSD), left), exact(take)),
    rest: exact(clusters - 1),
  }
}

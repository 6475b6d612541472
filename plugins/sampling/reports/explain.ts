import type { SampleDesign } from '../design/record.ts'

/** One step of the arithmetic, so that a reader can follow it with a calculator. */
export interface Step {
  readonly step: string
  readonly formula: string
  readonly result: string
}

/** The arithmetic of a design, step by step. */
export function explain(design: SampleDesign): Step[] {
  const { parameters: p, working: w, stratification } = design
  const steps: Step[] = [
    {
      step: 'Quantile',
      formula: `z = Φ⁻¹((1 + ${p.confidence}) / 2)`,
      result: `z = ${w.z}`,
    },
    {
      step: 'Relative variance',
      formula:
        p.estimator === 'mean'
          ? `V = (SD / mean)² = (${p.expectedSD} / ${p.expectedMean})²`
          : `V = (1 - p) / p = (1 - ${p.expectedMean}) / ${p.expectedMean}`,
      result: `V = ${w.relativeVariance}`,
    },
    {
      step: 'Base size, for an infinite population',
      formula: `n₀ = z² V / e², with e = ${p.precision}`,
      result: `n₀ = ${w.baseUnrounded}`,
    },
    {
      step: 'Finite population',
      formula: `n = N n₀ / (N - 1 + n₀), with N = ${p.population}`,
      result: `n = ${w.fpcUnrounded}, rounded up once`,
    },
    {
      step: 'Student’s t',
      formula: 'smallest n with t(n - 1) √(V/n (N - n)/(N - 1)) ≤ e',
      result: `${w.tSize}, with dropout ${w.tAdjustedSize}${p.smallSampleCorrection ? ': this is used' : ': for comparison'}`,
    },
  ]
  if (w.deff)
    steps.push({
      step: 'Design effect',
      formula: w.deff.formula,
      result: `${w.deff.value}; ${w.deff.clusters} clusters`,
    })
  if (!stratification)
    steps.push({
      step: 'Dropout',
      formula: `⌈${p.calculatedSize} / (1 - ${p.dropoutRate})⌉${p.adjustedSize === p.population ? ', at most the population' : ''}`,
      result: `${p.calculatedSize} completed answers are needed, ${p.adjustedSize} households are drawn`,
    })
  else steps.push(...strataSteps(design, stratification))
  steps.push({
    step: 'Emission reductions',
    formula: `counted × (1 - ${w.imprecisionDiscount}), coverage ${p.erCoverage} (${p.erCoverageBasis})`,
    result:
      w.erConservative === undefined
        ? 'no expected reductions were given'
        : `${w.expectedER} become ${w.erConservative}`,
  })
  for (const { confidence, precision, standard, calculatedSize, adjustedSize } of design.reports ??
    [])
    steps.push({
      step: `Beside it, at ${confidence} and ${precision}${standard === undefined ? '' : ` (${standard})`}`,
      formula: 'the same steps at another level; this size decides nothing',
      result: `${calculatedSize}, with dropout ${adjustedSize}`,
    })
  const { change, reliability } = design
  if (change)
    steps.push({
      step: 'Change',
      formula: `${p.adjustedSize} now, ${change.previousAdjustedSize} before`,
      result: `${change.direction}, by ${Math.abs(change.delta)}`,
    })
  if (reliability) steps.push(...reliabilitySteps(reliability, p.precision))
  return steps
}

/** The result of a design in one or two sentences. */
export function summarize({
  parameters: p,
  stratification,
  change,
  warnings,
}: SampleDesign): string {
  const strata = stratification?.strata.map(({ name, sampleSize }) => `${name} ${sampleSize}`)
  const was = change && `${change.previousAdjustedSize} before, so ${change.direction}`
  return [
    `Of ${p.population} households ${p.calculatedSize} must answer; with a dropout of ${p.dropoutRate}, ${p.adjustedSize} are to be drawn`,
    strata && ` (${strata.join(', ')})`,
    was && ` (${was})`,
    '.',
    warnings.length > 0 && ` ${warnings.length} warnings.`,
  ]
    .filter(Boolean)
    .join('')
}

function strataSteps(
  { parameters: p }: SampleDesign,
  { method, pooledSize, strata, oversampling }: NonNullable<SampleDesign['stratification']>,
): Step[] {
  const own = strata.map((stratum): Step => {
    const { name, population, working, requiredSize, mean, sd, dropoutRate } = stratum
    return {
      step: `What stratum "${name}" needs by itself`,
      formula:
        `N = ${population}, mean ${mean}, SD ${sd}: n₀ = ${working.baseUnrounded}, n = ` +
        `${working.fpcUnrounded}, ${working.calculatedSize} / (1 - ${dropoutRate})`,
      result: `${requiredSize}`,
    }
  })
  const shares = strata.map(({ name, weight, sampleSize }) => `${name} (${weight}): ${sampleSize}`)
  const how = {
    proportional:
      `the smallest ⌈n / (1 - ${p.dropoutRate})⌉ whose shares by weight, largest remainders first, ` +
      'give every stratum what it needs',
    independent: 'every stratum what it needs',
    pooled: `${pooledSize}, shared out by weight, largest remainders first`,
  }
  return [
    ...own,
    {
      step: `Allocation, ${method}`,
      formula: how[method],
      result: `${shares.join(', ')}; together ${p.adjustedSize}, ${oversampling} times the ${pooledSize} of one pooled sample`,
    },
  ]
}

function reliabilitySteps(
  { estimator, strata = [], ...all }: NonNullable<SampleDesign['reliability']>,
  precision: number,
): Step[] {
  const verdict = ({ relHalfWidth, meetsPrecision }: typeof all | (typeof strata)[number]) =>
    `${relHalfWidth}, which ${meetsPrecision ? 'meets' : 'misses'} ${precision}`
  return [
    {
      step: 'Reliability of the period',
      formula:
        estimator === 'weighted'
          ? `t √(Σ W² (1 - n/N) s²/n) / Σ W mean, with ${all.degreesOfFreedom} degrees of freedom and t = ${all.t}`
          : `t √((1 - n/N) s²/n) / mean, with n = ${all.completes} and t = ${all.t}`,
      result: verdict(all),
    },
    ...strata.map((stratum) => ({
      step: `Reliability in stratum "${stratum.name}"`,
      formula: `t √((1 - n/N) s²/n) / mean, with n = ${stratum.completes} and t = ${stratum.t}`,
      result: verdict(stratum),
    })),
  ]
}

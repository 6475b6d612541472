import { z } from 'zod'
import { sampleSize, withDropout, type Question } from './arithmetic.ts'
import { largestPopulation } from '../request.ts'

const fraction = z.coerce.number().min(0).lt(1)

/** The query of the curves: the parameters of their middle point. */
export const curveSchema = z
  .object({
    population: z.coerce.number().int().min(2).max(largestPopulation),
    expectedMean: z.coerce.number().positive(),
    expectedSD: z.coerce.number().min(0).default(0),
    dropoutRate: fraction.default(0),
    estimator: z.enum(['mean', 'proportion']).default('mean'),
  })
  .superRefine(({ estimator, expectedMean: mean, expectedSD: sd }, ctx) => {
    const fault = (field: string, message: string) =>
      ctx.addIssue({ code: 'custom', path: [field], message })
    if (estimator === 'proportion' && mean > 1)
      fault('expectedMean', `give a proportion above 0 and at most 1, not ${mean}`)
    // The curves go up to twice the deviation and down to a precision of 0.01, so these extremes must stay finite too.
    if (estimator === 'mean' && !Number.isFinite(1e6 * (2 * (sd / mean)) ** 2 + 20 * sd))
      fault('expectedSD', `the standard deviation ${sd} is too many times the mean ${mean}`)
  })

const point = z.object({ x: z.number(), calculatedSize: z.number(), adjustedSize: z.number() })
/** The points of the curves. */
export const curvesSchema = z.object({
  precision: z.array(point),
  expectedSD: z.array(point),
  expectedMean: z.array(point),
  dropoutRate: z.array(point),
})
type Point = z.output<typeof point>

const confidence = 0.95
const precision = 0.05

/**
 * Sizes for a plot, where one parameter varies and the others stay: the plot shows what precision costs, and what a wrong
 * guess of the deviation or the dropout costs. Sizes may exceed the population.
 */
export function curves(asked: z.output<typeof curveSchema>): z.output<typeof curvesSchema> {
  const { population, estimator, expectedMean: mean, expectedSD: sd, dropoutRate } = asked
  const at = (x: number, changed: Partial<Question>, dropout = dropoutRate): Point => {
    const calculatedSize = sampleSize({
      confidence,
      precision,
      population,
      estimator,
      mean,
      sd,
      ...changed,
    }).size
    return { x, calculatedSize, adjustedSize: withDropout(calculatedSize, dropout) }
  }
  return {
    precision: steps(20)
      .map((n) => n / 100)
      .map((x) => at(x, { precision: x })),
    expectedSD:
      estimator === 'mean'
        ? steps(20)
            .map((n) => tidy((sd * n) / 10))
            .map((x) => at(x, { sd: x }))
        : [],
    expectedMean:
      estimator === 'proportion'
        ? steps(19)
            .map((n) => n / 20)
            .map((x) => at(x, { mean: x }))
        : [],
    dropoutRate: steps(20)
      .map((n) => (n - 1) / 25)
      .map((x) => at(x, {}, x)),
  }
}

const steps = (count: number) => Array.from({ length: count }, (_, index) => index + 1)
const tidy = (value: number) => Number(value.toPrecision(12))

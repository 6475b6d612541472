import { z } from 'zod'
import { decimalsOf, mostDecimals } from './arithmetic/deviation.ts'
import { above, did, integer, number, stratumName, wants, words, zeroOrMore } from './wants.ts'

export { shown } from './wants.ts'

/** The id of a design. */
export const designIdSchema = z
  .string(wants('the designId'))
  .max(100, wants('a designId of at most 100 characters'))
  .describe('The designId of a sample design')
const aRevision = 'the number of a revision, from 1'
/** The number of a revision, as an argument. */
export const revisionSchema = integer(1, 1_000_000_000, aRevision)
/** Turns the text of a query into a number. A text that is no number stays as it is, so that the message can quote the text. */
const inQuery = (of: z.ZodNumber) =>
  z.preprocess((text) => (Number.isNaN(Number(text)) ? text : Number(text)), of)
/** The number of a revision, in a query. */
export const revisionInQuery = inQuery(revisionSchema)
/** The query of a list of designs. */
export const listSchema = z.object({
  projectId: z
    .string(wants('the DID of the project'))
    .min(1, wants('the DID of the project'))
    .max(500, wants('a DID of at most 500 characters')),
  limit: inQuery(integer(1, 100, 'a whole number from 1 to 100')).default(20),
  cursor: z.string(wants('the nextCursor of a list')).max(200).optional(),
})

/** The largest population of a design, in households. */
export const largestPopulation = 1_000_000_000

/** A DID after which a path may follow, as in `did:ixo:entity:abc/project`. */
const projectPattern = /^did:[a-z0-9]+:(?:[A-Za-z0-9._%-]+:)*[A-Za-z0-9._%-]+(?:\/[^\s?#]+)?$/

const dropout = (what: string) => zeroOrMore(what).lt(1, wants(what))
const aDropout = 'a fraction of at least 0 and below 1, such as 0.15'
const aMean = 'a number above 0'
const aDeviation = 'a number of at least 0'
const aWeight = 'a fraction above 0 and at most 1'
/** The schema accepts 0 and 1, so that `design` can refuse these populations as too small, with a hint. */
const aPopulation = `a whole number of households, at most ${largestPopulation}`
const population = integer(0, largestPopulation, aPopulation)

const justification = z.object({
  text: words(2000, 'a text of at most 2000 characters'),
  source: words(1000, 'a source of at most 1000 characters').optional(),
})

const aValue = `a number of at most 12 digits before the point and ${mostDecimals} after it`
/** The justifications of a design, as a request or a recalculation gives them. */
const justifications = z.object({
  mean: justification.optional(),
  sd: justification.optional(),
  dropoutRate: justification.optional(),
  sdCalculation: z
    .object({
      text: words(4000, 'a text of at most 4000 characters'),
      source: words(1000, 'a source of at most 1000 characters').optional(),
      data: z
        .array(
          number(aValue)
            .min(-1e12, wants(aValue))
            .max(1e12, wants(aValue))
            .refine((value) => decimalsOf(value) <= mostDecimals, wants(aValue)),
          wants('a list of numbers'),
        )
        .min(2, wants('at least 2 values'))
        .max(2000, wants('at most 2000 values'))
        .optional()
        .describe('The values themselves: the service works the deviation out from them'),
    })
    .optional()
    .describe('How the standard deviation was calculated'),
})

const aName = 'a name of 1 to 100 characters, none of them a tab or a line break'
const stratum = z.object({
  name: stratumName(aName),
  weight: above(0, aWeight).max(1, wants(aWeight)).describe('Its fraction of the population'),
  population: population.optional().describe('Its households, where the weight does not tell'),
  mean: above(0, aMean).optional().describe('Its own expected mean'),
  sd: zeroOrMore(aDeviation).optional().describe('Its own expected standard deviation'),
  dropoutRate: dropout(aDropout).optional().describe('Its own expected dropout, a fraction'),
  basis: words(1000, 'a text of at most 1000 characters')
    .optional()
    .describe('What it is based on: a baseline survey, socio-economic factors, geography'),
  note: words(1000, 'a text of at most 1000 characters').optional(),
})

/**
 * How strata get their sizes. `proportional`: by weight, with every stratum at its own precision; `independent`: every
 * stratum alone; `pooled`: one size for the whole population, shared out by weight.
 */
const methodSchema = z.enum(
  ['proportional', 'independent', 'pooled'],
  wants('"proportional", "independent" or "pooled"'),
)

const stratification = z
  .object(
    {
      enabled: z.boolean(wants('true or false')),
      method: methodSchema.default('proportional'),
      strata: z
        .array(stratum, wants('a list of strata'))
        .max(100, wants('at most 100 strata'))
        .optional(),
    },
    wants('an object with "enabled" and "strata"'),
  )
  .superRefine(({ enabled, strata }, ctx) => {
    if (enabled && !strata?.length)
      ctx.addIssue({
        code: 'custom',
        path: ['strata'],
        message: 'give at least one stratum, or set "enabled" to false',
      })
  })

const aCorrelation = 'a fraction from 0 to 1'
const aCount = (least: number) => `a whole number from ${least}`
/** The departure of a design from a simple random sample, which makes the size larger. */
const deffSchema = z
  .discriminatedUnion('kind', [
    z.object({
      kind: z.literal('cluster'),
      clusterSize: number('the households of a cluster, at least 1').min(1).max(largestPopulation),
      icc: zeroOrMore(aCorrelation).max(1, wants(aCorrelation)),
    }),
    z.object({
      kind: z.literal('two-stage'),
      clusters: integer(2, largestPopulation, aCount(2)).describe('How many clusters there are'),
      clusterSize: integer(2, largestPopulation, aCount(2)).describe('Households of a cluster'),
      take: integer(1, largestPopulation, aCount(1)).describe('Households drawn in each cluster'),
      betweenSD: zeroOrMore(aDeviation).describe('The deviation of the means of the clusters'),
      withinSD: zeroOrMore(aDeviation).describe('The deviation within the clusters'),
    }),
  ])
  .describe('For clusters deff = 1 + (m - 1) icc; for two stages the formula of the CDM guideline')
/** A design effect that passed the schema. */
export type DesignEffect = z.output<typeof deffSchema>

const reportsSchema = z
  .array(
    z.object({
      confidence: number('a confidence from 0.5 to 0.999').min(0.5).max(0.999),
      precision: above(0, 'a precision above 0 and at most 0.5').max(0.5),
      standard: words(200, 'the name of a standard').optional(),
    }),
    wants('a list of levels'),
  )
  .max(10, wants('at most 10 levels'))
  .describe('Other levels, such as 0.9 and 0.1, reported beside the mandatory ones')

const confidence = 'the mandatory 0.95'
const precision = 'the required 0.05'

/** The request of `POST /v1/sampling`. */
export const requestSchema = z
  .object({
    projectId: z
      .string(wants('the DID of the project'))
      .max(500, wants('a DID of at most 500 characters'))
      .regex(projectPattern, wants('a DID, or a DID with a path'))
      .describe('The DID of the project'),
    population: population.optional().describe('How many households the project has'),
    confidence: z.literal(0.95, wants(confidence)).describe('0.95 is mandatory'),
    precision: z.literal(0.05, wants(precision)).describe('0.05 is required'),
    estimator: z
      .enum(['mean', 'proportion'], wants('"mean" or "proportion"'))
      .default('mean')
      .describe('What is estimated; for a proportion expectedMean is p'),
    expectedMean: above(0, aMean).describe('The expected mean of what is measured'),
    expectedSD: zeroOrMore(aDeviation)
      .optional()
      .describe('The expected standard deviation; only a proportion does without'),
    dropoutRate: dropout(aDropout).describe('The fraction of households expected to drop out'),
    smallSampleCorrection: z
      .boolean(wants('true or false'))
      .default(false)
      .describe('Use Student’s t instead of the normal distribution'),
    allowCensus: z
      .boolean(wants('true or false'))
      .default(false)
      .describe('Ask everybody where the population is smaller than the sample'),
    erCoverage: above(0, aWeight)
      .max(1, wants(aWeight))
      .optional()
      .describe('The fraction of emission reductions that the sample covers'),
    expectedER: zeroOrMore(aDeviation).optional().describe('Expected emission reductions'),
    justification: justifications.optional(),
    deff: deffSchema.optional(),
    reports: reportsSchema.optional(),
    stratification: stratification.optional(),
  })
  .superRefine((request, ctx) => {
    const fault = (path: (string | number)[], message: string) =>
      ctx.addIssue({ code: 'custom', path, message })
    if (request.estimator === 'mean' && request.expectedSD === undefined)
      fault(['expectedSD'], `missing; give ${aDeviation}, or estimate a proportion`)
    if (request.estimator === 'proportion') {
      const aProportion = 'a proportion above 0 and at most 1'
      if (request.expectedMean > 1)
        fault(['expectedMean'], `give ${aProportion}, not ${request.expectedMean}`)
      request.stratification?.strata?.forEach(({ mean = 1 }, index) => {
        if (mean > 1)
          fault(['stratification', 'strata', index, 'mean'], `give ${aProportion}, not ${mean}`)
      })
    }
  })
/** A request for a design that passed the schema. */
export type SamplingRequest = z.output<typeof requestSchema>

/** The body of a recalculation: the results of a monitoring period. */
export const recalculationSchema = z.object({
  actualMean: above(0, aMean).describe('The mean that the period found'),
  actualSD: zeroOrMore(aDeviation)
    .optional()
    .describe('The standard deviation that the period found; only a proportion does without'),
  actualDropoutRate: dropout(aDropout).describe('The fraction of households that dropped out'),
  completes: integer(2, largestPopulation, 'a whole number of at least 2')
    .optional()
    .describe('How many answers were completed'),
  er: zeroOrMore(aDeviation).optional().describe('Emission reductions of the period'),
  erCoverage: above(0, aWeight).max(1, wants(aWeight)).optional(),
  justification: justifications
    .optional()
    .describe('What supports the actual values, in place of what supported the expected ones'),
  strata: z
    .array(
      z.object({
        name: stratumName('the name of a stratum'),
        actualMean: above(0, aMean).optional(),
        actualSD: zeroOrMore(aDeviation).optional(),
        actualDropoutRate: dropout(aDropout).optional(),
        completes: integer(2, largestPopulation, 'a whole number of at least 2').optional(),
        basis: words(1000, 'a text of at most 1000 characters').optional(),
      }),
      wants('a list of strata'),
    )
    .max(100, wants('at most 100 strata'))
    .optional(),
})
/** The results of a monitoring period that passed the schema. */
export type Recalculation = z.output<typeof recalculationSchema>

/** The body of a step of the verification of a design. */
export const verificationSchema = z.object({
  verifier: did('the DID of the verifier'),
  status: z.enum(
    ['submitted', 'approved', 'rejected'],
    wants('"submitted", "approved" or "rejected"'),
  ),
  notes: words(4000, 'notes of at most 4000 characters').optional(),
  projects: z
    .array(
      z.object({
        did: did('the DID of a project'),
        status: z.enum(['active', 'planned'], wants('"active" or "planned"')),
      }),
      wants('a list of projects'),
    )
    .max(1000, wants('at most 1000 projects'))
    .optional(),
  verifierDraws: z
    .boolean(wants('true or false'))
    .optional()
    .describe('Submits a design whose sample the external verifier draws'),
})
/** A step of the verification that passed the schema. */
export type Verification = z.output<typeof verificationSchema>

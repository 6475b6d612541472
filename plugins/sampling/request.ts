import { z } from 'zod'

/** A message that tells what came, beside what is wanted. */
const wants = (what: string) => ({
  error: (issue: { readonly input?: unknown }) =>
    issue.input === undefined ? `missing; give ${what}` : `give ${what}, not ${shown(issue.input)}`,
})

/** A value in the words of an error, cut short. */
export function shown(value: unknown): string {
  const text =
    typeof value === 'bigint' ? String(value) : (JSON.stringify(value, onlyFirst) ?? String(value))
  return text.length > 60 ? `${text.slice(0, 57)}...` : text
}

/** So many items, of one character each with the commas, are longer than what is shown. */
const enough = 30
const onlyFirst = (_: string, value: unknown): unknown =>
  Array.isArray(value) && value.length > enough ? value.slice(0, enough) : value

const number = (what: string) => z.number(wants(what))
const above = (least: number, what: string) => number(what).gt(least, wants(what))
const integer = (least: number, most: number, what: string) =>
  number(what).int(wants(what)).min(least, wants(what)).max(most, wants(what))
const words = (most: number, what: string) =>
  z.string(wants(what)).trim().min(1, wants(what)).max(most, wants(what))

/** What names a design, a revision of it, and a stretch of a list. */
export const designIdSchema = z
  .string(wants('the designId'))
  .max(100, wants('a designId of at most 100 characters'))
  .describe('The designId of a sample design')
const aRevision = 'the number of a revision, from 1'
/** The number of a revision, as an argument. */
export const revisionSchema = integer(1, 1_000_000_000, aRevision)
/** A number in a query is text; what is none stays as it is, to be named. */
const inQuery = (of: z.ZodNumber) =>
  z.preprocess((text) => (Number.isNaN(Number(text)) ? text : Number(text)), of)
/** The number of a revision, in a query. */
export const revisionInQuery = inQuery(revisionSchema)
/** Which designs are listed. */
export const listSchema = z.object({
  projectId: z
    .string(wants('the DID of the project'))
    .min(1, wants('the DID of the project'))
    .max(500, wants('a DID of at most 500 characters')),
  limit: inQuery(integer(1, 100, 'a whole number from 1 to 100')).default(20),
  cursor: z.string(wants('the nextCursor of a list')).max(200).optional(),
})

/** How many households a design may speak of. */
export const largestPopulation = 1_000_000_000

/** A DID; in `projectId` a path may follow, as in `did:ixo:entity:abc/project`. */
const didPattern = /^did:[a-z0-9]+:(?:[A-Za-z0-9._%-]+:)*[A-Za-z0-9._%-]+$/
const projectPattern = /^did:[a-z0-9]+:(?:[A-Za-z0-9._%-]+:)*[A-Za-z0-9._%-]+(?:\/[^\s?#]+)?$/
const did = (what: string) =>
  z.string(wants(what)).max(500, wants(what)).regex(didPattern, wants(what))

const zeroOrMore = (what: string) => number(what).min(0, wants(what))
const dropout = (what: string) => zeroOrMore(what).lt(1, wants(what))
const aDropout = 'a fraction of at least 0 and below 1, such as 0.15'
const aMean = 'a number above 0'
const aDeviation = 'a number of at least 0'
const aWeight = 'a fraction above 0 and at most 1'
/** 0 and 1 are numbers, but too few: what is made of them is decided where the population is known. */
const aPopulation = `a whole number of households, at most ${largestPopulation}`
const population = integer(0, largestPopulation, aPopulation)

const justification = z.object({
  text: words(2000, 'a text of at most 2000 characters'),
  source: words(1000, 'a source of at most 1000 characters').optional(),
})

const aName = 'a name of 1 to 100 characters, none of them a tab or a line break'
/** Names stand in seeds, in files and as keys, so they hold nothing that would break one of these. */
const namePattern = /^(?!(?:__proto__|constructor)$)[^\p{Cc}\u2028\u2029]*$/u
function stratumName(what: string) {
  return words(100, what).regex(namePattern, wants(what))
}

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

/** How the sizes of strata meet: each at its own precision in proportion, each alone, or one size shared out. */
export const methodSchema = z.enum(
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
    justification: z
      .object({
        mean: justification.optional(),
        sd: justification.optional(),
        dropoutRate: justification.optional(),
      })
      .optional(),
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

/** What a monitoring period found. */
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
  strata: z
    .array(
      z.object({
        name: stratumName('the name of a stratum'),
        actualMean: above(0, aMean).optional(),
        actualSD: zeroOrMore(aDeviation).optional(),
        actualDropoutRate: dropout(aDropout).optional(),
      }),
      wants('a list of strata'),
    )
    .max(100, wants('at most 100 strata'))
    .optional(),
})
/** What a monitoring period found, once it passed the schema. */
export type Recalculation = z.output<typeof recalculationSchema>

/** A step in the life of a design. */
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
})
/** A step of the verification that passed the schema. */
export type Verification = z.output<typeof verificationSchema>

const anId = 'an id of 1 to 200 characters, none of them a line break'
/** An id is taken as it stands: it is part of what is hashed. */
export const idPattern = /^[^\x00-\x1f\x7f-\x9f\u2028\u2029]{1,200}$/
/** A list may hold millions of ids: the first that is none is told, and the rest is not looked at. */
const ids = z
  .custom<readonly string[]>(Array.isArray, wants('a list of ids'))
  .superRefine((list, ctx) => {
    const at = list.findIndex((id: unknown) => typeof id !== 'string' || !idPattern.test(id))
    if (at >= 0)
      ctx.addIssue({ code: 'custom', path: [at], message: `give ${anId}, not ${shown(list[at])}` })
  })
  .meta({ type: 'array', items: { type: 'string' } })
/** The ids of a frame, by stratum. */
export const frameSchema = z.record(
  stratumName('the name of a stratum'),
  ids,
  wants('ids by stratum'),
)

const aRound = 'the round that will be drawn: its number, or a name of at most 200 characters'
/** A public beacon, and a round of it. */
export const beaconSchema = z.object({
  source: z
    .string(wants('"caller" or "drand:<chain hash>"'))
    .regex(/^(?:caller|drand:[0-9a-f]{64})$/, wants('"caller" or "drand:<chain hash>"'))
    .default('caller'),
  round: z
    .union([words(200, aRound), integer(1, Number.MAX_SAFE_INTEGER, aRound)], wants(aRound))
    .describe('The future round whose value seeds the draw'),
})
/** A frame with its beacon, or the beacon alone where the frame comes line by line. */
export const commitSchema = z
  .object({
    designId: designIdSchema,
    frame: frameSchema.optional(),
    beacon: beaconSchema.optional(),
    round: beaconSchema.shape.round.optional(),
    source: beaconSchema.shape.source,
  })
  .transform(({ designId, frame, beacon, round, source }, ctx) => {
    const named =
      beacon ?? (frame === undefined && round !== undefined ? { round, source } : undefined)
    if (named) return { designId, frame, beacon: named }
    const path = frame === undefined ? 'round' : 'beacon'
    const message =
      frame === undefined
        ? `missing; give ${aRound}, in the query beside a frame line by line; else give "frame" and "beacon"`
        : 'missing; give { source?, round }'
    ctx.addIssue({ code: 'custom', path: [path], message })
    return z.NEVER
  })
/** A round of a beacon that passed the schema. */
export type Beacon = z.output<typeof beaconSchema>

const hex = 'the value of the beacon: 16 to 512 hexadecimal digits'
/** The value of the committed round, or what a verifier drew. */
export const revealSchema = z.object({
  beaconHex: z
    .string(wants(hex))
    .toLowerCase()
    .regex(/^(?:[0-9a-f]{2}){8,256}$/, wants(hex))
    .optional(),
  reserves: integer(0, 100_000, 'how many reserves each stratum gets').optional(),
  external: z
    .object({
      verifier: did('the DID of the verifier'),
      method: words(4000, 'how the verifier selected'),
      strata: frameSchema,
    })
    .optional(),
})
/** A request for a draw that passed the schema. */
export type Reveal = z.output<typeof revealSchema>

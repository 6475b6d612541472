import { z } from 'zod'
import type { SampleDesign, Selection } from '../design/record.ts'
import { conflicting, invalid } from '../refusal.ts'
import type { Recalculation } from '../request.ts'
import { shown, wants } from '../wants.ts'
import type { Asking, Twins } from './twins.ts'

const aTime = 'a time such as 2027-01-31T12:00:00Z'
const period = z
  .string(wants('the name of a period, such as 2027-H1'))
  .min(1)
  .max(100)
  .describe('The period that is surveyed: each opens claims of its own; without one "first"')
const time = z.iso.datetime({ offset: true, ...wants(aTime) }).optional()

/** Which claims are the answers of a survey. */
export const surveySchema = z.object({
  protocol: z
    .string(wants('the DID of a protocol'))
    .min(1)
    .max(1024)
    .describe('The protocol of the survey claims'),
  since: time.describe('Only claims that were submitted from then on'),
  until: time.describe('Only claims that were submitted before'),
  period: period.optional(),
})
/** What opens a survey. */
export const openingSchema = z.object({
  protocol: surveySchema.shape.protocol,
  type: z
    .string(wants('the type of the claims'))
    .min(1)
    .max(100)
    .default('Survey')
    .describe('The type of the claims'),
  period: period.default('first'),
})
/** Which claims are the answers, and which of their properties is measured. */
export const surveyedSchema = surveySchema.extend({
  property: z
    .string(wants('the name of a property'))
    .min(1)
    .max(100)
    .describe('The property that is measured'),
})
type Survey = z.output<typeof surveySchema>

/** The answers of a stratum, by the twins that were drawn. */
interface Answers {
  readonly name: string
  /** The twins drawn, each with the approved claim about it, or the open one that waits to be filled in. */
  readonly twins: readonly {
    readonly did: string
    readonly claim?: string
    readonly open?: string
  }[]
  readonly values: readonly { readonly claim: string; readonly value: unknown }[]
}

/** The twins that were drawn, by stratum, with the approved claim about each. */
export async function answersOf(
  registry: Twins | undefined,
  selection: Selection,
  {
    protocol,
    since,
    until,
    period: named = 'first',
    property,
  }: Survey & { readonly property?: string },
  asking: Asking,
): Promise<Answers[]> {
  const { twins, strata, purpose } = drawnTwins(registry, selection, protocol, named)
  const answers = []
  for (const { name, ids } of strata) {
    const claims = await twins.approved({ protocol, subjects: ids, since, until }, asking)
    const byTwin = new Map(claims.map((claim) => [claim.subject, claim]))
    const waiting = await twins.openAbout({ purpose, protocol, subjects: ids }, asking)
    answers.push({
      name,
      twins: ids.map((did) => {
        const claim = byTwin.get(did)
        const open = waiting.get(did)
        return { did, ...(claim && { claim: claim.id }), ...(open !== undefined && { open }) }
      }),
      values: claims.map((claim) => ({
        claim: claim.id,
        value:
          property !== undefined && Object.hasOwn(claim.properties, property)
            ? claim.properties[property]
            : undefined,
      })),
    })
  }
  return answers
}

/** How far a survey is, stratum by stratum. */
export const stateOf = ({ designId }: SampleDesign, answers: readonly Answers[]) => ({
  designId,
  strata: answers.map(({ name, twins }) => ({
    name,
    drawn: twins.length,
    completes: twins.filter(({ claim }) => claim !== undefined).length,
    twins,
  })),
})

/** Opens a claim about every twin that was drawn, for the party that controls the twin to fill in; each once for a period. */
export async function openSurvey(
  registry: Twins | undefined,
  selection: Selection,
  { protocol, type, period: named }: z.output<typeof openingSchema>,
  asking: Asking,
) {
  const { twins, strata, purpose } = drawnTwins(registry, selection, protocol, named)
  const subjects = strata.flatMap(({ ids }) => ids)
  const opened = await twins.openClaims({ purpose, protocol, type, subjects }, asking)
  return { protocol, period: named, drawn: subjects.length, ...opened }
}

/** The registry and what was drawn; the purpose of the claims names the design, its frame and the period. */
function drawnTwins(
  twins: Twins | undefined,
  { designId, frameDigest, strata }: Selection,
  protocol: string,
  named: string,
) {
  if (!twins)
    throw conflicting(
      'A survey by claims needs the plugin registry, which is off.',
      'Send the figures of the period to …/recalculate, or turn the registry on.',
      { field: 'protocol', value: protocol },
    )
  if (!strata)
    throw conflicting('Nothing is drawn yet, so nobody is surveyed.', 'Draw the sample first.', {
      field: 'selection',
      value: null,
    })
  return { twins, strata, purpose: `survey ${designId} ${named}` }
}

/** What a period found, worked out from the answers: mean, deviation and dropout of every stratum, and of the whole by weight. */
export function foundIn(
  answers: readonly Answers[],
  design: SampleDesign,
  property: string,
): Recalculation {
  const weights = new Map(
    (design.stratification?.strata ?? []).map(({ name, weight }) => [name, weight]),
  )
  const found = answers.map(({ name, twins, values }) => {
    const numbers = values.map(({ claim, value }) => {
      if (typeof value === 'number' && Number.isFinite(value)) return value
      throw invalid(
        'property',
        `the claim ${claim} has ${shown(value)} at "${property}", and no number`,
      )
    })
    if (numbers.length < 2)
      throw invalid(
        'protocol',
        `the stratum "${name}" has ${numbers.length} approved claims, and two at least tell a deviation`,
        'Wait for more claims, or send the figures of the period to …/recalculate.',
      )
    const mean = numbers.reduce((sum, one) => sum + one, 0) / numbers.length
    const squares = numbers.reduce((sum, one) => sum + (one - mean) ** 2, 0)
    if (mean <= 0)
      throw invalid(
        'property',
        `the claims of the stratum "${name}" have the mean ${mean} at "${property}", and no size follows from a mean that is not above 0`,
      )
    return {
      name,
      weight: weights.get(name) ?? 1,
      mean,
      sd: Math.sqrt(squares / (numbers.length - 1)),
      completes: numbers.length,
      drawn: twins.length,
    }
  })
  const sum = (of: (one: (typeof found)[number]) => number) =>
    found.reduce((all, one) => all + of(one), 0)
  const completes = sum((one) => one.completes)
  const actualMean = sum((one) => one.weight * one.mean) / sum((one) => one.weight)
  const variance =
    sum((one) => one.weight * (one.sd ** 2 + (one.mean - actualMean) ** 2)) /
    sum((one) => one.weight)
  // Squares of single values may be infinite where the values are not.
  if (![actualMean, variance, ...found.map(({ sd }) => sd)].every(Number.isFinite))
    throw invalid('property', `claims have values at "${property}" that are too large`)
  const drawn = sum((one) => one.drawn)
  return {
    actualMean,
    actualSD: Math.sqrt(variance),
    actualDropoutRate: dropoutOf(drawn, completes),
    completes,
    ...(design.stratification && {
      strata: found.map(({ name, mean, sd, completes: answered, drawn }) => ({
        name,
        actualMean: mean,
        actualSD: sd,
        actualDropoutRate: dropoutOf(drawn, answered),
        completes: answered,
      })),
    }),
  }
}

const digits = 15

/**
 * The fraction that dropped out, in decimals and rounded down: 1 - 7 / 10 is 0.30000000000000004 in binary fractions, and one
 * household too many would be drawn for what is more than 0.3.
 */
function dropoutOf(drawn: number, completes: number): number {
  const scaled = (BigInt(drawn - completes) * 10n ** BigInt(digits)) / BigInt(drawn)
  return Number(`0.${String(scaled).padStart(digits, '0')}`)
}

import { z } from 'zod'
import type { SampleDesign, Selection } from '../design/record.ts'
import { conflicting, invalid } from '../refusal.ts'
import type { Recalculation } from '../request.ts'
import { shown, wants } from '../wants.ts'
import type { Asking, Twins } from './twins.ts'

const aTime = 'a time such as 2027-01-31T12:00:00Z'
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
  /** The twins drawn, each with the approved claim about it, where there is one. */
  readonly twins: readonly { readonly did: string; readonly claim?: string }[]
  readonly values: readonly { readonly claim: string; readonly value: unknown }[]
}

/** The twins that were drawn, by stratum, with the approved claim about each. */
export async function answersOf(
  registry: Twins | undefined,
  selection: Selection,
  { protocol, since, until, property }: Survey & { readonly property?: string },
  asking: Asking,
): Promise<Answers[]> {
  if (!registry)
    throw conflicting(
      'A survey by claims needs the plugin registry, which is off.',
      'Send the figures of the period to …/recalculate, or turn the registry on.',
      { field: 'protocol', value: protocol },
    )
  const { strata } = selection
  if (!strata)
    throw conflicting('Nothing is drawn yet, so nobody is surveyed.', 'Draw the sample first.', {
      field: 'selection',
      value: null,
    })
  const answers = []
  for (const { name, ids } of strata) {
    const claims = await registry.approved({ protocol, subjects: ids, since, until }, asking)
    const byTwin = new Map(claims.map((claim) => [claim.subject, claim]))
    answers.push({
      name,
      twins: ids.map((did) => {
        const claim = byTwin.get(did)
        return { did, ...(claim && { claim: claim.id }) }
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
  return {
    actualMean,
    actualSD: Math.sqrt(variance),
    actualDropoutRate: 1 - completes / sum((one) => one.drawn),
    completes,
    ...(design.stratification && {
      strata: found.map(({ name, mean, sd, completes: answered, drawn }) => ({
        name,
        actualMean: mean,
        actualSD: sd,
        actualDropoutRate: 1 - answered / drawn,
        completes: answered,
      })),
    }),
  }
}

import { compare, exact, minus, over, plus, times, toNumber, zero } from '../arithmetic/rational.ts'
import { conflicting, insufficient } from '../refusal.ts'
import type { SamplingRequest } from '../request.ts'
import { allocate } from './strata.ts'

type Stratum = NonNullable<NonNullable<SamplingRequest['stratification']>['strata']>[number]

/** A stratum whose population is known. */
export interface Part extends Stratum {
  readonly population: number
}

const tolerance = exact('1e-9')

/** Checks that the strata divide the population, and gives each stratum its part of the population. */
export function partition(strata: readonly Stratum[], population: number): Part[] {
  const names = new Map<string, string>()
  for (const [index, { name }] of strata.entries()) {
    const folded = name.normalize('NFC').toUpperCase().toLowerCase()
    const other = names.get(folded)
    if (other !== undefined)
      throw conflicting(
        `Two strata have one name: "${other}" and "${name}".`,
        'Give every stratum a name that differs in more than case and blanks.',
        { field: `stratification.strata.${index}.name`, value: name },
      )
    names.set(folded, name)
  }

  for (const [index, { name, weight }] of strata.entries())
    if (weight * population < 1) throw tooSmall(index, name, 0)

  const sum = strata.reduce((sum, { weight }) => plus(sum, exact(weight)), zero)
  const off = minus(sum, exact(1))
  if (compare(off, tolerance) > 0 || compare(minus(zero, off), tolerance) > 0)
    throw conflicting(
      `The weights of the strata add up to ${toNumber(sum)}, not to 1.`,
      'Weights are fractions of the population: make them add up to 1.',
      { field: 'stratification.strata.weight', value: toNumber(sum) },
    )

  const given = strata.map((stratum) => stratum.population)
  for (const [index, { name, weight, population: own }] of strata.entries()) {
    if (own === undefined) continue
    const share = over(times(exact(weight), exact(population)), sum)
    const apart = minus(exact(own), share)
    if (compare(apart, exact(1)) >= 0 || compare(apart, exact(-1)) <= 0)
      throw conflicting(
        `Stratum "${name}" has a population of ${own}, but its weight ${weight} of ${population} is ${toNumber(share)}.`,
        'Give the weight with more digits, correct the population, or leave the population out.',
        { field: `stratification.strata.${index}.population`, value: own, share: toNumber(share) },
      )
  }
  const rest = given.reduce<number>((rest, own) => rest - (own ?? 0), population)
  const open = strata.filter((stratum) => stratum.population === undefined)
  if (rest < 0 || (open.length === 0 && rest !== 0))
    throw conflicting(
      `The populations of the strata add up to ${population - rest}, but the population is ${population}.`,
      'Correct the populations of the strata, or leave them out to have them follow from the weights.',
      { field: 'stratification.strata.population', value: population - rest, population },
    )
  const shares = allocate(
    open.length === 0 ? 0 : rest,
    open.map(({ weight }) => ({ weight: exact(weight) })),
  )
  let next = 0
  return strata.map((stratum, index) => {
    const own = given[index] ?? shares[next++] ?? 0
    if (own < 2) throw tooSmall(index, stratum.name, own)
    return { ...stratum, population: own }
  })
}

/** The error for a stratum of fewer than 2. A first check precedes all fractions: a tiny weight has a huge denominator. */
const tooSmall = (index: number, name: string, own: number) =>
  insufficient(
    `Stratum "${name}" has a population of ${own}; a sample needs at least 2.`,
    'Merge it with another stratum.',
    { field: `stratification.strata.${index}.population`, value: own, required: 2, available: own },
  )

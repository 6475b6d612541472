import { expect, it } from 'vitest'
import { RuntimeError } from '#core'
import { random } from '../../../test/support/random.ts'
import { withDropout } from '../arithmetic/arithmetic.ts'
import { design, type Figures } from './design.ts'
import { requestSchema } from '../request.ts'

const any = random('designs')

/** Weights with four decimals that add up to 1. */
function weights(): number[] {
  const parts = Array.from({ length: any.integer(1, 6) }, () => any.integer(500, 5000))
  const sum = parts.reduce((a, b) => a + b, 0)
  const scaled = parts.map((part) => Math.floor((part * 10_000) / sum))
  scaled[0] = 10_000 - scaled.slice(1).reduce((a, b) => a + b, 0)
  return scaled.map((part) => part / 10_000)
}

const cases = Array.from({ length: 300 }, () => {
  const own = () => ({
    ...(any.integer(0, 1) && { mean: any.decimal(0.3, 2, 2), sd: any.decimal(0.05, 0.6, 2) }),
    ...(any.integer(0, 2) === 0 && { dropoutRate: any.decimal(0, 0.5, 2) }),
  })
  return {
    projectId: 'did:ixo:entity:any',
    population: any.integer(60, 60_000),
    confidence: 0.95,
    precision: 0.05,
    expectedMean: any.decimal(0.3, 2, 2),
    expectedSD: any.decimal(0.05, 0.6, 2),
    dropoutRate: any.decimal(0, 0.5, 2),
    smallSampleCorrection: any.integer(0, 1) === 1,
    strata: weights().map((weight, index) => ({ name: `s${index}`, weight, ...own() })),
  }
})

const made = new Map<string, (Figures | undefined)[]>()
function figures(method: string, allowCensus: boolean): (Figures | undefined)[] {
  const name = `${method} ${allowCensus}`
  let all = made.get(name)
  if (!all) made.set(name, (all = cases.map((each) => figuresOf(each, method, allowCensus))))
  return all
}

function figuresOf(
  { strata, ...rest }: (typeof cases)[number],
  method: string,
  allowCensus: boolean,
): Figures | undefined {
  const stratification = { enabled: true, method, strata }
  try {
    return design(requestSchema.parse({ ...rest, allowCensus, stratification }))
  } catch (error) {
    if (error instanceof RuntimeError && error.code === 'UNPROCESSABLE') return undefined
    throw error
  }
}

it.each(['proportional', 'independent', 'pooled'])(
  '%s: populations and sizes add up, nobody is asked twice, and every stratum gets its due',
  (method) => {
    const all = figures(method, false).filter((each) => each !== undefined)
    expect(all.length).toBeGreaterThan(50)
    for (const { parameters: p, stratification } of all) {
      const { strata, pooledSize, oversampling } = stratification!
      const sum = (of: (stratum: (typeof strata)[number]) => number) =>
        strata.reduce((total, stratum) => total + of(stratum), 0)
      expect(sum(({ population }) => population)).toBe(p.population)
      expect(sum(({ sampleSize }) => sampleSize)).toBe(p.adjustedSize)
      expect(oversampling).toBeCloseTo(p.adjustedSize / pooledSize, 12)
      for (const { population, sampleSize, requiredSize, working, dropoutRate } of strata) {
        expect(sampleSize).toBeLessThanOrEqual(population)
        expect(working.adjustedSize).toBe(withDropout(working.calculatedSize, dropoutRate))
        if (method === 'independent') expect(sampleSize).toBe(requiredSize)
        if (method === 'proportional') expect(sampleSize).toBeGreaterThanOrEqual(requiredSize)
      }
      if (method === 'independent') continue
      expect(p.adjustedSize).toBe(withDropout(p.calculatedSize, p.dropoutRate))
      for (const { weight, sampleSize } of strata)
        expect(Math.abs(sampleSize - weight * p.adjustedSize)).toBeLessThan(1 + 1e-9)
    }
  },
)

it('proportional: never draws fewer than the strata would alone', () => {
  const independent = figures('independent', false)
  figures('proportional', false).forEach((each, index) => {
    if (!each) return
    expect(each.parameters.adjustedSize).toBeGreaterThanOrEqual(
      independent[index]!.parameters.adjustedSize,
    )
  })
})

it('with allowCensus there is always an answer, at most everybody, and a warning where it falls short', () => {
  for (const method of ['proportional', 'independent', 'pooled']) {
    const refused = figures(method, false)
    figures(method, true).forEach((each, index) => {
      const { parameters, stratification, warnings } = each!
      expect(parameters.adjustedSize).toBeLessThanOrEqual(parameters.population)
      for (const { sampleSize, population } of stratification!.strata)
        expect(sampleSize).toBeLessThanOrEqual(population)
      const census = warnings.some(({ code }) => code === 'CENSUS')
      expect(census).toBe(refused[index] === undefined)
    })
  }
})

it.each(['proportional', 'independent', 'pooled'])(
  '%s: the order in which strata are named changes nothing, where no two weigh the same',
  (method) => {
    let compared = 0
    for (const one of cases) {
      const { strata } = one
      if (new Set(strata.map(({ weight }) => weight)).size < strata.length) continue
      const [first, second] = [strata, strata.toReversed()].map((strata) => {
        const { parameters, stratification } = figuresOf({ ...one, strata }, method, true)!
        return {
          parameters,
          strata: stratification!.strata.toSorted((a, b) => (a.name < b.name ? -1 : 1)),
        }
      })
      expect(second).toEqual(first)
      compared++
    }
    expect(compared).toBeGreaterThan(100)
  },
)

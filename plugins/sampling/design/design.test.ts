import { expect, it } from 'vitest'
import { RuntimeError } from '#core'
import { loopTurns } from '../../../test/support/loop-turns.ts'
import { random } from '../../../test/support/random.ts'
import { withDropout } from '../arithmetic/arithmetic.ts'
import { design, type Figures } from './design.ts'
import { requestSchema } from '../request.ts'

const any = random('designs')

/** Makes random weights with four decimals that add up to 1. */
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

const made = new Map<string, Promise<(Figures | undefined)[]>>()
function figures(method: string, allowCensus: boolean): Promise<(Figures | undefined)[]> {
  const name = `${method} ${allowCensus}`
  let all = made.get(name)
  if (!all) {
    all = Promise.all(cases.map((each) => figuresOf(each, method, allowCensus)))
    made.set(name, all)
  }
  return all
}

async function figuresOf(
  { strata, ...rest }: (typeof cases)[number],
  method: string,
  allowCensus: boolean,
): Promise<Figures | undefined> {
  const stratification = { enabled: true, method, strata }
  try {
    return await design(requestSchema.parse({ ...rest, allowCensus, stratification }))
  } catch (error) {
    if (error instanceof RuntimeError && error.code === 'UNPROCESSABLE') return undefined
    throw error
  }
}

it.each(['proportional', 'independent', 'pooled'])(
  '%s: populations and sizes add up, nobody is asked twice, and every stratum gets its due',
  async (method) => {
    const all = (await figures(method, false)).filter((each) => each !== undefined)
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

it('proportional: never draws fewer than the strata would alone', async () => {
  const independent = await figures('independent', false)
  ;(await figures('proportional', false)).forEach((each, index) => {
    if (!each) return
    expect(each.parameters.adjustedSize).toBeGreaterThanOrEqual(
      independent[index]!.parameters.adjustedSize,
    )
  })
})

it('with allowCensus there is always an answer, at most everybody, and a warning where it falls short', async () => {
  for (const method of ['proportional', 'independent', 'pooled']) {
    const refused = await figures(method, false)
    ;(await figures(method, true)).forEach((each, index) => {
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
  async (method) => {
    let compared = 0
    for (const one of cases) {
      const { strata } = one
      if (new Set(strata.map(({ weight }) => weight)).size < strata.length) continue
      const both = [strata, strata.toReversed()].map(async (strata) => {
        const each = await figuresOf({ ...one, strata }, method, true)
        const { parameters, stratification } = each!
        return {
          parameters,
          strata: stratification!.strata.toSorted((a, b) => (a.name < b.name ? -1 : 1)),
        }
      })
      const [first, second] = await Promise.all(both)
      expect(second).toEqual(first)
      compared++
    }
    expect(compared).toBeGreaterThan(100)
  },
)

it('of a hundred strata with their own corrections lets other requests be served in between', async () => {
  const strata = Array.from({ length: 100 }, (_, n) => ({
    name: `s${n}`,
    weight: 0.01,
    mean: 1 + n / 1000,
    sd: 0.3 + n / 1000,
  }))
  const request = requestSchema.parse({
    ...cases[0],
    population: 900_000,
    smallSampleCorrection: true,
    stratification: { enabled: true, method: 'independent', strata },
  })
  const many = () => Promise.all(Array.from({ length: 60 }, () => design(request)))
  expect(await loopTurns(many)).toBeGreaterThan(4)
})

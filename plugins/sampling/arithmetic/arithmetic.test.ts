import { describe, expect, it } from 'vitest'
import {
  meetsPrecision,
  sampleSize,
  studentSize,
  withDropout,
  type Question,
} from './arithmetic.ts'
import { normalQuantile, studentQuantile } from './quantiles.ts'
import { compare, exact, plus, toNumber } from './rational.ts'
import { allocate, smallestTotal, totalBounds } from '../design/strata.ts'
import { random } from '../../../test/support/random.ts'

const worked = { confidence: 0.95, precision: 0.05, population: 5000, mean: 0.8, sd: 0.2 } as const

describe('the worked example', () => {
  it('needs 95, with dropout 112; as a proportion 357 and 420; with Student’s t 97 and 115', () => {
    const { size, base, finite } = sampleSize(worked)
    expect(size).toBe(95)
    expect(base).toBeCloseTo(96.0364705, 6)
    expect(finite).toBeCloseTo(94.2451257, 6)
    expect(withDropout(95, 0.15)).toBe(112)
    expect(sampleSize({ ...worked, estimator: 'proportion' }).size).toBe(357)
    expect(withDropout(357, 0.15)).toBe(420)
    expect(studentSize(worked)).toBe(97)
    expect(withDropout(97, 0.15)).toBe(115)
  })

  it('never rounds in binary: 10 with a dropout of 0.9 are 100, and 0.1, 0.2 and 0.7 are 1', () => {
    expect(withDropout(10, 0.9)).toBe(100)
    expect(Math.ceil(10 / (1 - 0.9))).toBe(101)
    expect(compare(plus(plus(exact(0.1), exact(0.2)), exact(0.7)), exact(1))).toBe(0)
    expect(toNumber(exact('1.25e-7'))).toBe(1.25e-7)
    expect(() => exact('0x10')).toThrow('not a decimal')
  })
})

// Each case is a published figure: the question with the conventions of its source, and the source's result.
const pairs = (table: string) =>
  table.split(' ').map((entry) => entry.split(':').map(Number) as [number, number])

describe('published figures, each with its own conventions', () => {
  const krejcieMorgan = pairs(
    '10:10 15:14 20:19 25:24 30:28 35:32 40:36 45:40 50:44 55:48 60:52 65:56 70:59 75:63 80:66 ' +
      '85:70 90:73 95:76 100:80 110:86 120:92 130:97 140:103 150:108 160:113 170:118 180:123 190:127 ' +
      '200:132 210:136 220:140 230:144 240:148 250:152 260:155 270:159 280:162 290:165 300:169 ' +
      '320:175 340:181 360:186 380:191 400:196 420:201 440:205 460:210 480:214 500:217 550:226 ' +
      '600:234 650:242 700:248 750:254 800:260 850:265 900:269 950:274 1000:278 1100:285 1200:291 ' +
      '1300:297 1400:302 1500:306 1600:310 1700:313 1800:317 1900:320 2000:322 2200:327 2400:331 ' +
      '2600:335 2800:338 3000:341 3500:346 4000:351 4500:354 5000:357 6000:361 7000:364 8000:367 ' +
      '9000:368 10000:370 15000:375 20000:377 30000:379 40000:380 50000:381 75000:382 1000000:384',
  )
  it('Krejcie and Morgan 1970, table 1: χ² 3.841, p 0.5, absolute 0.05, nearest integer', () => {
    const off = krejcieMorgan.filter(
      ([population, published]) =>
        sampleSize({
          zSquared: 3.841,
          precision: 0.05,
          absolute: true,
          population,
          estimator: 'proportion',
          mean: 0.5,
          rounding: 'nearest',
        }).size !== published,
    )
    expect(off).toEqual([])
  })

  const infinite = { mean: 0.5, precision: 0.05, absolute: true } as const
  const epiR = { confidence: 0.95, rounding: 'nearest' } as const
  const again = { confidence: 0.95, corrections: 2 } as const
  const examples: [string, Question, number][] = [
    [
      'Cochran 1977, 4.4, blood groups on an island: t 2, p 0.5 ± 0.05',
      { ...infinite, z: 2, estimator: 'proportion' },
      400,
    ],
    [
      'Cochran 1977, 4.4, the same of 3,200 people',
      { ...infinite, z: 2, estimator: 'proportion', population: 3200, rounding: 'nearest' },
      356,
    ],
    [
      'Cochran 1977, 4.6, silver maple seedlings: t 2, mean 19, S² 85.6, within 10 %, 430 feet of bed',
      {
        z: 2,
        precision: 0.1,
        mean: 19,
        sd: '9.2520268050763', // √85.6
        divisor: 'N-1',
        population: 430,
        rounding: 'nearest',
      },
      78,
    ],
    [
      'epiR, epi.sssimpleestb, example 1: prevalence 0.15 within 20 %',
      { confidence: 0.95, precision: 0.2, mean: 0.15, estimator: 'proportion' },
      545,
    ],
    [
      'epiR, epi.sssimpleestb, example 1 continued: within 0.03 absolute',
      { confidence: 0.95, precision: 0.03, absolute: true, mean: 0.15, estimator: 'proportion' },
      545,
    ],
    [
      'epiR, epi.sssimpleestb, example 1 continued: a test of sensitivity 0.94 and specificity 0.88',
      // Its variance is p'(1 - p') / (0.94 + 0.88 - 1)², where p' = 0.94 · 0.15 + 0.12 · 0.85 = 0.243 test positive.
      {
        confidence: 0.95,
        precision: 0.2,
        mean: 0.15,
        sd: '0.5230427952048522', // √(0.243 · 0.757) / 0.82
      },
      1168,
    ],
    [
      'epiR, vignette “Sample Size Calculations Using epiR”, two-stage example: 0.2 within 0.05',
      { confidence: 0.95, precision: 0.05, absolute: true, mean: 0.2, estimator: 'proportion' },
      246,
    ],
    // The earlier epi.simplesize corrects for the population once, as Levy and Lemeshow 3.15 do, and rounds to the nearest.
    [
      'epiR, epi.simplesize, example 1: 20 clinics, mean 75, SD 15, within 20 %',
      { ...epiR, precision: 0.2, mean: 75, sd: 15, population: 20 },
      3,
    ],
    [
      'epiR, epi.simplesize, example 2: 278 deer, mean 200 kg, SD 30 kg, within 10 kg',
      { ...epiR, precision: 10, absolute: true, mean: 200, sd: 30, population: 278 },
      31,
    ],
    [
      'epiR, epi.simplesize, example 3: prevalence 0.15 of a million within 20 %',
      { ...epiR, precision: 0.2, mean: 0.15, estimator: 'proportion', population: 1_000_000 },
      544,
    ],
    // Its successor takes 3.15, which is corrected already, corrects it again, and rounds up.
    [
      'epiR, epi.sssimpleestc, example 1: 20 clinics, mean 75, SD 15, within 20 %',
      { ...again, precision: 0.2, mean: 75, sd: 15, population: 20 },
      4,
    ],
    [
      'epiR, epi.sssimpleestc, example 2: 278 deer, mean 200 kg, SD 30 kg, within 10 kg',
      { ...again, precision: 10, absolute: true, mean: 200, sd: 30, population: 278 },
      28,
    ],
    [
      'PracTools, nCont, example 3.1: CV 2 of the population, 0.05 of the estimate',
      { z: 1, precision: 0.05, mean: 1, sd: 2 },
      1600,
    ],
    [
      'PracTools, nCont, example 3.1 continued: of 500, rounded',
      {
        z: 1,
        precision: 0.05,
        mean: 1,
        sd: 2,
        population: 500,
        divisor: 'N-1',
        rounding: 'nearest',
      },
      381,
    ],
    [
      'PracTools, nProp, example 3.4: p 0.01 with a CV of 0.05',
      { z: 1, precision: 0.05, mean: 0.01, estimator: 'proportion' },
      39_600,
    ],
  ]
  it.each(examples)('%s', (_, question, published) => {
    expect(sampleSize(question).size).toBe(published)
  })

  it('PracTools, vignette on single-stage samples, example 2: target CVs 0.01 to 0.21 of a CV of 2', () => {
    const targets = Array.from({ length: 11 }, (_, n) => (1 + 2 * n) / 100)
    expect(
      targets.map((precision) => sampleSize({ z: 1, precision, mean: 1, sd: 2 }).size),
    ).toEqual([40000, 4445, 1600, 817, 494, 331, 237, 178, 139, 111, 91])
  })

  it('PracTools, vignette on single-stage samples, example 3: margins of error 0.01 to 0.08 at p 0.5', () => {
    const margins = Array.from({ length: 8 }, (_, n) => (1 + n) / 100)
    expect(
      margins.map(
        (precision) =>
          sampleSize({
            confidence: 0.95,
            precision,
            absolute: true,
            mean: 0.5,
            estimator: 'proportion',
          }).size,
      ),
    ).toEqual([9604, 2401, 1068, 601, 385, 267, 196, 151])
  })

  it('epiR, epi.ssstrataestc (Levy and Lemeshow 1999, 176): 600, 500 and 400 members, within 20 %', () => {
    const strata = [
      { population: 600, mean: 0.164, variance: 0.245 },
      { population: 500, mean: 0.166, variance: 0.296 },
      { population: 400, mean: 0.236, variance: 0.436 },
    ]
    const average = (of: (stratum: (typeof strata)[number]) => number) =>
      strata.reduce((sum, stratum) => sum + of(stratum) * stratum.population, 0) / 1500
    const { size } = sampleSize({
      confidence: 0.95,
      precision: 0.2,
      mean: average(({ mean }) => mean),
      sd: Math.sqrt(average(({ variance }) => variance)), // within the strata
      population: 1500,
      divisor: 'N-1',
    })
    // The source rounds up each stratum by itself, so that 559 become 561.
    expect(strata.map(({ population }) => Math.ceil((size * population) / 1500))).toEqual([
      224, 187, 150,
    ])
    expect(
      allocate(
        561,
        strata.map(({ population }) => ({ weight: exact(population) })),
      ),
    ).toEqual([224, 187, 150])
  })
})

describe('quantiles', () => {
  it('agree with themselves to thirty digits when worked out with ninety', () => {
    const close = (a: { low: ReturnType<typeof exact> }, b: typeof a) =>
      Math.abs(
        toNumber({
          num: a.low.num * b.low.den - b.low.num * a.low.den,
          den: a.low.den * b.low.den,
        }),
      )
    for (const confidence of [0.5, 0.9, 0.95, 0.999999]) {
      const z = close(normalQuantile(confidence, 30), normalQuantile(confidence, 90))
      expect(z).toBeLessThan(1e-29)
      for (const df of [1, 2, 3, 30, 199, 200, 5000])
        expect(
          close(studentQuantile(confidence, df, 30), studentQuantile(confidence, df, 90)),
        ).toBeLessThan(1e-29)
    }
  })

  it('know the two degrees of freedom that have a formula', () => {
    // P(|T| ≤ t) = (2/π) atan t with one, t / √(2 + t²) with two.
    const one = toNumber(studentQuantile(0.95, 1).low)
    expect(one).toBeCloseTo(Math.tan((0.95 * Math.PI) / 2), 11)
    const two = toNumber(studentQuantile(0.95, 2).low)
    expect(two).toBeCloseTo(Math.sqrt((2 * 0.95 ** 2) / (1 - 0.95 ** 2)), 14)
  })

  it('refuse what has none', () => {
    expect(() => normalQuantile(1)).toThrow('outside')
    expect(() => normalQuantile(0)).toThrow('outside')
    expect(() => studentQuantile(0.95, 0)).toThrow('degrees')
  })
})

describe('for any question', () => {
  const any = random('questions')
  const questions = Array.from({ length: 400 }, () => ({
    confidence: 0.95,
    precision: 0.05,
    population: any.integer(2, 200_000),
    mean: any.decimal(0.05, 5, 3),
    sd: any.decimal(0, 3, 3),
  }))
  const size = (question: Question) => sampleSize(question).size

  it('the size rises with population, deviation, confidence, and falls with mean and precision', () => {
    for (const q of questions) {
      const n = size(q)
      expect(
        size({ ...q, population: q.population + any.integer(1, 1000) }),
      ).toBeGreaterThanOrEqual(n)
      expect(size({ ...q, sd: toNumber(plus(exact(q.sd), exact(0.1))) })).toBeGreaterThanOrEqual(n)
      expect(size({ ...q, confidence: 0.99 })).toBeGreaterThanOrEqual(n)
      expect(size({ ...q, mean: toNumber(plus(exact(q.mean), exact(0.1))) })).toBeLessThanOrEqual(n)
      expect(size({ ...q, precision: 0.06 })).toBeLessThanOrEqual(n)
      const dropout = any.decimal(0, 0.9, 3)
      expect(withDropout(n, dropout)).toBeGreaterThanOrEqual(n)
      expect(withDropout(n, toNumber(plus(exact(dropout), exact(0.05))))).toBeGreaterThanOrEqual(
        withDropout(n, dropout),
      )
    }
  })

  it('so do Student’s size with the deviation, and a proportion’s size as the proportion falls', () => {
    for (const q of questions.slice(0, 100)) {
      const more = { ...q, sd: toNumber(plus(exact(q.sd), exact(0.1))) }
      expect(studentSize(more)).toBeGreaterThanOrEqual(studentSize(q))
      expect(
        studentSize({ ...q, population: q.population + any.integer(1, 1000) }),
      ).toBeGreaterThanOrEqual(studentSize(q))
      const p = any.decimal(0.05, 0.95, 3)
      const share = { ...q, estimator: 'proportion' as const, mean: p }
      expect(size({ ...share, mean: toNumber(plus(exact(p), exact(0.05))) })).toBeLessThanOrEqual(
        size(share),
      )
    }
  })

  it('the precision is met at n and missed at n - 1', () => {
    // The reference checks z²·V·(N - n) ≤ e²·n·(N - 1) in doubles, and skips cases close to equality.
    const slack = (q: (typeof questions)[number], n: number) =>
      q.precision ** 2 * n * (q.population - 1) -
      1.9599639845400543 ** 2 * (q.sd / q.mean) ** 2 * (q.population - n)
    for (const q of questions) {
      const n = size(q)
      expect(slack(q, n)).toBeGreaterThan(-1e-6)
      if (n > 1) expect(slack(q, n - 1)).toBeLessThan(1e-6)
      const t = studentSize(q)
      expect(t).toBeGreaterThanOrEqual(Math.max(2, n))
      expect(meetsPrecision(t, q)).toBe(true)
      if (t > 2) expect(meetsPrecision(t - 1, q)).toBe(false)
    }
  })

  it('so many are left after dropout, and with one fewer not', () => {
    for (let n = 0; n < 500; n++) {
      const size = any.integer(1, 5000)
      const thousandths = any.integer(0, 999)
      const drawn = withDropout(size, thousandths / 1000)
      expect(drawn * (1000 - thousandths)).toBeGreaterThanOrEqual(size * 1000)
      expect((drawn - 1) * (1000 - thousandths)).toBeLessThan(size * 1000)
    }
  })
})

describe('for any strata', () => {
  const any = random('strata')
  const strata = () => {
    const parts = Array.from({ length: any.integer(1, 7) }, () => any.integer(1, 300))
    const sum = parts.reduce((a, b) => a + b, 0)
    return parts.map((part) => ({ weight: exact(part), share: part / sum }))
  }

  it('shares add up, keep to their quota, and stay below what a stratum has', () => {
    for (let round = 0; round < 500; round++) {
      const shares = strata()
      const total = any.integer(0, 2000)
      const sizes = allocate(total, shares)
      expect(sizes.reduce((a, b) => a + b, 0)).toBe(total)
      shares.forEach(({ share }, index) =>
        expect(Math.abs(sizes[index]! - share * total)).toBeLessThan(1),
      )
      const most = allocate(total + 500, shares)
      const bounded = allocate(
        total,
        shares.map(({ weight }, index) => ({ weight, most: most[index]! })),
      )
      expect(bounded.every((size, index) => size <= most[index]!)).toBe(true)
      expect(bounded.reduce((a, b) => a + b, 0)).toBe(total)
    }
  })

  it('ties go to the larger weight, then to whoever stands first', () => {
    const of = (total: number, weights: (string | number)[]) =>
      allocate(
        total,
        weights.map((weight) => ({ weight: exact(weight) })),
      )
    expect(of(1, [0.5, 0.5])).toEqual([1, 0])
    expect(of(2, [0.25, 0.75])).toEqual([0, 2])
    expect(of(7, [0.25, 0.25, 0.5])).toEqual([2, 2, 3])
  })

  it('the proportional total is the smallest that gives everybody enough, whatever paradox lies between', () => {
    for (let round = 0; round < 300; round++) {
      const demands = strata().map(({ weight }) => ({
        weight,
        required: any.integer(0, 60),
        most: Infinity,
      }))
      const { low, high } = totalBounds(demands)
      const enough = (total: number) =>
        allocate(total, demands).every((size, index) => size >= demands[index]!.required)
      const range = function* (from: number) {
        for (let total = from; ; total++) yield total
      }
      const found = smallestTotal(demands, range(low), (total) => total)!
      let first = 0
      while (!enough(first)) first++
      expect(found.candidate).toBe(first)
      expect(first).toBeGreaterThanOrEqual(low)
      expect(first).toBeLessThanOrEqual(high)
      // A larger demand of one stratum never makes the total smaller.
      const [head, ...rest] = demands
      const more = [{ ...head!, required: head!.required + any.integer(1, 20) }, ...rest]
      expect(
        smallestTotal(more, range(totalBounds(more).low), (total) => total)!.candidate,
      ).toBeGreaterThanOrEqual(first)
    }
  })
})

import { beforeAll, expect, it } from 'vitest'
import { testApp, type TestApp } from '#core/testing'
import { clusterEffect, twoStageSize } from '../arithmetic/clusters.ts'
import { deviationOf } from '../arithmetic/deviation.ts'
import { weightedReliability } from '../arithmetic/weighted.ts'
import sampling from '../index.ts'
import { callsOf, keys, small } from '../fixtures/world.ts'

let app: TestApp
beforeAll(async () => {
  app = await testApp({ plugins: [sampling], env: keys })
  return () => app.close()
})

it('clusters multiply the variance by Kish’s 1 + (m - 1) icc, before the population is counted', async () => {
  expect(clusterEffect(20, 0.05)).toBe(1.95)
  expect(clusterEffect(1, 0.9)).toBe(1)
  const deff = { kind: 'cluster', clusterSize: 20, icc: 0.05 }
  const { body } = await callsOf(app).post('/v1/sampling', {
    ...small,
    population: 5000,
    expectedSD: 0.2,
    deff,
  })
  // n₀ = 96.0365 · 1.95 = 187.27, n = 5000 · 187.27 / (4999 + 187.27) = 180.5: 181, in ten clusters of 20.
  expect(body).toMatchObject({
    parameters: { calculatedSize: 181 },
    working: { deff: { kind: 'cluster', value: 1.95, clusters: 10 } },
  })
  expect(body.working.baseUnrounded).toBeCloseTo(96.03647051735315 * 1.95, 9)
})

it('two stages take the formula of the CDM guideline', async () => {
  // By hand: (0.25² 100/99 + 0.5² (49/50)/... ) with z² = 3.8414588.
  const asked = {
    confidence: 0.95,
    precision: 0.05,
    mean: 0.8,
    clusters: 100,
    clusterSize: 50,
    take: 10,
    betweenSD: 0.1,
    withinSD: 0.2,
  }
  const between = (0.1 / 0.8) ** 2
  const within = (((0.2 / 0.8) ** 2 / 10) * 40) / 49
  const byHand =
    ((between * 100) / 99 + within) / (0.05 ** 2 / 1.959963984540054 ** 2 + between / 99)
  const found = twoStageSize(asked)
  expect(found.unrounded).toBeCloseTo(byHand, 9)
  expect(found.clusters).toBe(Math.ceil(byHand))
  expect(found.tClusters).toBeGreaterThan(found.clusters)
  const { post } = callsOf(app)
  const { kind, ...rest } = {
    kind: 'two-stage',
    clusters: 100,
    clusterSize: 50,
    take: 10,
    betweenSD: 0.1,
    withinSD: 0.2,
  }
  const deff = { kind, ...rest }
  const request = { ...small, population: 5000, expectedSD: 0.22, deff }
  const { body } = await post('/v1/sampling', request)
  expect(body.parameters.calculatedSize).toBe(found.clusters * 10)
  expect(body.working.deff).toMatchObject({ kind, clusters: found.clusters })
  expect(await post('/v1/sampling', { ...request, deff: { ...deff, take: 51 } })).toMatchObject({
    status: 400,
    body: { message: expect.stringContaining('51 are more than') },
  })
  expect(
    await post('/v1/sampling', {
      ...request,
      deff: { ...deff, clusters: 4, take: 1 },
    }),
  ).toMatchObject({
    status: 422,
    body: { message: expect.stringContaining('There are 4 clusters') },
  })
})

it('one stratum that is the whole gives what the simple estimator gives', () => {
  const level = { confidence: 0.95, precision: 0.05 }
  const whole = weightedReliability(
    [{ population: 400, completes: 100, mean: 0.8, sd: 0.2 }],
    level,
  )
  const halves = weightedReliability(
    [1, 2].map(() => ({ population: 200, completes: 50, mean: 0.8, sd: 0.2 })),
    level,
  )
  expect(whole).toMatchObject({ mean: 0.8, degreesOfFreedom: 99 })
  expect(whole.standardError).toBeCloseTo(Math.sqrt((0.75 * 0.04) / 100), 12)
  expect(halves.standardError).toBeCloseTo(whole.standardError, 12)
  expect(halves.degreesOfFreedom).toBe(98)
})

it('a deviation agrees when it is that of the values, rounded as it was given', () => {
  expect(deviationOf([2, 4, 4, 4, 5, 5, 7, 9], 2.138)).toMatchObject({
    n: 8,
    mean: 5,
    agrees: true,
  })
  expect(deviationOf([2, 4, 4, 4, 5, 5, 7, 9], 2.14).agrees).toBe(true)
  expect(deviationOf([2, 4, 4, 4, 5, 5, 7, 9], 2.13).agrees).toBe(false)
  expect(deviationOf([2, 4, 4, 4, 5, 5, 7, 9], 2).agrees).toBe(true)
  expect(deviationOf([1, 1], 0)).toMatchObject({ sd: 0, agrees: true })
})

it('a design is CSV: a row for each stratum, and no cell that a spreadsheet runs', async () => {
  const { made } = callsOf(app)
  const strata = [
    { name: 'urban', weight: 0.6, basis: '=HYPERLINK("http://x","y")' },
    { name: 'rural, far', weight: 0.4, note: 'two\nlines' },
  ]
  const path = await made({ ...small, stratification: { enabled: true, strata } })
  const response = await fetch(`${app.url}${path}/csv`, {
    headers: { authorization: 'Bearer a-key-for-this-test' },
  })
  expect(response.headers.get('content-type')).toContain('text/csv')
  const text = await response.text()
  const [header, first] = text.split('\r\n')
  expect(header).toMatch(/^stratum,weight,population,mean,sd,dropoutRate,.*,designId,revision,/)
  expect(first).toMatch(/^urban,0\.6,240,0\.8,0\.1,0,/)
  expect(text).toContain(`"'=HYPERLINK(""http://x"",""y"")"`)
  expect(text).toContain('\r\n"rural, far",0.4,160')
  const whole = await made()
  const { body } = await app.get(`${whole}/csv`, {
    headers: { authorization: 'Bearer a-key-for-this-test' },
  })
  expect(String(body)).toContain('\r\nall,1,400,0.8,0.1,0,')
})

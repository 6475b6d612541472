import { beforeAll, expect, it, vi } from 'vitest'
import { testApp, type TestApp } from '#core/testing'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import sampling from '../index.ts'
import { callers, complete, handedTo, projects } from '../fixtures/complete.ts'
import { answerOf, roundOf } from '../fixtures/published-rounds.ts'
import {
  callsOf,
  idsOf,
  keys,
  larger,
  small,
  timeOfRound,
  turnClock,
  verifiersKey,
} from '../fixtures/world.ts'

const ids = idsOf(400)
const frame = { all: ids }
const verifier = 'did:ixo:verifier'
const quick = roundOf('quicknet', 1000)
const strata = [
  { name: 'urban', weight: 0.6, basis: 'Baseline survey of 2025' },
  { name: 'rural', weight: 0.4 },
]

await onEachDatabase('the rules of sampling are enforced', ({ databaseUrl }) => {
  let app: TestApp
  beforeAll(async () => {
    app = await testApp({
      plugins: [sampling],
      env: { ...keys, ...(databaseUrl && { DATABASE_URL: databaseUrl }) },
    })
    return () => app.close()
  })
  const calls = () => callsOf(app)
  const submit = (path: string, body: object = {}) =>
    calls().post(`${path}/verification`, { verifier, status: 'submitted', ...body })
  const missing = async (path: string, body: object = {}): Promise<string[]> => {
    const answer = await submit(path, body)
    expect(answer).toMatchObject({ status: 422, body: { code: 'UNPROCESSABLE' } })
    return answer.body.details.missing.map((one: { path: string }) => one.path)
  }

  it('rule 1: a confidence of 0.95 is mandatory; another level is a report beside it', async () => {
    const { post } = calls()
    expect(await post('/v1/sampling', { ...small, confidence: 0.9 })).toMatchObject({
      status: 400,
      body: { details: [{ path: 'confidence', message: 'give the mandatory 0.95, not 0.9' }] },
    })
    const reports = [{ confidence: 0.9, precision: 0.1, standard: 'CDM, small scale' }]
    const { body } = await post('/v1/sampling', { ...small, expectedSD: 0.2, reports })
    // n₀ = 1.644854² 0.0625 / 0.01 = 16.91, n = 400 · 16.91 / (399 + 16.91) = 16.26.
    expect(body).toMatchObject({
      parameters: { confidence: 0.95, precision: 0.05, calculatedSize: 78 },
      reports: [{ ...reports[0], calculatedSize: 17, adjustedSize: 17 }],
    })
  })

  it('rule 2: a precision of 0.05 is required', async () => {
    expect(await calls().post('/v1/sampling', { ...small, precision: 0.1 })).toMatchObject({
      status: 400,
      body: { details: [{ path: 'precision', message: 'give the required 0.05, not 0.1' }] },
    })
  })

  it('rule 3: imprecision is taken off the emission reductions, expected and found', async () => {
    const { post, made } = calls()
    const path = await made({ ...small, expectedER: 1000 })
    const period = { ...larger, completes: 50, er: 1000 }
    const { body } = await post(`${path}/recalculate`, period)
    const { relHalfWidth, erConservative, meetsPrecision } = body.reliability
    expect(meetsPrecision).toBe(false)
    expect(erConservative).toBeCloseTo(1000 * (1 - relHalfWidth), 9)
    expect(await post(`${path}/recalculate`, { ...larger, er: -1 })).toMatchObject({
      status: 400,
      body: { details: [{ path: 'er', message: 'give a number of at least 0, not -1' }] },
    })
    // Before a period the precision itself is taken off, whatever a request says of it.
    const eager = { ...small, expectedER: 1000, imprecisionDiscount: 0 }
    const { working } = (await post('/v1/sampling', eager)).body
    expect(working).toMatchObject({ imprecisionDiscount: 0.05, erConservative: 950 })
  })

  it('rule 4: mean and deviation are justified, and the values of the calculation are checked', async () => {
    const { made } = calls()
    const bare = await made({ ...small, erCoverage: 0.9 })
    expect(await missing(bare, { projects, verifierDraws: true })).toEqual([
      'justification.mean',
      'justification.sd',
      'justification.sdCalculation',
      'frame',
      'frame.nonAdopters',
    ])
    // The deviation of 0.7, 0.8 and 0.9 is 0.1; that of 0.5, 0.8 and 1.1 is 0.3.
    const withData = (data: number[]) => ({
      ...small,
      ...complete,
      justification: {
        ...complete.justification,
        sdCalculation: { text: 'Three households', data },
      },
    })
    const right = await made(withData([0.7, 0.8, 0.9]))
    expect(await missing(right, { projects, verifierDraws: true })).toEqual([
      'frame',
      'frame.nonAdopters',
    ])
    const wrong = await made(withData([0.5, 0.8, 1.1]))
    const { body } = await submit(wrong, { projects })
    expect(body.details.missing[0]).toEqual({
      path: 'justification.sdCalculation',
      message: 'A calculation of the standard deviation 0.1: the values that were given have 0.3.',
    })
  })

  it('rule 4: what supported an expected deviation does not support another one that was found', async () => {
    const { post, made } = calls()
    const path = await made({ ...small, ...complete })
    await post(`${path}/recalculate`, larger)
    expect(await missing(path, { projects, verifierDraws: true })).toEqual([
      'justification.sd',
      'justification.sdCalculation',
      'frame',
      'frame.nonAdopters',
    ])
    const { body } = await post(`${path}/recalculate`, { ...larger, actualSD: 0.21, completes: 60 })
    expect(body.justification.sd).toEqual({
      text: 'The standard deviation 0.21 of 60 completed answers of the monitoring period.',
      source: 'The recalculation of revision 2',
    })
  })

  it('rule 5: the coverage is documented, not assumed', async () => {
    const { made } = calls()
    const { justification } = complete
    const path = await made({ ...small, justification })
    const { status, body } = await submit(path, { projects, verifierDraws: true })
    expect(status).toBe(422)
    expect(
      body.details.missing.filter(({ path: piece }: { path: string }) => piece === 'erCoverage'),
    ).toEqual([
      {
        path: 'erCoverage',
        message: 'The fraction of emission reductions that the sample covers.',
      },
    ])
  })

  it('rule 6: a dropout of everybody, or of less than nobody, is refused', async () => {
    for (const dropoutRate of [1, -0.1])
      expect(await calls().post('/v1/sampling', { ...small, dropoutRate })).toMatchObject({
        status: 400,
        body: {
          details: [
            {
              path: 'dropoutRate',
              message: expect.stringContaining('a fraction of at least 0 and below 1'),
            },
          ],
        },
      })
  })

  it('rule 7: after a period the size is worked out from what the period found', async () => {
    const { post, made } = calls()
    const path = await made()
    const { actualSD: _, ...without } = larger
    expect(await post(`${path}/recalculate`, without)).toMatchObject({
      status: 400,
      body: { message: expect.stringContaining('actualSD') },
    })
    expect(await post(`${path}/recalculate`, larger)).toMatchObject({
      status: 200,
      body: { change: { direction: 'up' } },
    })
  })

  it('rule 8: every stratum says what it is based on, and is reliable by itself', async () => {
    const { post, made } = calls()
    const path = await made({
      ...small,
      ...complete,
      stratification: { enabled: true, strata },
    })
    const { body } = await submit(path, { projects, verifierDraws: true })
    expect(body.details.missing).toContainEqual({
      path: 'stratification.strata.1.basis',
      message:
        'What stratum "rural" is based on: a baseline survey, socio-economic factors or geography.',
    })
    const period = {
      ...larger,
      strata: [
        { name: 'urban', actualMean: 0.9, actualSD: 0.1, completes: 60, basis: 'Survey' },
        { name: 'rural', actualMean: 0.7, actualSD: 0.2, completes: 40, basis: 'Altitude' },
      ],
    }
    expect(
      await post(`${path}/recalculate`, { ...period, strata: [period.strata[0]] }),
    ).toMatchObject({
      status: 400,
      body: { message: expect.stringContaining('stratum "rural" has no completes') },
    })
    const { body: next } = await post(`${path}/recalculate`, period)
    // By hand: W 0.6 and 0.4; 0.36 · (1 - 60/240) 0.01/60 + 0.16 · (1 - 40/160) 0.04/40 = 0.000045 + 0.00012.
    expect(next.reliability).toMatchObject({
      estimator: 'weighted',
      completes: 100,
      strata: [
        { name: 'urban', completes: 60, mean: 0.9 },
        { name: 'rural', completes: 40, mean: 0.7 },
      ],
    })
    expect(next.reliability.mean).toBeCloseTo(0.82, 12)
    expect(next.reliability.standardError).toBeCloseTo(Math.sqrt(0.000165), 12)
    // 0.000165² / (0.000045²/59 + 0.00012²/39) = 67.4: 67 degrees of freedom, t = 1.99601.
    expect(next.reliability.degreesOfFreedom).toBe(67)
    expect(next.reliability.t).toBeCloseTo(1.996008, 5)
  })

  it('rule 9: dropout that needs more households than there are is refused after the population was counted', async () => {
    const dropped = { ...small, expectedSD: 0.4, dropoutRate: 0.6 }
    // n₀ = 384.1, n = 400 · 384.1 / (399 + 384.1) = 196.2, so 197; 197 / 0.4 = 492.5.
    expect(await calls().post('/v1/sampling', dropped)).toMatchObject({
      status: 422,
      body: { details: { field: 'population', required: 493, available: 400 } },
    })
  })

  it('rule 10: a value of the caller’s own is refused for submission', async () => {
    const { post, made } = calls()
    const path = await made({ ...small, ...complete })
    await post(`${path}/selection/commit`, { frame, ...callers })
    await post(`${path}/selection`, { beaconHex: 'ab'.repeat(32) })
    const { status, body } = await submit(path, { projects })
    expect({ status, body }).toMatchObject({
      status: 422,
      body: {
        message: 'The design cannot be submitted: selection is missing.',
        details: {
          missing: [{ path: 'selection', message: expect.stringContaining('"verifiable": false') }],
        },
      },
    })
    expect(await submit(path, { projects, verifierDraws: true })).toMatchObject({ status: 200 })
  })

  it('rule 10: one refusal names every missing piece', async () => {
    const { made } = calls()
    const path = await made({ ...small, stratification: { enabled: true, strata } })
    expect(await missing(path)).toEqual([
      'justification.mean',
      'justification.sd',
      'justification.sdCalculation',
      'erCoverage',
      'stratification.strata.1.basis',
      'frame',
      'frame.nonAdopters',
      'selection',
      'projects',
    ])
  })

  it('rule 10: non-adopters are marked in the frame, with counts that fit it', async () => {
    const { post, made } = calls()
    const path = await made({ ...small, ...complete })
    const commit = (marks: object) =>
      post(`${path}/selection/commit`, { frame, beacon: { source: 'verifier' }, ...marks })
    const refused = (message: string) => ({
      status: 400,
      body: { message: expect.stringContaining(message) },
    })
    expect(await commit({ nonAdopters: 'included' })).toMatchObject(refused('how many'))
    expect(await commit({ nonAdopters: 'included', nonAdopterCounts: { all: 401 } })).toMatchObject(
      refused('401 are more than the 400 ids'),
    )
    expect(await commit({ nonAdopters: 'none', nonAdopterCounts: { all: 1 } })).toMatchObject(
      refused('"none" contradicts'),
    )
    const lines = ids.map((id, n) => JSON.stringify({ id, nonAdopter: n < 30 })).join('\n')
    const { body } = await post(`${path}/selection/commit?source=verifier`, lines, {
      'content-type': 'application/x-ndjson',
    })
    expect(body.frame).toEqual({
      nonAdopters: 'included',
      nonAdopterCounts: { all: 30 },
      counts: { all: 400 },
    })
    expect(await submit(path, { projects })).toMatchObject({
      status: 200,
      body: { verification: { commitment: 1 } },
    })
  })

  it('rule 10: a commitment that said nothing of its non-adopters is marked later, once', async () => {
    const { post, get, made } = calls()
    const path = await made({ ...small, ...complete })
    const beacon = { source: 'caller', round: 1 }
    await post(`${path}/selection/commit`, { frame, beacon })
    const mark = (nonAdopters: string, more: object = {}) =>
      post(`${path}/selection/commit`, { extend: true, nonAdopters, ...more })
    const counted = { nonAdopterCounts: { all: 40 } }
    expect(await mark('included', counted)).toMatchObject({
      status: 200,
      body: { number: 1, frame: { nonAdopters: 'included', nonAdopterCounts: { all: 40 } } },
    })
    expect(await mark('none')).toMatchObject({ status: 409 })
    expect((await get(path)).commitments).toHaveLength(1)
    expect(await submit(path, { projects, verifierDraws: true })).toMatchObject({ status: 200 })
  })

  it('rule 10: a sample drawn by drand is submitted, approved, and its frame stays as it is', async () => {
    const { post, made } = calls()
    turnClock(timeOfRound(quick) - 60_000)
    const path = await made({ ...small, ...complete })
    const beacon = { source: 'drand:quicknet', round: 1000 }
    await post(`${path}/selection/commit`, { frame, beacon, nonAdopters: 'none' })
    expect(await submit(path, { projects })).toMatchObject({
      status: 422,
      body: { details: { missing: [{ message: expect.stringContaining('not drawn yet') }] } },
    })
    vi.setSystemTime(timeOfRound(quick) + 1000)
    await post(`${path}/selection`, { published: answerOf(quick) })
    expect(await submit(path, { projects })).toMatchObject({ status: 200 })
    const other = { frame: { all: idsOf(401) }, beacon: { source: 'caller', round: 1 } }
    expect(await post(`${path}/selection/commit`, other)).toMatchObject({
      status: 409,
      body: { message: 'The design is submitted; its frame and its beacon stay as they are.' },
    })
    const approval = { verifier, status: 'approved' }
    expect(await post(`${path}/verification`, approval, verifiersKey)).toMatchObject({
      status: 200,
      body: { final: true },
    })
  })

  it('rule 10: the verifier’s own draw is recorded with its audit file', async () => {
    const { post, get, made } = calls()
    const path = await made({ ...small, ...complete })
    await post(`${path}/selection/commit`, { frame, ...callers })
    const { body: own } = await post(`${path}/selection`, { beaconHex: 'ab'.repeat(32) })
    const { length } = own.strata[0].ids
    const external = (content: string, by = verifier) => ({
      external: {
        verifier: by,
        method: 'A lottery in the office',
        strata: { all: ids.slice(0, length) },
        auditFile: { name: 'protocol <1>.csv', mediaType: 'text/csv', content },
      },
    })
    expect(await submit(path, { projects })).toMatchObject({ status: 422 })
    expect(await post(`${path}/selection`, external(''))).toMatchObject({ status: 400 })
    const { body } = await post(`${path}/selection`, external('id\nh1\n'))
    expect(body).toMatchObject({
      number: 2,
      source: 'verifier',
      verifiable: false,
      external: {
        verifier,
        recordedBy: 'key:maker',
        auditFile: {
          name: 'protocol <1>.csv',
          bytes: 6,
          sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
        },
      },
      commitments: [
        { number: 1, source: 'caller' },
        { number: 2, source: 'verifier', verifier },
      ],
    })
    expect(await post(`${path}/selection`, external('again'))).toMatchObject({ status: 409 })
    expect((await get(`${path}/selection`)).strata[0].ids).toEqual(ids.slice(0, length))
    const file = await fetch(`${app.url}${path}/selection/audit-file`, {
      headers: { authorization: 'Bearer a-key-for-this-test' },
    })
    expect(await file.text()).toBe('id\nh1\n')
    expect(file.headers.get('content-type')).toBe('application/octet-stream')
    expect(file.headers.get('content-disposition')).toContain('attachment')
    expect(await submit(path, { projects, verifier: 'did:ixo:other' })).toMatchObject({
      status: 422,
      body: { details: { missing: [{ path: 'selection' }] } },
    })
    expect(await submit(path, { projects })).toMatchObject({ status: 200 })
  })

  it('rule 10: a frame for the verifier is drawn by nobody else', async () => {
    const { post, made } = calls()
    const path = await made({ ...small, ...complete })
    const beacon = { source: 'verifier' }
    await post(`${path}/selection/commit`, { frame, beacon, nonAdopters: 'none' })
    expect(await post(`${path}/selection`, { beaconHex: 'ab'.repeat(32) })).toMatchObject({
      status: 409,
      body: { message: 'The frame was committed for the verifier to draw from.' },
    })
    expect(await post(`${path}/verification`, handedTo(verifier))).toMatchObject({ status: 200 })
  })
})

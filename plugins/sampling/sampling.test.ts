import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { testApp, type TestApp, type TestResponse } from '#core/testing'
import { freshDatabase } from '../../test/support/database.ts'
import { describeWith } from '../../test/support/services.ts'
import sampling from './index.ts'
import { callers, complete, handedTo } from './fixtures/complete.ts'
import { key, keys, large as request, small, verifiersKey } from './fixtures/world.ts'
import { ticketOf } from './selection/sampler.ts'

const strata = [
  { name: 'urban', weight: 0.6 },
  { name: 'rural', weight: 0.4 },
]

describe('sampling in SQLite', () => suite({}))
await describeWith('postgres', 'sampling in PostgreSQL', (url) => {
  const database: Record<string, string> = {}
  let drop = async () => {}
  beforeAll(async () => {
    const own = await freshDatabase(url)
    database.DATABASE_URL = own.url
    drop = own.drop
  })
  suite(database)
  afterAll(() => drop())
})

function suite(database: Record<string, string>) {
  let app: TestApp
  beforeAll(async () => {
    app = await testApp({ plugins: [sampling], env: { ...keys, ...database } })
    return () => app.close()
  })
  const post = (path: string, body: unknown, headers = {}) =>
    app.post(path, body, { ...key, ...headers })
  const get = (path: string) => app.get(path, { headers: key })
  const made = async (body: object = request) => {
    const { status, body: design } = await post('/v1/sampling', body)
    expect({ status, design }).toMatchObject({ status: 201 })
    return design
  }
  const refused = ({ status, body }: TestResponse) => ({ status, ...body })
  const stored = async (projectId: string) =>
    (await get(`/v1/sampling?projectId=${encodeURIComponent(projectId)}`)).body.items.length

  it('designs, with every intermediate value, and reads it back', async () => {
    const answer = await post('/v1/sampling', request)
    expect(answer.status).toBe(201)
    const design = answer.body
    expect(answer.headers.get('location')).toBe(`/v1/sampling/${design.designId}`)
    expect(design).toMatchObject({
      projectId: request.projectId,
      revision: 1,
      parameters: {
        confidence: 0.95,
        precision: 0.05,
        population: 5000,
        calculatedSize: 95,
        adjustedSize: 112,
        erCoverage: 0.85,
        erCoverageBasis: 'default',
      },
      working: { z: 1.9599639845400543, tSize: 97, tAdjustedSize: 115, imprecisionDiscount: 0.05 },
      verification: { status: 'draft' },
      final: false,
    })
    expect(design.working.baseUnrounded).toBeCloseTo(96.03647051735314, 10)
    expect(design.working.fpcUnrounded).toBeCloseTo(94.24512569544135, 10)
    expect(design.warnings.map(({ code }: { code: string }) => code)).toContain('SMALL_SAMPLE')
    expect((await get(`/v1/sampling/${design.designId}`)).body).toEqual(design)
    expect((await get('/v1/sampling/no-such-design')).status).toBe(404)
    const path = `/v1/sampling/${design.designId}`
    const etag = (await get(path)).headers.get('etag') ?? ''
    const again = () => app.get(path, { headers: { ...key, 'if-none-match': etag } })
    expect((await again()).status).toBe(304)
    const all = Array.from({ length: 5000 }, (_, n) => `h${n}`)
    await post(`${path}/selection/commit`, { frame: { all }, ...callers })
    expect((await again()).status).toBe(200)
  })

  it('uses Student’s t, a proportion and a given coverage where asked', async () => {
    const corrected = await made({ ...request, smallSampleCorrection: true, erCoverage: 0.9 })
    expect(corrected.parameters).toMatchObject({
      calculatedSize: 97,
      adjustedSize: 115,
      erCoverage: 0.9,
      erCoverageBasis: 'given',
    })
    const { expectedSD: _, ...proportion } = { ...request, estimator: 'proportion' }
    expect((await made(proportion)).parameters).toMatchObject({
      calculatedSize: 357,
      adjustedSize: 420,
    })
    expect((await made({ ...request, expectedER: 1000 })).working).toMatchObject({
      erConservative: 950,
    })
  })

  it('gives every stratum its precision in proportion, alone, or pooled with a warning', async () => {
    const sizes = async (method: string) => {
      const { parameters, stratification, warnings } = await made({
        ...request,
        stratification: { enabled: true, method, strata },
      })
      const pooled = warnings.some(({ code }: { code: string }) => code === 'POOLED')
      const of = stratification.strata.map((s: { sampleSize: number }) => s.sampleSize)
      const required = stratification.strata.map((s: { requiredSize: number }) => s.requiredSize)
      expect(required).toEqual([111, 109])
      expect(stratification.pooledSize).toBe(112)
      expect(stratification.oversampling).toBeCloseTo(parameters.adjustedSize / 112, 12)
      return [parameters.calculatedSize, parameters.adjustedSize, ...of, pooled]
    }
    expect(await sizes('proportional')).toEqual([231, 272, 163, 109, false])
    expect(await sizes('independent')).toEqual([186, 220, 111, 109, false])
    expect(await sizes('pooled')).toEqual([95, 112, 67, 45, true])
  })

  it('lets a stratum’s own parameters win, and documents them', async () => {
    const own = { mean: 2, sd: 0.9, dropoutRate: 0.5, basis: 'baseline survey', note: 'hills' }
    const { stratification } = await made({
      ...request,
      stratification: {
        enabled: true,
        method: 'independent',
        strata: [strata[0], { ...strata[1], ...own }],
      },
    })
    expect(stratification.strata[0]).toMatchObject({ mean: 0.8, sd: 0.2, sampleSize: 111 })
    // By hand: n₀ = 3.8414588 × 0.2025 / 0.0025 = 311.16, of 2000: 269.3, so 270, and 540 with dropout.
    expect(stratification.strata[1]).toMatchObject({ ...own, population: 2000, sampleSize: 540 })
  })

  it('refuses what is not valid with 400, naming field, value and remedy, and stores nothing', async () => {
    const projectId = 'did:ixo:entity:refused400'
    const wrong: [object, string, string][] = [
      [{ confidence: 0.9 }, 'confidence', '0.95, not 0.9'],
      [{ precision: 0.1 }, 'precision', '0.05, not 0.1'],
      [{ confidence: '0.95' }, 'confidence', 'not \\"0.95\\"'],
      [{ expectedMean: 0 }, 'expectedMean', 'above 0, not 0'],
      [{ expectedMean: undefined }, 'expectedMean', 'missing'],
      [{ expectedSD: -0.1 }, 'expectedSD', 'at least 0, not -0.1'],
      [{ expectedSD: undefined }, 'expectedSD', 'missing'],
      [{ dropoutRate: 1 }, 'dropoutRate', 'below 1, such as 0.15, not 1'],
      [{ dropoutRate: -0.1 }, 'dropoutRate', 'not -0.1'],
      [{ population: 10.5 }, 'population', 'not 10.5'],
      [{ population: -1 }, 'population', 'not -1'],
      [{ population: '5000' }, 'population', 'not \\"5000\\"'],
      [{ population: null }, 'population', 'not null'],
      [{ erCoverage: 1.5 }, 'erCoverage', 'not 1.5'],
      [{ estimator: 'proportion', expectedMean: 1.5 }, 'expectedMean', 'not 1.5'],
      [{ projectId: 'abc' }, 'projectId', 'a DID'],
      [{ projectId: 'did:ixo:' }, 'projectId', 'a DID'],
      [{ stratification: { enabled: true } }, 'stratification.strata', 'at least one stratum'],
      [{ stratification: { enabled: true, strata: [] } }, 'stratification.strata', 'at least one'],
      [
        { stratification: { enabled: true, strata: [{ name: 'a', weight: 0 }] } },
        'stratification.strata.0.weight',
        'not 0',
      ],
      [
        { stratification: { enabled: true, strata: [{ name: 'a', weight: 1.1 }] } },
        'stratification.strata.0.weight',
        'not 1.1',
      ],
    ]
    for (const [change, path, says] of wrong) {
      const answer = refused(await post('/v1/sampling', { ...request, projectId, ...change }))
      expect(answer).toMatchObject({ status: 400, code: 'INVALID_INPUT' })
      const fault = answer.details.find((fault: { path: string }) => fault.path === path)
      expect(JSON.stringify(fault), `${path}: ${JSON.stringify(answer)}`).toContain(says)
      expect(answer.message).toContain('is not valid')
    }
    expect(await stored(projectId)).toBe(0)
  })

  it('refuses a population that cannot bear the sample with 422, and stores nothing', async () => {
    const projectId = 'did:ixo:entity:refused422'
    const ask = (change: object) => post('/v1/sampling', { ...request, projectId, ...change })
    for (const population of [undefined, 0, 1])
      expect(refused(await ask({ population }))).toMatchObject({
        status: 422,
        code: 'UNPROCESSABLE',
        hint: expect.stringContaining('at least 2'),
        details: { field: 'population', value: population ?? null, required: 2 },
      })
    expect(refused(await ask({ population: 100, dropoutRate: 0.9 }))).toMatchObject({
      status: 422,
      hint: expect.stringContaining('allowCensus'),
      details: { field: 'population', required: 500, available: 100 },
    })
    const tiny = {
      enabled: true,
      strata: [
        { name: 'most', weight: 0.9998 },
        { name: 'few', weight: 0.0002 },
      ],
    }
    expect(refused(await ask({ stratification: tiny }))).toMatchObject({
      status: 422,
      message: expect.stringContaining('"few" has a population of 1'),
      details: { field: 'stratification.strata.1.population', value: 1, required: 2 },
    })
    expect(await stored(projectId)).toBe(0)

    const census = await ask({ population: 100, dropoutRate: 0.9, allowCensus: true })
    expect(census.body).toMatchObject({
      parameters: { calculatedSize: 50, adjustedSize: 100 },
      warnings: expect.arrayContaining([expect.objectContaining({ code: 'CENSUS' })]),
    })
  })

  it('refuses contradicting strata with 409, and stores nothing', async () => {
    const projectId = 'did:ixo:entity:refused409'
    const ask = (strata: object[]) =>
      post('/v1/sampling', { ...request, projectId, stratification: { enabled: true, strata } })
    const wrong: [object[], string, unknown][] = [
      [[strata[0]!, { name: ' URBAN ', weight: 0.4 }], 'stratification.strata.1.name', 'URBAN'],
      [
        [
          { name: 'a', weight: 0.5 },
          { name: 'b', weight: 0.4 },
        ],
        'stratification.strata.weight',
        0.9,
      ],
      [
        [
          { name: 'a', weight: 0.5 },
          { name: 'b', weight: 0.500000002 },
        ],
        'stratification.strata.weight',
        1.000000002,
      ],
      [
        [{ ...strata[0], population: 2000 }, strata[1]!],
        'stratification.strata.0.population',
        2000,
      ],
    ]
    for (const [strata, field, value] of wrong)
      expect(refused(await ask(strata))).toMatchObject({
        status: 409,
        code: 'CONFLICT',
        hint: expect.any(String),
        details: { field, value },
      })
    expect(await stored(projectId)).toBe(0)
    const tenths = [
      { name: 'a', weight: 0.1 },
      { name: 'b', weight: 0.2 },
      { name: 'c', weight: 0.7 },
    ]
    expect((await ask(tenths)).status).toBe(201)
  })

  it('repeats the answer to an Idempotency-Key', async () => {
    const projectId = 'did:ixo:entity:repeated'
    const again = { 'idempotency-key': 'the-same-key' }
    const first = await post('/v1/sampling', { ...request, projectId }, again)
    const second = await post('/v1/sampling', { ...request, projectId }, again)
    expect(second).toMatchObject({ status: 201, body: first.body })
    expect(await stored(projectId)).toBe(1)
  })

  it('lists the designs of a project page by page, newest first', async () => {
    const projectId = 'did:ixo:entity:listed/stoves'
    const ids: string[] = []
    for (let n = 0; n < 5; n++) ids.unshift((await made({ ...request, projectId })).designId)
    const found: string[] = []
    let cursor = ''
    do {
      const { body } = await get(
        `/v1/sampling?projectId=${encodeURIComponent(projectId)}&limit=2${cursor}`,
      )
      found.push(...body.items.map((design: { designId: string }) => design.designId))
      cursor = body.nextCursor ? `&cursor=${body.nextCursor}` : ''
    } while (cursor)
    expect(found.toSorted()).toEqual(ids.toSorted())
  })

  it('asks for the key', async () => {
    expect((await app.post('/v1/sampling', request)).status).toBe(401)
    expect((await app.get('/v1/sampling?projectId=did:ixo:x')).status).toBe(401)
  })

  it('recalculates up, down or unchanged, and keeps every revision', async () => {
    const design = await made()
    const path = `/v1/sampling/${design.designId}/recalculate`
    const up = await post(path, {
      actualMean: 0.75,
      actualSD: 0.25,
      actualDropoutRate: 0.2,
      completes: 100,
      er: 1000,
    })
    // By hand: n₀ = 3.8414588 × (0.25/0.75)² / 0.0025 = 170.73, of 5000: 165.1, so 166, and 208 with dropout.
    expect(up.body).toMatchObject({
      designId: design.designId,
      revision: 2,
      parameters: { expectedMean: 0.75, calculatedSize: 166, adjustedSize: 208 },
      change: { previousAdjustedSize: 112, delta: 96, direction: 'up' },
      reliability: { completes: 100, meetsPrecision: false },
      verification: { status: 'draft' },
    })
    const { relHalfWidth, lowerBoundMean, erConservative } = up.body.reliability
    // t₀.₉₇₅(99) = 1.98421695; SE = √(0.98 × 0.0625 / 100).
    const half = 1.9842169515864 * Math.sqrt((0.98 * 0.0625) / 100)
    expect(relHalfWidth).toBeCloseTo(half / 0.75, 12)
    expect(lowerBoundMean).toBeCloseTo(0.75 - half, 12)
    expect(erConservative).toBeCloseTo(1000 * (1 - half / 0.75), 9)
    expect(up.body.working.imprecisionDiscount).toBe(relHalfWidth)

    const down = await post(path, { actualMean: 0.8, actualSD: 0.2, actualDropoutRate: 0.15 })
    expect(down.body.change).toEqual({ previousAdjustedSize: 208, delta: -96, direction: 'down' })
    const same = await post(path, { actualMean: 0.8, actualSD: 0.2, actualDropoutRate: 0.15 })
    expect(same.body.change).toMatchObject({ delta: 0, direction: 'unchanged' })

    const { body } = await get(`/v1/sampling/${design.designId}/revisions`)
    expect(
      body.items.map((item: typeof design) => [item.revision, item.parameters.adjustedSize]),
    ).toEqual([
      [1, 112],
      [2, 208],
      [3, 112],
      [4, 112],
    ])
    expect((await get(`/v1/sampling/${design.designId}?revision=2`)).body).toEqual(up.body)
    expect((await get(`/v1/sampling/${design.designId}`)).body.revision).toBe(4)
    const bad = await post(path, { actualMean: 0.8, actualSD: 0.2, actualDropoutRate: 1 })
    expect(bad.status).toBe(400)
    const strange = await post(path, {
      actualMean: 0.8,
      actualSD: 0.2,
      actualDropoutRate: 0,
      strata: [{ name: 'none' }],
    })
    expect(refused(strange)).toMatchObject({ status: 400, details: [{ path: 'strata' }] })
    expect((await get(`/v1/sampling/${design.designId}`)).body.revision).toBe(4)
  })

  it('draws what the committed frame and the beacon say, once, and an auditor finds the same', async () => {
    const design = await made(small)
    const { adjustedSize } = design.parameters
    const path = `/v1/sampling/${design.designId}/selection`
    const ids = Array.from({ length: 400 }, (_, n) => `household-${n}`)
    const beacon = { source: 'caller', round: 'the draw of 1 December' }
    const beaconHex = 'ab'.repeat(32)
    expect((await get(path)).status).toBe(404)
    expect((await post(path, { beaconHex })).status).toBe(404)

    const few = await post(`${path}/commit`, { frame: { all: ids.slice(0, 5) }, beacon })
    expect(refused(few)).toMatchObject({
      status: 422,
      details: { required: adjustedSize, available: 5 },
    })
    const twice = await post(`${path}/commit`, { frame: { all: [...ids, ids[3]] }, beacon })
    expect(refused(twice)).toMatchObject({ status: 400, message: expect.stringContaining('twice') })
    const foreign = await post(`${path}/commit`, { frame: { rural: ids }, beacon })
    expect(refused(foreign)).toMatchObject({ status: 400, hint: 'Its strata: all.' })

    const commitment = await post(`${path}/commit`, { frame: { all: ids }, beacon })
    expect(commitment.body).toMatchObject({ ...beacon, source: 'caller', counts: { all: 400 } })
    const again = await post(`${path}/commit`, { frame: { all: ids }, beacon })
    expect(refused(again)).toMatchObject({ status: 409, hint: expect.any(String) })

    const { status, body } = await post(path, { beaconHex, reserves: 3 })
    expect(status).toBe(200)
    const [all] = body.strata
    const { frameDigest } = commitment.body
    expect(all.seed).toBe(`sampling-v1|${design.designId}|all|${frameDigest}|${beaconHex}`)
    const order = ids
      .map((id) => ({ id, ticket: ticketOf(all.seed, id) }))
      .sort((a, b) => (a.ticket < b.ticket ? -1 : 1))
      .map(({ id }) => id)
    expect(all.ids).toEqual(order.slice(0, adjustedSize))
    expect(all.reserves).toEqual(order.slice(adjustedSize, adjustedSize + 3))
    expect((await get(path)).body).toEqual(body)
    expect((await post(path, { beaconHex })).body).toEqual(body)
    expect((await post(path, { beaconHex: 'cd'.repeat(32) })).status).toBe(409)

    const told = {
      frameDigest,
      committedAt: commitment.body.committedAt,
      source: 'caller',
      round: beacon.round,
      selectedAt: body.selectedAt,
      number: 1,
      revision: 1,
      verifiable: false,
      frame: { counts: { all: 400 } },
    }
    const own = `/v1/sampling/${design.designId}`
    expect((await get(own)).body.selection).toEqual(told)
    expect((await get(`${own}/revisions`)).body.items[0].selection).toEqual(told)

    const grown = await post(`/v1/sampling/${design.designId}/recalculate`, {
      actualMean: 0.8,
      actualSD: 0.2,
      actualDropoutRate: 0.1,
    })
    const more = grown.body.parameters.adjustedSize
    expect(more).toBeGreaterThan(adjustedSize)
    expect(grown.body.change.idsToAdd).toEqual([
      { name: 'all', ids: order.slice(adjustedSize, more) },
    ])
  })

  it('takes a frame line by line, and draws strata alone', async () => {
    const design = await made({ ...small, stratification: { enabled: true, strata } })
    const path = `/v1/sampling/${design.designId}/selection`
    const frame = {
      urban: Array.from({ length: 240 }, (_, n) => `u${n}`),
      rural: Array.from({ length: 160 }, (_, n) => `r${n}`),
    }
    const lines = [
      ...frame.urban.map((id) => JSON.stringify({ stratum: 'urban', id })),
      JSON.stringify({ stratum: 'rural', ids: frame.rural }),
    ]
    const ndjson = { 'content-type': 'application/x-ndjson' }
    const send = (lines: string[]) =>
      post(`${path}/commit?round=7&source=caller`, lines.join('\n'), ndjson)
    expect(refused(await send([...lines, '{broken']))).toMatchObject({
      status: 400,
      message: expect.stringContaining('Line 242'),
    })
    expect(refused(await send([...lines, '7']))).toMatchObject({ status: 400 })
    const committed = await send(lines)
    expect(committed.body).toMatchObject({ counts: { urban: 240, rural: 160 }, round: '7' })
    const { body } = await post(path, { beaconHex: '01'.repeat(16) })
    for (const [index, name] of (['urban', 'rural'] as const).entries()) {
      const { sampleSize } = design.stratification.strata[index]
      expect(body.strata[index]).toMatchObject({ name, ids: { length: sampleSize } })
      expect(frame[name]).toEqual(expect.arrayContaining(body.strata[index].ids))
    }
  })

  it('keeps what a verifier drew, after a look at the frame', async () => {
    const design = await made(small)
    const path = `/v1/sampling/${design.designId}/selection`
    const ids = Array.from({ length: 400 }, (_, n) => `h${n}`)
    await post(`${path}/commit`, { frame: { all: ids }, beacon: { source: 'caller', round: 1 } })
    const external = (all: string[]) => ({
      external: { verifier: 'did:ixo:verifier', method: 'lottery', strata: { all } },
    })
    const { adjustedSize } = design.parameters
    expect(await post(path, external(ids.slice(0, 3)))).toMatchObject({ status: 422 })
    const own = ids.slice(0, adjustedSize)
    expect(await post(path, external([...own, 'stranger']))).toMatchObject({ status: 400 })
    expect(await post(path, external([...own, own[0]!]))).toMatchObject({ status: 400 })
    expect(await post(path, {})).toMatchObject({ status: 400 })
    expect((await post(path, external(own))).body).toMatchObject({
      external: { verifier: 'did:ixo:verifier', method: 'lottery' },
      strata: [{ name: 'all', ids: own }],
    })
  })

  it('is final only when submitted and then approved by a verifier', async () => {
    const { designId } = await made({ ...small, ...complete })
    const path = `/v1/sampling/${designId}/verification`
    const all = Array.from({ length: 400 }, (_, n) => `h${n}`)
    await post(`/v1/sampling/${designId}/selection/commit`, { frame: { all }, ...callers })
    const verifier = 'did:ixo:verifier'
    const early = await post(path, { verifier, status: 'approved' })
    expect(refused(early)).toMatchObject({
      status: 409,
      hint: 'Submit it first.',
      details: { value: 'approved', present: 'draft' },
    })
    const projects = [{ did: 'did:ixo:planned', status: 'planned' }]
    const submitted = await post(path, { ...handedTo(verifier), projects })
    expect(submitted.body).toMatchObject({ final: false, verification: { projects } })
    const approval = { verifier, status: 'approved', notes: 'Well reasoned.' }
    expect(await post(path, approval)).toMatchObject({ status: 403 })
    const { body } = await post(path, approval, verifiersKey)
    expect(body).toMatchObject({
      final: true,
      verification: { status: 'approved', verifier, projects, notes: 'Well reasoned.' },
    })
    expect(body.verification.timestamp).toBe(new Date(body.verification.timestamp).toISOString())
    expect(body.verification.history).toHaveLength(2)
    expect(await post(path, { verifier, status: 'rejected' })).toMatchObject({ status: 409 })
    expect(await post(path, { verifier: 'somebody', status: 'approved' })).toMatchObject({
      status: 400,
    })
  })

  it('has the data of a plot', async () => {
    const { status, body } = await get(
      '/v1/sampling/curve?population=5000&expectedMean=0.8&expectedSD=0.2&dropoutRate=0.15',
    )
    expect(status).toBe(200)
    expect(body.precision).toContainEqual({ x: 0.05, calculatedSize: 95, adjustedSize: 112 })
    expect(body.expectedSD).toContainEqual({ x: 0.2, calculatedSize: 95, adjustedSize: 112 })
    expect(body.dropoutRate).toContainEqual({ x: 0, calculatedSize: 95, adjustedSize: 95 })
    expect((await get('/v1/sampling/curve?population=1')).status).toBe(400)
  })

  it('lets an agent design, explain, recalculate and draw with progress', async () => {
    const thread = app.thread().load('sampling')
    const call = async (name: string, args: object): Promise<any> => thread.call(name, args) // any: the tests read members of the result
    const { designId, parameters } = await call('design_sample', request)
    expect(parameters.adjustedSize).toBe(112)
    const { steps } = await call('explain_sample', { designId })
    const text = JSON.stringify(steps)
    for (const number of ['1.9599639845400543', '0.0625', '96.036', '94.245', '95', '112', '97'])
      expect(text).toContain(number)
    const actual = { actualMean: 0.8, actualSD: 0.1, actualDropoutRate: 0.15 }
    const { change } = await call('recalculate_sample', { designId, ...actual })
    expect(change.direction).toBe('down')
    const design = await call('get_sample_design', { designId })
    expect(design.revision).toBe(2)
    const frame = { all: Array.from({ length: 5000 }, (_, n) => `h${n}`) }
    await expect(
      call('select_sample', {
        designId,
        frame,
        beacon: { source: 'caller', round: 1 },
        beaconHex: '00'.repeat(8),
      }),
    ).rejects.toThrow('commit the frame first')
    await call('select_sample', { designId, frame, beacon: { source: 'caller', round: 1 } })
    const { strata } = await call('select_sample', { designId, beaconHex: '00'.repeat(8) })
    expect(strata[0].ids).toHaveLength(design.parameters.adjustedSize)
    expect(thread.emitted.at(-1)).toMatchObject({
      event: 'progress',
      args: [5000, 5000, expect.anything()],
    })
    await expect(call('design_sample', { ...request, confidence: 0.9 })).rejects.toThrow('0.95')
    const explained = await get(`/v1/sampling/${designId}/explanation?revision=1`)
    expect(explained.body.steps).toEqual(steps)
  })
}

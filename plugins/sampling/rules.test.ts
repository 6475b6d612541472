import { beforeAll, expect, it } from 'vitest'
import { testApp, type TestApp } from '#core/testing'
import { onEachDatabase } from '../../test/support/each-database.ts'
import sampling from './index.ts'
import { callers, complete, handedTo, projects, supported } from './fixtures/complete.ts'
import { key, keys, large as request, verifiersKey } from './fixtures/world.ts'

const strata = [
  { name: 'urban', weight: 0.6, basis: 'baseline survey of 2025' },
  {
    name: 'rural',
    weight: 0.4,
    mean: 0.7,
    sd: 0.3,
    dropoutRate: 0.2,
    basis: 'geography',
    note: 'hills',
  },
]
const stratified = { ...request, stratification: { enabled: true, strata } }
const source = (text: string) => ({ text, source: `${text}, table 2` })
const justification = {
  mean: source('baseline survey'),
  sd: source('pilot of 60 households'),
  dropoutRate: source('period before'),
  sdCalculation: complete.justification.sdCalculation,
}

/** A frame with every household of a design, stratum by stratum. */
const frameOf = ({ parameters, stratification }: any) =>
  // any: the design is a parsed answer
  Object.fromEntries(
    (stratification?.strata ?? [{ name: 'all', population: parameters.population }]).map(
      ({ name, population }: { name: string; population: number }) => [
        name,
        Array.from({ length: population }, (_, n) => `${name}-${n}`),
      ],
    ),
  )

/** The value at a path such as `a.0.b`. */
const at = (record: any, path: string) =>
  path.split('.').reduce((value, name) => value?.[name], record) // any: the record is a parsed answer

/** The cases: a rule, a request, and the expected values at paths of the answer. */
const rules: [string, object, Record<string, unknown>][] = [
  ['1, a confidence of 95 %', request, { 'parameters.confidence': 0.95 }],
  ['2, a precision of 5 %', request, { 'parameters.precision': 0.05 }],
  [
    '3, imprecision counts against emission reductions',
    { ...request, expectedER: 2000 },
    {
      'working.imprecisionDiscount': 0.05,
      'working.expectedER': 2000,
      'working.erConservative': 1900,
    },
  ],
  ['4, mean and deviation are justified', { ...request, justification }, { justification }],
  [
    '5, the coverage is documented, as it was given',
    { ...request, erCoverage: 0.92 },
    { 'parameters.erCoverage': 0.92, 'parameters.erCoverageBasis': 'given' },
  ],
  [
    '5, the coverage is documented, where it was not given',
    request,
    { 'parameters.erCoverage': 0.85, 'parameters.erCoverageBasis': 'default' },
  ],
  [
    '6, dropout is accounted for',
    request,
    {
      'parameters.dropoutRate': 0.15,
      'parameters.calculatedSize': 95,
      'parameters.adjustedSize': 112,
    },
  ],
  [
    '8, every stratum has a size of its own from its own parameters, which are documented',
    stratified,
    {
      // By hand, N 3000: n₀ = 96.0365, n = 93.09, 94 of 0.85: 111. N 2000: n₀ = 3.8414588 (3/7)² / 0.0025 = 282.23,
      // n = 247.4, 248 of 0.8: 310.
      'stratification.strata.0.requiredSize': 111,
      'stratification.strata.1.requiredSize': 310,
      'stratification.strata.0.basis': 'baseline survey of 2025',
      'stratification.strata.1.basis': 'geography',
      'stratification.strata.1.note': 'hills',
      'stratification.strata.1.dropoutRate': 0.2,
      'stratification.strata.1.working.calculatedSize': 248,
    },
  ],
  [
    '9, base size, then population, then dropout, then strata by weight',
    stratified,
    {
      'working.baseUnrounded': 96.03647051735315,
      'working.fpcUnrounded': 94.24512569544135,
      'stratification.pooledSize': 112,
      'stratification.method': 'proportional',
      // Rural gets its 310 from 774 on, and 775 is the next ⌈n / 0.85⌉.
      'parameters.calculatedSize': 658,
      'parameters.adjustedSize': 775,
      'stratification.strata.0.sampleSize': 465,
      'stratification.strata.1.sampleSize': 310,
    },
  ],
  [
    '10, the method of random selection stands in the record',
    request,
    {
      selectionMethod: expect.stringMatching(/non-adopters and planned projects.*SHA-256.*beacon/s),
    },
  ],
]

/** The fields of the specification's record, with their types. */
const fields: [string, string][] = [
  ['designId', 'string'],
  ['projectId', 'string'],
  ['parameters.confidence', 'number'],
  ['parameters.precision', 'number'],
  ['parameters.population', 'integer'],
  ['parameters.calculatedSize', 'integer'],
  ['parameters.adjustedSize', 'integer'],
  ['parameters.dropoutRate', 'number'],
  ['parameters.erCoverage', 'number'],
  ['stratification.method', 'string'],
  ...['0', '1'].flatMap((n): [string, string][] => [
    [`stratification.strata.${n}.name`, 'string'],
    [`stratification.strata.${n}.population`, 'integer'],
    [`stratification.strata.${n}.sampleSize`, 'integer'],
    [`stratification.strata.${n}.mean`, 'number'],
    [`stratification.strata.${n}.sd`, 'number'],
  ]),
  ['verification.status', 'string'],
  ['verification.verifier', 'string'],
  ['verification.timestamp', 'string'],
]

await onEachDatabase('the rules of sampling', ({ databaseUrl }) => {
  let app: TestApp
  beforeAll(async () => {
    app = await testApp({
      plugins: [sampling],
      env: { ...keys, ...(databaseUrl && { DATABASE_URL: databaseUrl }) },
    })
    return () => app.close()
  })
  const post = (path: string, body: unknown, headers = {}) =>
    app.post(path, body, { ...key, ...headers })
  const get = async (path: string) => (await app.get(path, { headers: key })).body

  it.each(rules)('%s', async (_, body, says) => {
    const { status, body: made } = await post('/v1/sampling', body)
    expect({ status, made }).toMatchObject({ status: 201 })
    const stored = await get(`/v1/sampling/${made.designId}`)
    for (const [path, value] of Object.entries(says)) expect(at(stored, path), path).toEqual(value)
  })

  it('1 and 2: nothing but 95 % and 5 %', async () => {
    for (const confidence of [0.9, 0.99, 95, 1, 0, -0.95, '0.95', null])
      expect(await post('/v1/sampling', { ...request, confidence })).toMatchObject({ status: 400 })
    for (const precision of [0.1, 0.01, 5, 0, -0.05, '0.05', null])
      expect(await post('/v1/sampling', { ...request, precision })).toMatchObject({ status: 400 })
  })

  it('4: what is not justified is warned of, field by field', async () => {
    const codes = async (body: object) =>
      (await post('/v1/sampling', body)).body.warnings
        .filter(({ code }: { code: string }) => code === 'NOT_JUSTIFIED')
        .map(({ message }: { message: string }) => /justification\.(\w+)/.exec(message)?.[1])
    expect(await codes(request)).toEqual(['mean', 'sd', 'dropoutRate'])
    expect(await codes({ ...request, justification: { sd: source('pilot') } })).toEqual([
      'mean',
      'dropoutRate',
    ])
    expect(await codes({ ...request, justification })).toEqual([])
  })

  it.each([
    ['up', { actualMean: 0.75, actualSD: 0.25, actualDropoutRate: 0.2 }, 208],
    ['down', { actualMean: 0.8, actualSD: 0.1, actualDropoutRate: 0.15 }, 29],
    ['unchanged', { actualMean: 0.8, actualSD: 0.2, actualDropoutRate: 0.15 }, 112],
  ])('7, after a period the size goes %s', async (direction, actual, adjustedSize) => {
    const { body: made } = await post('/v1/sampling', request)
    const { body } = await post(`/v1/sampling/${made.designId}/recalculate`, actual)
    expect(body).toMatchObject({
      revision: 2,
      parameters: { adjustedSize },
      change: { previousAdjustedSize: 112, delta: adjustedSize - 112, direction },
    })
  })

  it('4: a field that nobody reads is warned of, for a misspelt one changes the size', async () => {
    const unread = ({ body }: { body: any }) =>
      body.warnings
        .filter(({ code }: { code: string }) => code === 'UNKNOWN_FIELD')
        .map(({ message }: { message: string }) => message)
    const strata = [{ name: 'all', weight: 1, drpoutRate: 0.2 }]
    const made = await post('/v1/sampling', {
      ...request,
      estimater: 'proportion',
      note: 'ours',
      stratification: { enabled: true, strata },
    })
    expect(made.status).toBe(201)
    expect(unread(made)).toEqual([
      'A request has no field "estimater"; did you mean "estimator"?',
      'A request has no field "note", and it changes nothing.',
      'A request has no field "stratification.strata.0.drpoutRate"; did you mean "dropoutRate"?',
    ])
    expect(unread(await post('/v1/sampling', { ...request, justification }))).toEqual([])
    const { designId } = made.body
    const actual = { actualMean: 2, actualSD: 0.5, actualDropoutRate: 0.1 }
    const path = `/v1/sampling/${designId}/recalculate`
    expect(unread(await post(path, { ...actual, stratas: [] }))).toEqual([
      'A request has no field "stratas"; did you mean "strata"?',
    ])
    expect(unread(await post(path, actual))).toEqual([])
  })

  it('8: a stratum’s own actual values replace its expected ones', async () => {
    const { body: made } = await post('/v1/sampling', stratified)
    const { body } = await post(`/v1/sampling/${made.designId}/recalculate`, {
      actualMean: 0.8,
      actualSD: 0.2,
      actualDropoutRate: 0.15,
      strata: [{ name: 'rural', actualMean: 0.8, actualSD: 0.2, actualDropoutRate: 0.15 }],
    })
    expect(body.parameters.adjustedSize).toBe(272)
    expect(body.change.direction).toBe('down')
  })

  it('10: active and planned projects go to an external verifier with the coverage and its support', async () => {
    const { body: made } = await post('/v1/sampling', {
      ...request,
      erCoverage: 0.9,
      justification,
    })
    const path = `/v1/sampling/${made.designId}`
    await post(`${path}/selection/commit`, { frame: frameOf(made), ...callers })
    const { body } = await post(`${path}/verification`, handedTo('did:ixo:verifier'))
    expect(body).toMatchObject({
      parameters: { erCoverage: 0.9 },
      justification,
      verification: { status: 'submitted', verifier: 'did:ixo:verifier', projects },
    })
  })

  it.each([
    ['a mean', stratified],
    [
      'a proportion',
      {
        ...stratified,
        estimator: 'proportion',
        stratification: {
          enabled: true,
          strata: strata.map(({ name, weight, basis }) => ({ name, weight, basis })),
        },
      },
    ],
  ])('the record of %s has every field of the specification in its type', async (_, body) => {
    const { body: made } = await post('/v1/sampling', { ...complete, ...body })
    const path = `/v1/sampling/${made.designId}`
    const verifier = 'did:ixo:verifier'
    await post(`${path}/selection/commit`, { frame: frameOf(made), ...callers })
    await post(`${path}/verification`, handedTo(verifier))
    await post(`${path}/verification`, { verifier, status: 'approved' }, verifiersKey)
    const record = await get(path)
    for (const [field, type] of fields) {
      const value = at(record, field)
      expect(typeof value, field).toBe(type === 'integer' ? 'number' : type)
      if (type === 'integer') expect(Number.isInteger(value), field).toBe(true)
    }
    expect(record.verification.status).toBe('approved')
    expect(new Date(record.verification.timestamp).toISOString()).toBe(
      record.verification.timestamp,
    )
  })

  it('every POST repeats its answer to an Idempotency-Key, and takes another body for a mistake', async () => {
    const small = { ...request, ...complete, population: 60, expectedSD: 0.1, dropoutRate: 0 }
    const { body: made } = await post('/v1/sampling', small)
    const path = `/v1/sampling/${made.designId}`
    const ids = Array.from({ length: 60 }, (_, n) => `h${n}`)
    const lines = (ids: string[]) => ids.map((id) => JSON.stringify(id)).join('\n')
    const ndjson = { 'content-type': 'application/x-ndjson' }
    const { body: other } = await post('/v1/sampling', small)
    const posts: [string, unknown, unknown, object?][] = [
      ['/v1/sampling', small, request],
      [
        `${path}/recalculate`,
        { actualMean: 0.8, actualSD: 0.2, actualDropoutRate: 0, ...supported },
        { actualMean: 0.8, actualSD: 0.1, actualDropoutRate: 0 },
      ],
      [
        `${path}/selection/commit`,
        { frame: { all: ids }, ...callers },
        { frame: { all: ids.slice(1) }, ...callers },
      ],
      [
        `/v1/sampling/${other.designId}/selection/commit?round=1&source=caller`,
        lines(ids),
        lines(ids.slice(1)),
        ndjson,
      ],
      [`${path}/selection`, { beaconHex: 'ab'.repeat(8) }, { beaconHex: 'cd'.repeat(8) }],
      [`${path}/verification`, handedTo('did:ixo:verifier'), handedTo('did:ixo:other')],
    ]
    for (const [to, body, different, headers] of posts) {
      const keyed = { ...headers, 'idempotency-key': `key of ${to}` }
      const first = await post(to, body, keyed)
      expect([200, 201], to).toContain(first.status)
      const again = await post(to, body, keyed)
      expect(again, to).toMatchObject({ status: first.status, body: first.body })
      expect(again.headers.get('idempotency-replayed'), to).toBe('true')
      expect(await post(to, different, keyed), to).toMatchObject({
        status: 422,
        body: { code: 'IDEMPOTENCY_MISMATCH' },
      })
    }
    expect((await get(`${path}/revisions`)).items).toHaveLength(2)
  })
})

import { gzipSync } from 'node:zlib'
import { beforeAll, expect, it } from 'vitest'
import { testApp, type TestApp } from '#core/testing'
import { onEachDatabase } from '../../test/support/each-database.ts'
import sampling from './index.ts'

const env = { API_KEY: 'a-key-for-this-test' }
const key = { authorization: `Bearer ${env.API_KEY}` }
const json = { ...key, 'content-type': 'application/json' }
const ndjson = { ...key, 'content-type': 'application/x-ndjson' }
const valid = {
  projectId: 'did:ixo:entity:hostile',
  population: 50,
  confidence: 0.95,
  precision: 0.05,
  expectedMean: 0.8,
  expectedSD: 0.05,
  dropoutRate: 0,
}
const strata = (...strata: object[]) => ({ stratification: { enabled: true, strata } })
const many = (count: number) => ({
  stratification: { enabled: true, strata: Array(count).fill({ name: 'a', weight: 1 }) },
})
const quicknet = 'drand:52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971'

/** A request with one field as JSON text, which may be a text that JSON.stringify cannot produce. */
const written = (field: string, text: string) =>
  JSON.stringify({ ...valid, [field]: '@' }).replace('"@"', text)
const changed = (change: object) => JSON.stringify({ ...valid, ...change })

/** The cases for POST /v1/sampling: a body, the expected status, and words of the expected answer. */
const designs: [string, string | Buffer, number, string][] = [
  ['a number that no double holds', written('expectedMean', '1e309'), 400, 'too large'],
  ['309 nines', written('population', '9'.repeat(309)), 400, 'too large'],
  ['zero with a minus, as a mean', written('expectedMean', '-0'), 400, 'above 0, not 0'],
  ['a list for a number', written('expectedMean', '[0.8]'), 400, 'not [0.8]'],
  ['an object for a number', written('dropoutRate', '{}'), 400, 'not {}'],
  ['true for a number', written('expectedSD', 'true'), 400, 'not true'],
  ['null for a number', written('dropoutRate', 'null'), 400, 'not null'],
  ['digits of another script', written('expectedMean', '"٠.٨"'), 400, 'not \\"٠.٨\\"'],
  ['wide digits', written('population', '"５０"'), 400, 'not \\"５０\\"'],
  ['a number as a text', written('population', '"50"'), 400, 'not \\"50\\"'],
  ['half a household', written('population', '50.5'), 400, 'not 50.5'],
  ['more than a billion households', written('population', '1000000001'), 400, 'at most'],
  ['a confidence that nearly is', written('confidence', '0.9500000000000001'), 400, 'mandatory'],
  ['a mean that is almost nothing', written('expectedMean', '5e-324'), 400, 'too many times'],
  ['a deviation that is almost everything', written('expectedSD', '1e308'), 400, 'too many times'],
  ['nearly everybody drops out', written('dropoutRate', '0.9999999999999999'), 422, 'required'],
  [
    'a DID of ten thousand letters',
    changed({ projectId: `did:ixo:${'a'.repeat(1e4)}` }),
    400,
    '500',
  ],
  ['a DID with a line break', changed({ projectId: 'did:ixo:a\n' }), 400, 'a DID'],
  ['a DID with U+0000', changed({ projectId: 'did:ixo:a\0' }), 400, 'U+0000'],
  ['a DID in a list', changed({ projectId: ['did:ixo:a'] }), 400, 'not [\\"did'],
  ['strata as a list', changed({ stratification: [1] }), 400, 'an object'],
  ['ten thousand strata', changed(many(1e4)), 400, '100'],
  ['a million strata', changed(many(1e6)), 413, 'larger'],
  ['a weight as a text', changed(strata({ name: 'a', weight: '1' })), 400, 'not \\"1\\"'],
  ['a name of blanks', changed(strata({ name: ' \t ', weight: 1 })), 400, 'a name'],
  ['a name with a line break', changed(strata({ name: 'a\nb', weight: 1 })), 400, 'a line break'],
  ['a name that is a prototype', changed(strata({ name: '__proto__', weight: 1 })), 400, 'a name'],
  [
    'names that differ in case only, with ß',
    changed(strata({ name: 'Straße', weight: 0.5 }, { name: ' STRASSE ', weight: 0.5 })),
    409,
    'one name',
  ],
  [
    'names that differ in how é is written only',
    changed(strata({ name: 'é', weight: 0.5 }, { name: 'e\u0301', weight: 0.5 })),
    409,
    'one name',
  ],
  [
    'a weight of almost nothing',
    changed(strata({ name: 'a', weight: 1e-300 }, { name: 'b', weight: 1 })),
    422,
    'at least 2',
  ],
  ['a key that is a prototype', '{"__proto__":{"confidence":0.95}}', 400, '__proto__'],
  ['a list', '[]', 400, 'object'],
  ['nothing', '', 400, 'missing'],
  ['half an object', '{"projectId":', 400, 'broken'],
  ['brackets, deep', '['.repeat(1e5), 400, 'deeper'],
  ['compressed bytes that do not say so', gzipSync(JSON.stringify(valid)), 400, 'UTF-8'],
]

/** The cases of NDJSON lines for the frame of a design that draws six of fifty. */
const frames: [string, string | Buffer, number, string][] = [
  ['an id with a line break', '"a\\nb"', 400, 'line 1'],
  ['an id with U+0000', '"a\\u0000"', 400, 'U+0000'],
  ['an id with a line separator', '"a\\u2028b"', 400, 'a line break'],
  ['an id with a tab', '"a\\tb"', 400, 'a line break'],
  ['an id with half a surrogate pair', '"\\ud800"', 400, 'surrogate'],
  ['an id of 201 letters', `"${'x'.repeat(201)}"`, 400, '200'],
  ['an empty id', '""', 400, 'not \\"\\"'],
  ['a number', '"a"\n7', 400, 'line 2'],
  ['null', 'null', 400, 'not null'],
  ['a list', '["a"]', 400, 'line 1'],
  ['a list in a list', '{"ids":[["a"]]}', 400, 'not [\\"a\\"]'],
  ['ids that are no list', '{"ids":"abc"}', 400, 'a list of ids'],
  ['a stratum that is a number', '{"stratum":7,"id":"a"}', 400, 'not 7'],
  ['a stratum that nobody has', '{"stratum":"none","id":"a"}', 400, 'Its strata: all'],
  ['a line broken in the middle', '"a"\n{"ids":["b"\n"c"', 400, 'Line 2'],
  ['bytes that are no UTF-8', Buffer.from([0x22, 0xff, 0x22]), 400, 'UTF-8'],
  ['an id twice', Array(9).fill('"a"').join('\n'), 400, 'twice'],
  ['too few ids', '"a"\n"b"', 422, '6 are to be drawn'],
  ['nothing at all', '', 422, 'lists 0 ids'],
  ['a line of two megabytes', `"${'x'.repeat(2 * 1024 * 1024)}"`, 400, 'longer'],
]

/** The cases for the other paths of a design. */
const callers = { beacon: { source: 'caller', round: 1 } }

const others: [string, string, string, unknown, number, string][] = [
  ['POST', '/selection/commit', 'nothing', {}, 400, 'frame\\" is not valid: missing'],
  ['POST', '/selection/commit', 'no frame', callers, 400, 'frame\\" is not valid: missing'],
  ['GET', '?revision=0', 'a revision before the first', undefined, 400, 'not 0'],
  ['GET', '?revision=1e400', 'an endless revision', undefined, 400, 'revision'],
  ['GET', '?revision=99999999999999', 'a revision beyond all', undefined, 400, 'revision'],
  ['GET', '?revision=x', 'a revision that is no number', undefined, 400, 'not \\"x\\"'],
  ['GET', '?revision=7', 'a revision that is not there', undefined, 404, 'no revision 7'],
  ['POST', '/recalculate', 'nothing', {}, 400, 'actualMean'],
  [
    'POST',
    '/recalculate',
    'no deviation',
    { actualMean: 1, actualDropoutRate: 0 },
    400,
    'actualSD',
  ],
  [
    'POST',
    '/recalculate',
    'more answers than households',
    { actualMean: 1, actualSD: 0, actualDropoutRate: 0, completes: 51 },
    400,
    '50',
  ],
  [
    'POST',
    '/recalculate',
    'half an answer',
    { actualMean: 1, actualSD: 0, actualDropoutRate: 0, completes: 2.5 },
    400,
    'not 2.5',
  ],
  [
    'POST',
    '/recalculate',
    'more than there are',
    { actualMean: 1, actualSD: 100, actualDropoutRate: 0.5 },
    422,
    '100 are required',
  ],
  [
    'POST',
    '/recalculate',
    'a deviation that is almost everything',
    { actualMean: 1e308, actualSD: 1e308, actualDropoutRate: 0, completes: 2 },
    400,
    'too large',
  ],
  [
    'POST',
    '/recalculate',
    'a deviation that is far from the mean',
    { actualMean: 1e-300, actualSD: 1e300, actualDropoutRate: 0 },
    400,
    'actualSD',
  ],
  ['POST', '/selection/commit', 'no beacon', { frame: { all: ['a'] } }, 400, 'beacon'],
  [
    'POST',
    '/selection/commit',
    'no round',
    { frame: { all: ['a'] }, beacon: { source: 'caller' } },
    400,
    'its number',
  ],
  [
    'POST',
    '/selection/commit',
    'a frame that is a list',
    { frame: ['a'], beacon: { source: 'caller', round: 1 } },
    400,
    'ids by stratum',
  ],
  [
    'POST',
    '/selection/commit',
    'an unknown chain',
    { frame: { all: ['a'] }, beacon: { source: `drand:${'0'.repeat(64)}`, round: 1 } },
    400,
    'not known',
  ],
  [
    'POST',
    '/selection/commit',
    'a round beyond all time',
    { frame: { all: ['a'] }, beacon: { source: quicknet, round: 999999999999999 } },
    400,
    'round',
  ],
  [
    'POST',
    '/selection/commit',
    'a round that was',
    { frame: { all: ['a'] }, beacon: { source: quicknet, round: 1000 } },
    400,
    'before the commitment',
  ],
  [
    'POST',
    '/selection',
    'before a commitment',
    { beaconHex: 'ab'.repeat(8) },
    404,
    'Nothing is committed',
  ],
  ['POST', '/selection', 'no hexadecimal digits', { beaconHex: 'zz' }, 400, 'not \\"zz\\"'],
  ['POST', '/selection', 'half a byte', { beaconHex: 'a'.repeat(17) }, 400, 'hexadecimal'],
  ['POST', '/verification', 'nobody', { status: 'submitted' }, 400, 'verifier'],
  [
    'POST',
    '/verification',
    'a name that is no DID',
    { verifier: 'x', status: 'submitted' },
    400,
    'not \\"x\\"',
  ],
  [
    'POST',
    '/verification',
    'a step that there is not',
    { verifier: 'did:ixo:v', status: 'final' },
    400,
    'not \\"final\\"',
  ],
  [
    'POST',
    '/verification',
    'approved before it is submitted',
    { verifier: 'did:ixo:v', status: 'approved' },
    409,
    'Submit it first',
  ],
]

/** The cases for the curve: a query with numbers at the limits of a double, and the expected status. */
const curves: [string, number][] = [
  ['population=50&expectedMean=1&expectedSD=1e308', 400],
  ['population=50&expectedMean=1e308&expectedSD=1e308', 400],
  ['population=50&expectedMean=1e-308&expectedSD=1', 400],
  ['population=50&expectedMean=5e-324&expectedSD=5e-324', 200],
  ['population=50&expectedMean=1e308&expectedSD=1e306', 200],
  ['population=50&expectedMean=1&expectedSD=-0', 200],
  ['population=9007199254740992&expectedMean=1&expectedSD=1', 400],
  ['population=50&expectedMean=1e999&expectedSD=1', 400],
  ['population=50&expectedMean=5e-324&estimator=proportion', 200],
  ['population=50&expectedMean=1.5&estimator=proportion', 400],
  ['population=50&expectedMean=0.5&estimator=proportion&dropoutRate=0.9999999999999999', 200],
]

await onEachDatabase('what nobody should send', ({ databaseUrl }) => {
  let app: TestApp
  let path = ''
  let design: unknown
  beforeAll(async () => {
    app = await testApp({
      plugins: [sampling],
      env: { ...env, ...(databaseUrl && { DATABASE_URL: databaseUrl }) },
    })
    const { body } = await app.post('/v1/sampling', valid, key)
    design = body
    path = `/v1/sampling/${body.designId}`
    return () => app.close()
  })
  async function send(
    method: string,
    to: string,
    body: string | Buffer | undefined,
    headers: object,
  ) {
    const response = await fetch(app.url + to, { method, headers: { ...headers }, body })
    return { status: response.status, text: await response.text() }
  }
  const stored = async () =>
    (await app.get(`/v1/sampling?projectId=${valid.projectId}`, { headers: key })).body.items

  it.each(designs)('as a request: %s', async (_, body, status, says) => {
    const answer = await send('POST', '/v1/sampling', body, json)
    expect(answer).toMatchObject({ status, text: expect.stringContaining(says) })
  })

  it.each(frames)('as a frame: %s', async (_, body, status, says) => {
    const to = `${path}/selection/commit?round=1&source=caller`
    expect(await send('POST', to, body, ndjson)).toMatchObject({
      status,
      text: expect.stringContaining(says),
    })
    expect((await send('GET', `${path}/selection`, undefined, key)).status).toBe(404)
  })

  it.each(others)('%s %s: %s', async (method, end, _, body, status, says) => {
    const text = body === undefined ? undefined : JSON.stringify(body)
    expect(await send(method, path + end, text, body === undefined ? key : json)).toMatchObject({
      status,
      text: expect.stringContaining(says),
    })
  })

  it.each(curves)('as a curve: %s', async (query, status) => {
    const answer = await send('GET', `/v1/sampling/curve?${query}`, undefined, key)
    expect(answer.status).toBe(status)
    if (status === 200) expect(answer.text).not.toMatch(/null|NaN|Infinity/)
  })

  it('is not read compressed', async () => {
    for (const [to, headers] of [
      ['/v1/sampling', json],
      [`${path}/selection/commit?round=1&source=caller`, ndjson],
    ] as const)
      expect(
        await send('POST', to, gzipSync(JSON.stringify(valid)), {
          ...headers,
          'content-encoding': 'gzip',
        }),
      ).toMatchObject({ status: 415, text: expect.stringContaining('gzip') })
  })

  it('leaves everything as it was, and no fault of ours in the log', async () => {
    expect(await stored()).toEqual([design])
    expect(app.log.filter((line) => /"level":(50|"error")| error /.test(line))).toEqual([])
  })

  it('takes zero with a minus for zero, and a number however it is written', async () => {
    for (const [field, text, is] of [
      ['expectedSD', '-0', 0],
      ['dropoutRate', '-0.0', 0],
      ['population', '5e1', 50],
      ['population', '50.0', 50],
      ['confidence', '0.950', 0.95],
      ['precision', '5e-2', 0.05],
    ] as const) {
      const { status, text: answer } = await send(
        'POST',
        '/v1/sampling',
        written(field, text),
        json,
      )
      expect({ status, answer }).toMatchObject({ status: 201 })
      expect(Object.is(JSON.parse(answer).parameters[field], is)).toBe(true)
    }
  })
})

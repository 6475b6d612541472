import { afterAll, beforeAll, expect, it } from 'vitest'
import { testApp, type TestApp } from '#core/testing'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { apiKeys, asKey, asVerifier } from '../../../test/support/registry.ts'
import registry from '../../registry/index.ts'
import sampling from '../index.ts'

const project = 'did:ixo:project/lusaka'
const homes = 'did:ixo:protocol/homes'
const survey = 'did:ixo:protocol/survey'
const patience = { timeout: 20_000 }
const where = `@type = 'Household' and @in.contains = '${project}'`
const frameQuery = { where, stratum: 'stratum' }

await onEachDatabase('from twins to a sample and back', (on) => {
  let app: TestApp
  let designId = ''
  beforeAll(async () => {
    const database = on.databaseUrl ? { DATABASE_URL: on.databaseUrl } : {}
    app = await testApp({ plugins: [registry, sampling], env: { API_KEY: apiKeys, ...database } })
  })
  afterAll(() => app?.close())
  const send = async (
    path: string,
    body: unknown,
    status: number,
    headers = asKey,
  ): Promise<any> => {
    // any: the tests read members of the answers
    const answer = await app.post(path, body, headers)
    expect([path, answer.status, answer.body]).toEqual([path, status, answer.body])
    return answer.body
  }
  const read = async (path: string): Promise<any> => (await app.get(path, { headers: asKey })).body // any: as above
  const home = (n: number, stratum: string) =>
    send(
      '/v1/entities',
      { did: `did:ixo:home/${n}`, type: 'Household', protocol: homes, properties: { stratum } },
      201,
    )
  const join = (n: number) =>
    app.put(
      `/v1/entities/${encodeURIComponent(project)}/relationships/contains/${encodeURIComponent(`did:ixo:home/${n}`)}`,
      {},
      asKey,
    )

  it('freezes the twins of a query as the frame, and the digest tells when they have changed', async () => {
    await send(
      '/v1/protocols',
      {
        did: homes,
        type: 'Protocol',
        properties: { stratum: 'string' },
        indexes: { stratum: 'string' },
      },
      201,
    )
    await send(
      '/v1/protocols',
      {
        did: survey,
        type: 'Protocol',
        properties: { hours: 'number' },
        evaluation: {
          rules: [
            { when: { '>': [{ var: 'claim.hours' }, 0] }, then: 'approve', because: 'Cooked.' },
          ],
        },
      },
      201,
      asVerifier,
    )
    await send(
      '/v1/entities',
      { did: project, type: 'Project', protocol: homes, properties: {} },
      201,
    )
    for (let n = 0; n < 24; n++) {
      await home(n, n % 2 === 0 ? 'urban' : 'rural')
      await join(n)
    }
    const design = await send(
      '/v1/sampling',
      {
        projectId: project,
        population: 24,
        confidence: 0.95,
        precision: 0.05,
        expectedMean: 4,
        expectedSD: 0.2,
        dropoutRate: 0.1,
        stratification: {
          enabled: true,
          strata: [
            { name: 'urban', weight: 0.5 },
            { name: 'rural', weight: 0.5 },
          ],
        },
      },
      201,
    )
    designId = design.designId
    const at = `/v1/sampling/${designId}/selection`
    const beacon = { source: 'caller', round: 'a word of mine' }
    const refused = await app.post(
      `${at}/commit`,
      { frameQuery: { where: 'nothing = 1' }, beacon },
      asKey,
    )
    expect([refused.status, refused.body.message]).toEqual([
      400,
      expect.stringContaining('no index has "nothing"'),
    ])
    const both = await app.post(
      `${at}/commit`,
      { frame: { all: ['a'] }, frameQuery, beacon },
      asKey,
    )
    expect(both.status).toBe(400)
    const committed = await send(`${at}/commit`, { frameQuery, beacon }, 200)
    expect(committed).toMatchObject({ counts: { urban: 12, rural: 12 }, frameQuery })
    await home(24, 'urban')
    await join(24)
    const drawn = await send(at, { beaconHex: 'ab'.repeat(32) }, 200)
    expect(drawn.frameDigest).toBe(committed.frameDigest)
    expect(drawn.frameNow).toMatchObject({ query: frameQuery, hasChanged: true })
    expect(drawn.frameNow.digest).not.toBe(committed.frameDigest)
    expect(JSON.stringify(drawn.strata)).not.toContain('did:ixo:home/24')
  })

  it('takes the approved claims about the drawn twins back as the recalculation by stratum', async () => {
    const { strata } = await read(`/v1/sampling/${designId}/selection`)
    const before = await read(`/v1/sampling/${designId}`)
    const drawn = strata.flatMap(({ ids }: { ids: string[] }) => ids)
    // One household answers nothing, and one that was not drawn answers and does not count.
    const [silent, ...answering] = drawn as string[]
    const stranger = Array.from({ length: 25 }, (_, n) => `did:ixo:home/${n}`).find(
      (did) => !drawn.includes(did),
    )
    expect(silent).toBeDefined()
    for (const [n, subject] of [...answering, ...(stranger ? [stranger] : [])].entries())
      await send(
        '/v1/claims',
        {
          subject,
          type: 'Survey',
          protocol: survey,
          properties: { hours: subject === stranger ? 99 : 3.9 + (n % 3) / 10 },
        },
        201,
      )
    const state = () => read(`/v1/sampling/${designId}/survey?protocol=${survey}`)
    await expect
      .poll(
        async () =>
          (await state()).strata.reduce(
            (sum: number, { completes }: { completes: number }) => sum + completes,
            0,
          ),
        patience,
      )
      .toBe(answering.length)
    const [first] = (await state()).strata
    expect(first.twins.find(({ did }: { did: string }) => did === silent)).toEqual({ did: silent })
    const next = await send(
      `/v1/sampling/${designId}/survey/recalculate`,
      { protocol: survey, property: 'hours' },
      200,
    )
    expect(next.revision).toBe(before.revision + 1)
    expect(next.parameters.expectedMean).toBeCloseTo(4, 0)
    expect(next.parameters.dropoutRate).toBeCloseTo(1 / drawn.length, 6)
    expect(next.reliability).toMatchObject({ completes: answering.length })
    expect(next.stratification.strata).toHaveLength(2)
    const wrong = await app.post(
      `/v1/sampling/${designId}/survey/recalculate`,
      { protocol: survey, property: 'minutes' },
      asKey,
    )
    expect([wrong.status, wrong.body.message]).toEqual([
      400,
      expect.stringContaining('and no number'),
    ])
  })

  it('takes the measured imprecision of the project off what is minted', async () => {
    const { reliability } = await read(`/v1/sampling/${designId}`)
    const credits = 'did:ixo:protocol/credits'
    const mints = {
      unit: 'tCO2e',
      type: 'Credit',
      property: 'tonnes',
      quantity: { var: 'claim.tonnes' },
      imprecision: { role: 'contains', otherwise: 0.5 },
    }
    await send(
      '/v1/protocols',
      { did: credits, type: 'Protocol', properties: { tonnes: 'number' }, mints },
      201,
      asVerifier,
    )
    const { did: use } = await send(
      '/v1/protocols',
      {
        type: 'Protocol',
        properties: { tonnes: 'number' },
        evaluation: { rules: [{ when: true, then: 'approve', because: 'It is.' }], mints: credits },
      },
      201,
      asVerifier,
    )
    const claim = await send(
      '/v1/claims',
      { subject: 'did:ixo:home/1', type: 'Use', protocol: use, properties: { tonnes: 100 } },
      201,
    )
    await expect
      .poll(async () => (await read(`/v1/claims/${claim.id}`)).credit, patience)
      .toBeDefined()
    const { credit } = await read(`/v1/claims/${claim.id}`)
    const { links } = await read(`/v1/entities/${credit}/provenance`)
    expect(links[0].working).toMatchObject({
      gross: 100,
      imprecision: { share: reliability.relHalfWidth, source: expect.stringContaining(designId) },
    })
    expect(links[0].working.quantity).toBeCloseTo(100 * (1 - reliability.relHalfWidth), 5)
    expect(links[0].working.quantity).toBeLessThan(100)
  })
})

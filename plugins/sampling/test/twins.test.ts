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

  it('opens a survey claim about every drawn twin, once for a period, and its answer is one claim', async () => {
    const { strata } = await read(`/v1/sampling/${designId}/selection`)
    const drawn: string[] = strata.flatMap(({ ids }: { ids: string[] }) => ids)
    const at = `/v1/sampling/${designId}/survey`
    const opening = { protocol: survey, period: 'rehearsal' }
    const unknown = await app.post(at, { protocol: 'did:ixo:protocol/none' }, asKey)
    expect([unknown.status, unknown.body.message]).toEqual([
      422,
      expect.stringContaining('there is no protocol did:ixo:protocol/none'),
    ])
    const stranger = await app.user()
    expect((await stranger.post(at, opening)).status).toBe(403)
    expect(await send(at, opening, 200)).toMatchObject({
      drawn: drawn.length,
      opened: drawn.length,
      gone: [],
    })
    expect(await send(at, opening, 200)).toMatchObject({ opened: 0 })
    const state = async () => {
      const found = await read(`${at}?protocol=${survey}&period=rehearsal`)
      return found.strata.flatMap(({ twins }: any) => twins) // any: members of an answer
    }
    const waiting = await state()
    expect(waiting.map(({ did }: { did: string }) => did)).toEqual(drawn)
    const [first, second] = waiting
    const claim = await read(`/v1/claims/${first.open}`)
    expect(claim).toMatchObject({
      subject: first.did,
      type: 'Survey',
      status: 'open',
      properties: {},
      protocol: { did: survey, version: 1 },
    })
    expect(claim.submitter).toBeUndefined()
    expect((await read(`/v1/claims?status=open&protocol=${survey}`)).items).toHaveLength(
      drawn.length,
    )
    const early = await app.post(
      `/v1/claims/${first.open}/evaluation`,
      { status: 'approved' },
      asVerifier,
    )
    expect([early.status, early.body.message]).toEqual([
      409,
      expect.stringContaining('nobody has submitted it yet'),
    ])
    const wrong = await app.post(
      `/v1/claims/${first.open}/submission`,
      { properties: { hourz: 4 } },
      asKey,
    )
    expect([wrong.status, wrong.body.message]).toEqual([
      400,
      expect.stringContaining('did you mean "hours"?'),
    ])
    expect(await read(`/v1/claims/${first.open}`)).toEqual(claim)
    expect(
      (await stranger.post(`/v1/claims/${first.open}/submission`, { properties: { hours: 4 } }))
        .status,
    ).toBe(403)
    // The controller of a drawn twin may answer, and takes what waits for the twin along when its data is erased.
    const owner = await app.user()
    const given = await app.patch(
      `/v1/entities/${encodeURIComponent(first.did)}`,
      { controller: owner.did },
      { ...asKey, 'if-match': '*' },
    )
    expect(given.status).toBe(200)
    const hers = await owner.get('/v1/claims?status=open')
    expect(hers.body.items.map(({ id }: { id: string }) => id)).toEqual([first.open])
    expect((await owner.erase()).erased.registry).toMatchObject({ claim: 1 })
    expect((await app.get(`/v1/claims/${first.open}`, { headers: asKey })).status).toBe(404)
    expect(
      await app.get(`/v1/entities/${encodeURIComponent(first.did)}`, { headers: asKey }),
    ).toMatchObject({ status: 404 })
    const n = Number(first.did.split('/')[1])
    await home(n, n % 2 === 0 ? 'urban' : 'rural')
    await join(n)
    expect(await send(at, opening, 200)).toMatchObject({ opened: 1 })
    const answer = { properties: { hours: 4 } }
    await send(`/v1/claims/${first.open}/submission`, answer, 200)
    await expect
      .poll(async () => (await read(`/v1/claims/${first.open}`)).status, patience)
      .toBe('approved')
    const filled = await read(`/v1/claims/${first.open}`)
    expect(filled).toMatchObject({ submitter: first.did, properties: { hours: 4 } })
    expect(filled.credential).toBeDefined()
    expect((await app.post(`/v1/claims/${first.open}/submission`, answer, asKey)).status).toBe(409)
    const [done, open] = await state()
    expect([done, open]).toEqual([{ did: first.did, claim: first.open }, second])
    expect(await send(at, opening, 200)).toMatchObject({ opened: 0 })
    expect(await send(at, { ...opening, period: 'next' }, 200)).toMatchObject({
      opened: drawn.length,
    })
    // Whoever answers is the maker of the claim: the key that filled it in does not judge it, the one that opened it may.
    const judged = `/v1/claims/${second.open}/evaluation`
    const manual = { status: 'approved' }
    await send(
      `/v1/claims/${second.open}/submission`,
      { properties: { hours: 0 } },
      200,
      asVerifier,
    )
    await expect
      .poll(async () => (await read(`/v1/claims/${second.open}`)).review?.state, patience)
      .toBe('asked')
    expect((await app.post(judged, manual, asVerifier)).status).toBe(403)
  })

  it('takes the approved claims about the drawn twins back as the recalculation by stratum', async () => {
    const { strata } = await read(`/v1/sampling/${designId}/selection`)
    const before = await read(`/v1/sampling/${designId}`)
    const since = new Date().toISOString()
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
    const state = () => read(`/v1/sampling/${designId}/survey?protocol=${survey}&since=${since}`)
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
      { protocol: survey, property: 'hours', since },
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

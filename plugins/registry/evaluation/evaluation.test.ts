import { afterAll, beforeAll, expect, it } from 'vitest'
import { scriptedModel, testApp, type ScriptedStep, type TestApp } from '#core/testing'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { apiKeys, asKey, asVerifier } from '../../../test/support/registry.ts'
import { verify } from '../../../test/support/verify-credential.ts'
import registry from '../index.ts'

const patience = { timeout: 30_000 }
const asset = 'did:ixo:stove/1'
const credits = 'did:ixo:protocol/credits'
const usage = 'did:ixo:protocol/usage'

const evaluation = {
  values: {
    grams: { '/': [{ '*': [{ var: 'claim.fuel' }, 1000] }, { var: 'claim.minutes' }] },
    before: { count: { '==': [{ var: 'each.day' }, { var: 'claim.day' }] } },
  },
  rules: [
    {
      when: { '>': [{ var: 'values.before' }, 0] },
      then: 'reject',
      because: 'Day {claim.day} was claimed before.',
    },
    {
      when: { '>': [{ var: 'values.grams' }, 12] },
      then: 'reject',
      because: '{values.grams} g a minute.',
    },
    {
      when: { '<': [{ var: 'values.grams' }, 1] },
      then: 'agent',
      because: 'Too little to settle.',
    },
    {
      when: { '<=': [3, { var: 'values.grams' }, 12] },
      then: 'approve',
      because: '{values.grams} g a minute is plausible.',
    },
  ],
  otherwise: 'ask',
  agent: { instructions: 'You check the use of stoves.', tools: ['get_entity'] },
  mints: credits,
}

await onEachDatabase('evaluation without a hand', (where) => {
  let app: TestApp
  let steps: ScriptedStep[] = []
  const told: string[] = []
  const ok = async (path: string, body?: object, headers = asKey): Promise<any> => {
    // any: the tests read members of the answers
    const answer = body ? await app.post(path, body, headers) : await app.get(path, { headers })
    expect([path, answer.status, answer.body]).toEqual([
      path,
      expect.toBeOneOf([200, 201]),
      answer.body,
    ])
    return answer.body
  }
  const claim = (properties: object, more: object = {}) =>
    ok('/v1/claims', { subject: asset, type: 'Use', protocol: usage, properties, ...more })
  const decided = async (id: string) => {
    await expect
      .poll(async () => {
        const { status, review } = await ok(`/v1/claims/${id}`)
        return status !== 'submitted' || review?.state === 'asked'
      }, patience)
      .toBe(true)
    return ok(`/v1/claims/${id}`)
  }

  beforeAll(async () => {
    const model = scriptedModel(
      Array.from({ length: 50 }, () => (request: any) => {
        // any: a request of the model
        told.push(JSON.stringify(request))
        return steps.shift() ?? 'done'
      }),
    )
    const database = where.databaseUrl ? { DATABASE_URL: where.databaseUrl } : {}
    app = await testApp({
      plugins: [registry],
      model,
      env: { API_KEY: apiKeys, ACCESS: 'granted', ...database },
    })
    const stoves = await ok('/v1/protocols', { type: 'Protocol', properties: { power: 'number' } })
    await ok('/v1/entities', {
      did: asset,
      type: 'Stove',
      protocol: stoves.did,
      properties: { power: 3 },
    })
    await ok(
      '/v1/protocols',
      {
        did: credits,
        type: 'Protocol',
        properties: { tonnes: 'number', vintage: 'integer' },
        mints: {
          unit: 'tCO2e',
          type: 'CreditEntity',
          property: 'tonnes',
          quantity: { '*': [{ var: 'claim.fuel' }, 2] },
          imprecision: 0.05,
          properties: { vintage: { year: { var: 'claim.day' } } },
          role: 'generatedBy',
        },
      },
      asVerifier,
    )
    await ok(
      '/v1/protocols',
      {
        did: usage,
        type: 'Protocol',
        properties: { day: 'date-time', fuel: 'number', minutes: 'number' },
        evaluation,
      },
      asVerifier,
    )
  })
  afterAll(() => app?.close())

  it('approves by a rule, and mints one credit with the imprecision taken off', async () => {
    const { id, review } = await claim({ day: '2026-01-01T00:00:00Z', fuel: 0.9, minutes: 140 })
    expect(review).toEqual({ state: 'pending' })
    const approved = await decided(id)
    expect(approved).toMatchObject({
      status: 'approved',
      evaluation: {
        oracle: app.oracleDid,
        by: 'rules',
        rule: 4,
        declaredBy: 'key:verifier',
        notes: '6.42857 g a minute is plausible.',
        values: { before: 0, grams: expect.closeTo(6.428, 2) },
      },
    })
    expect(approved.review).toBeUndefined()
    await expect.poll(async () => (await ok(`/v1/claims/${id}`)).credit, patience).toBeDefined()
    const { credit } = await ok(`/v1/claims/${id}`)
    const made = await ok(`/v1/entities/${credit}`)
    expect(made).toMatchObject({
      type: 'CreditEntity',
      properties: { tonnes: 1.71, vintage: 2026 },
      relationships: [{ role: 'generatedBy', target: asset }],
    })
    expect(made.verifiableCredential).toHaveLength(1)
    expect(await verify(made.verifiableCredential[0], app.url)).toMatchObject({ verified: true })

    const trail = await ok(`/v1/entities/${credit}/provenance`)
    expect(trail).toMatchObject({
      did: credit,
      links: [
        {
          claim: { id, properties: { fuel: 0.9, minutes: 140 }, evaluation: { rule: 4 } },
          credential: { document: { id: `urn:uuid:${approved.credential}` } },
          working: { gross: 1.8, quantity: 1.71, imprecision: { share: 0.05 }, unit: 'tCO2e' },
          protocol: { did: usage, version: 1, evaluation: { by: 'key:verifier' } },
          asset: { did: asset, properties: { power: 3 } },
        },
      ],
    })
  })

  it('rejects by a rule over the history', async () => {
    const { id } = await claim({ day: '2026-01-01T00:00:00Z', fuel: 0.9, minutes: 140 })
    expect(await decided(id)).toMatchObject({
      status: 'rejected',
      evaluation: { by: 'rules', rule: 1, notes: 'Day 2026-01-01T00:00:00Z was claimed before.' },
    })
  })

  it('asks the agent, whose verdict and reasons are kept', async () => {
    steps = [
      { call: 'get_entity', args: { did: asset } },
      { call: 'give_verdict', args: { verdict: 'maybe', reasons: [] } },
      {
        call: 'give_verdict',
        args: { verdict: 'reject', reasons: ['1,400 minutes without fuel.'] },
      },
      'I reject it.',
    ]
    told.length = 0
    const { id } = await claim({ day: '2026-01-02T00:00:00Z', fuel: 0, minutes: 1400 })
    expect(await decided(id)).toMatchObject({
      status: 'rejected',
      evaluation: { by: 'agent', notes: '1,400 minutes without fuel.', run: expect.any(String) },
    })
    expect(told[0]).toContain('You check the use of stoves.')
    expect(told[1]).toContain(asset)
    expect(told[2]).toContain('cannot be read')
  })

  it('asks a person where the agent is uncertain or a rule cannot be settled; the person decides', async () => {
    steps = [
      { call: 'give_verdict', args: { verdict: 'uncertain', reasons: ['The day looks odd.'] } },
      'Somebody should look.',
    ]
    const { id } = await claim({ day: '2026-01-03T00:00:00Z', fuel: 0, minutes: 1300 })
    expect(await decided(id)).toMatchObject({
      status: 'submitted',
      review: { state: 'asked', reason: 'The day looks odd.' },
    })
    const zero = await claim({ day: '2026-01-04T00:00:00Z', fuel: 1, minutes: 0 })
    expect((await decided(zero.id)).review.reason).toBe(
      'Rule 2 could not be settled: 1000 is divided by zero.',
    )
    const missing = await claim({ day: '2026-01-05T00:00:00Z', minutes: 10 })
    expect((await decided(missing.id)).review.reason).toContain('"claim.fuel" is missing')
    const { items } = await ok('/v1/claims?review=asked')
    expect(items.map((one: { id: string }) => one.id)).toEqual([missing.id, zero.id, id])
    await ok(`/v1/claims/${zero.id}/evaluation`, { status: 'approved' }, asVerifier)
    await expect
      .poll(async () => (await ok(`/v1/claims/${zero.id}`)).credit, patience)
      .toBeDefined()
  })

  it('asks a person where the key that declared the rules made the claim', async () => {
    const { id } = await ok(
      '/v1/claims',
      {
        subject: asset,
        type: 'Use',
        protocol: usage,
        properties: { day: '2026-01-06T00:00:00Z', fuel: 0.9, minutes: 140 },
      },
      asVerifier,
    )
    expect((await decided(id)).review.reason).toContain('cannot evaluate a claim of its own')
  })

  it('says at once what is wrong with rules, and lets only the operator declare them', async () => {
    const faults = async (body: object) => {
      const answer = await app.post(
        '/v1/protocols',
        { type: 'Protocol', properties: { minutes: 'number' }, ...body },
        asKey,
      )
      expect(answer.status).toBe(400)
      return answer.body.details[0]
    }
    const rule = (when: unknown) => ({
      evaluation: { rules: [{ when, then: 'approve', because: 'so' }] },
    })
    expect(await faults(rule({ '>': [{ var: 'claim.minuts' }, 3] }))).toEqual({
      path: 'evaluation.rules.0.when.>.0',
      message: '"claim.minuts" is not here; did you mean "claim.minutes"?',
    })
    expect((await faults(rule({ eval: ['process.exit()'] }))).message).toContain(
      'there is no operator',
    )
    expect((await faults(rule({ var: 'process.env' }))).message).toContain(
      'names begin with claim.',
    )
    const deep = Array.from({ length: 33 }).reduce((inner) => ({ not: inner }), true)
    expect((await faults(rule(deep))).message).toContain('deeper than 32')
    const wide = {
      and: Array.from({ length: 20 }, () => ({
        or: Array.from({ length: 20 }, () => ({ not: [true] })),
      })),
    }
    expect((await faults(rule(wide))).message).toContain('500 parts')
    expect(
      await faults({
        evaluation: {
          values: { a: { '+': [{ var: 'values.b' }, 1] }, b: { var: 'values.a' } },
          rules: [{ when: true, then: 'approve', because: 'so' }],
        },
      }),
    ).toEqual({ path: 'evaluation.values.a', message: 'it loops: a needs b needs a' })
    expect(
      (await faults({ evaluation: { rules: [{ when: true, then: 'agent', because: 'x' }] } })).path,
    ).toBe('evaluation.rules.0.then')
    const mints = { unit: 't', type: 'Credit', property: 'minutes', quantity: 1 }
    const imprecise = [
      [mints, 'imprecision: missing; give the share that imprecision takes'],
      [{ ...mints, imprecision: { role: 'distributes' } }, 'imprecision: otherwise: missing'],
      [{ ...mints, imprecision: 1 }, 'below 1, not 1'],
      [7, 'give true or a text'],
    ] as const
    for (const [given, words] of imprecise)
      expect((await faults({ mints: given })).message, JSON.stringify(given)).toContain(words)
    const user = await app.user()
    await user.granted('registry/*')
    const answer = await user.post('/v1/protocols', { type: 'Protocol', ...rule(true) })
    expect([answer.status, answer.body.code]).toEqual([403, 'FORBIDDEN'])
    const child = await user.post('/v1/protocols', { type: 'Protocol', extends: usage })
    expect([child.status, child.body.effective.evaluation]).toEqual([201, undefined])
  })

  it('keeps why no credit could be made', async () => {
    const { id } = await claim({ day: '2026-01-07T00:00:00Z', fuel: 0.0000001, minutes: 0.00002 })
    expect(await decided(id)).toMatchObject({ status: 'approved' })
    await expect
      .poll(async () => (await ok(`/v1/claims/${id}`)).creditFault, patience)
      .toContain('the quantity comes to 0')
    const again = await ok(`/v1/claims/${id}/credit`, {})
    expect(again).toMatchObject({ creditFault: expect.stringContaining('comes to 0') })
    const { mints, ...rest } = (await ok(`/v1/protocols/${encodeURIComponent(credits)}`)).effective
    await app.put(
      `/v1/protocols/${encodeURIComponent(credits)}`,
      { type: 'Protocol', ...rest, mints: { ...mints, digits: 12 } },
      asVerifier,
    )
    const credited = await ok(`/v1/claims/${id}/credit`, {})
    expect(credited.creditFault).toBeUndefined()
    expect((await ok(`/v1/entities/${credited.credit}`)).properties.tonnes).toBeGreaterThan(0)
    const user = await app.user()
    await user.granted('registry/write')
    expect((await user.post(`/v1/claims/${id}/credit`, {})).status).toBe(403)
  })
})

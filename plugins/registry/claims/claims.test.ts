import { randomUUID } from 'node:crypto'
import { beforeAll, describe, expect, it } from 'vitest'
import { testApp, type TestUser } from '#core/testing'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { apiKeys, asKey, asVerifier, registryApp } from '../../../test/support/registry.ts'
import registry from '../index.ts'
import { userWith } from '../../../test/support/granted-user.ts'

await onEachDatabase('claims', (where) => {
  const app = registryApp(where)
  let asset: string
  let oracle: string
  beforeAll(async () => {
    oracle = (await app.entity({ type: 'OracleEntity' })).did
    asset = (await app.entity({ relationships: [{ role: 'verifier', target: oracle }] })).did
  })

  const session = () => ({ subject: asset, type: 'CookingSession', properties: { minutes: 42 } })
  const submitted = async (claim: object = {}) => {
    const answer = await app.post('/v1/claims', { ...session(), ...claim })
    expect(answer).toMatchObject({ status: 201 })
    return answer.body
  }
  const evaluate = (id: string, verdict: object, headers = {}) =>
    app.post(`/v1/claims/${id}/evaluation`, verdict, { ...asVerifier, ...headers })

  describe('are submitted', () => {
    it('and read back, with who, when and what', async () => {
      const answer = await app.post('/v1/claims', {
        ...session(),
        submitter: 'did:ixo:household:7',
        evidence: [{ type: 'MeterReading', name: 'Meter 7' }],
      })
      expect(answer.status).toBe(201)
      const { id, createdAt } = answer.body
      expect(answer.headers.get('location')).toBe(`/v1/claims/${id}`)
      expect(answer.body).toEqual({
        id,
        ...session(),
        submitter: 'did:ixo:household:7',
        evidence: [{ type: 'MeterReading', name: 'Meter 7' }],
        status: 'submitted',
        createdAt,
        updatedAt: createdAt,
      })
      expect((await app.get(`/v1/claims/${id}`)).body).toEqual(answer.body)
      expect((await app.get('/v1/claims/none')).status).toBe(404)
    })

    it('in the asset’s own name where nobody is named', async () => {
      expect((await submitted()).submitter).toBe(asset)
    })

    it('against the newest version of a protocol, which the claim then names', async () => {
      const usage = await app.protocol({
        type: 'Protocol',
        properties: { minutes: { type: 'number', required: true, min: 0 } },
      })
      const claim = await submitted({ protocol: usage.did })
      expect(claim.protocol).toEqual({ did: usage.did, version: 1 })
      const wrong = await app.post('/v1/claims', {
        ...session(),
        protocol: usage.did,
        properties: { minuts: 42 },
      })
      expect(wrong.status).toBe(400)
      expect(JSON.stringify(wrong.body.details)).toMatch(/did you mean \\"minutes\\"/)
    })

    it('once for each Idempotency-Key', async () => {
      const once = { 'idempotency-key': randomUUID() }
      const first = await app.post('/v1/claims', session(), once)
      expect((await app.post('/v1/claims', session(), once)).body).toEqual(first.body)
      expect((await app.post('/v1/claims', { ...session(), type: 'X' }, once)).status).toBe(422)
    })

    it.each([
      ['no subject', { subject: undefined }, 400, 'subject'],
      ['a subject that is no DID', { subject: 'stove 1' }, 400, 'subject'],
      ['a subject with a query', { subject: 'did:x:1?service=a' }, 400, 'subject'],
      ['a subject that is not here', { subject: 'did:ixo:none' }, 422, 'subject'],
      ['a protocol that is not here', { protocol: 'did:ixo:none' }, 422, 'protocol'],
      ['no properties', { properties: undefined }, 400, 'properties'],
      ['properties that are null', { properties: null }, 400, 'properties'],
      ['properties that are a list', { properties: [] }, 400, 'properties'],
      ['no type', { type: undefined }, 400, 'type'],
      ['a type of nothing', { type: '' }, 400, 'type'],
      ['a type of two lines', { type: 'a\nb' }, 400, 'type'],
      ['a submitter that is no DID', { submitter: 'me' }, 400, 'submitter'],
      ['evidence without a type', { evidence: [{}] }, 400, 'evidence.0.type'],
      [
        'evidence with a misspelt field',
        { evidence: [{ type: 'x', url: 'https://x.example/' }] },
        400,
        'evidence.0',
      ],
      ['evidence at no address', { evidence: [{ type: 'x', id: 'there' }] }, 400, 'evidence.0.id'],
      ['a keyword of JSON-LD', { properties: { a: [{ '@context': {} }] } }, 400, 'properties'],
    ])('not with %s', async (_, change, status, path) => {
      const before = (await app.get('/v1/claims')).body.items[0]
      const answer = await app.post('/v1/claims', { ...session(), ...change })
      expect(answer.status).toBe(status)
      expect(answer.body.details[0].path).toMatch(new RegExp(`^${path}`))
      expect((await app.get('/v1/claims')).body.items[0]).toEqual(before)
    })

    it.each([
      '{"__proto__":1}',
      '{"constructor":1}',
      '{"n":1e309}',
      '{"s":"\\ud800"}',
      '{"s":"\\u0000"}',
    ])('not with the properties %s', async (properties) => {
      const body = `{"subject":"${asset}","type":"X","properties":${properties}}`
      const answer = await app.post('/v1/claims', body, { 'content-type': 'application/json' })
      expect(answer.status).toBe(400)
    })

    it('not of an asset that was deactivated, nor without a key', async () => {
      const { did } = await app.entity()
      expect((await app.delete(app.at(did), { 'if-match': '"1"' })).status).toBe(200)
      expect((await app.post('/v1/claims', { ...session(), subject: did })).status).toBe(422)
      expect((await app.app.post('/v1/claims', session())).status).toBe(401)
      expect((await app.app.get('/v1/claims')).status).toBe(401)
    })
  })

  it('are listed newest first by what is asked, in pages that stay while others come', async () => {
    const subject = (await app.entity()).did
    const ids: string[] = []
    for (let n = 0; n < 7; n++) ids.unshift((await submitted({ subject, type: `T${n % 2}` })).id)
    const of = `subject=${encodeURIComponent(subject)}`
    const seen: string[] = []
    for (let cursor = ''; ;) {
      const { items, nextCursor } = (await app.get(`/v1/claims?${of}&limit=3${cursor}`)).body
      seen.push(...items.map(({ id }: { id: string }) => id))
      await submitted({ subject })
      if (!nextCursor) break
      cursor = `&cursor=${encodeURIComponent(nextCursor)}`
    }
    expect(seen).toEqual(ids)
    const filtered = async (query: string) =>
      (await app.get(`/v1/claims?${of}&${query}`)).body.items.length
    expect(await filtered('type=T0')).toBe(4)
    expect(await filtered('status=approved')).toBe(0)
    expect(await filtered(`submitter=${encodeURIComponent(subject)}`)).toBe(10)
    expect(await filtered('oracle=did:x:1')).toBe(0)
    expect(await filtered('protocol=did:x:1')).toBe(0)
    for (const wrong of [
      'limit=0',
      'limit=1001',
      'limit=x',
      'cursor=MDA',
      'cursor=!',
      'status=closed',
    ])
      expect((await app.get(`/v1/claims?${wrong}`)).status, wrong).toBe(400)
  })

  describe('are evaluated', () => {
    it('by the oracle that the asset names, and an approved one names its credential', async () => {
      const { id } = await submitted()
      const { status, body } = await evaluate(id, { oracle, status: 'approved', notes: 'Seen.' })
      expect(status).toBe(200)
      expect(body).toMatchObject({
        id,
        status: 'approved',
        evaluation: { oracle, status: 'approved', notes: 'Seen.', timestamp: body.updatedAt },
        credential: expect.stringMatching(/^[0-9a-f-]{36}$/),
      })
      expect((await app.get(`/v1/claims/${id}`)).body).toEqual(body)
    })

    it('into nothing where they are rejected', async () => {
      const { id } = await submitted()
      const { body } = await evaluate(id, { status: 'rejected', notes: 'Too long.' })
      expect(body).toMatchObject({ status: 'rejected', evaluation: { oracle, notes: 'Too long.' } })
      expect(body.credential).toBeUndefined()
      expect((await app.get(`/v1/credentials?claim=${id}`)).body.items).toEqual([])
    })

    it('once: of fifty verdicts at the same moment exactly one stands', async () => {
      for (let round = 0; round < 3; round++) {
        const { id } = await submitted()
        const answers = await Promise.all(
          Array.from({ length: 50 }, (_, n) =>
            evaluate(id, { status: n % 2 ? 'approved' : 'rejected', notes: String(n) }),
          ),
        )
        const won = answers.filter(({ status }) => status === 200)
        expect(won).toHaveLength(1)
        expect(answers.filter(({ status }) => status === 409)).toHaveLength(49)
        const { body } = await app.get(`/v1/claims/${id}`)
        expect(body).toEqual(won[0]!.body)
        const { items } = (await app.get(`/v1/credentials?claim=${id}`)).body
        expect(items).toHaveLength(body.status === 'approved' ? 1 : 0)
        const late = await evaluate(id, { status: 'approved' })
        expect(late).toMatchObject({
          status: 409,
          body: { code: 'CONFLICT', details: { status: body.status, evaluation: body.evaluation } },
        })
      }
    })

    if (where.databaseUrl)
      it('once, whichever of two servers on one database is asked', async () => {
        const env = { API_KEY: apiKeys, DATABASE_URL: where.databaseUrl! }
        await using other = await testApp({ plugins: [registry], env })
        for (let round = 0; round < 5; round++) {
          const { id } = await submitted()
          const path = `/v1/claims/${id}/evaluation`
          const answers = await Promise.all(
            Array.from({ length: 20 }, (_, n) =>
              (n % 2 ? other : app.app).post(path, { status: 'approved' }, asVerifier),
            ),
          )
          const statuses = answers.map(({ status }) => status).sort()
          expect(statuses).toEqual([200, ...Array(19).fill(409)])
          expect((await app.get(`/v1/credentials?claim=${id}`)).body.items).toHaveLength(1)
        }
      })

    it('to the same answer again under one Idempotency-Key', async () => {
      const { id } = await submitted()
      const once = { 'idempotency-key': randomUUID() }
      const first = await evaluate(id, { status: 'approved' }, once)
      expect(first.status).toBe(200)
      expect(await evaluate(id, { status: 'approved' }, once)).toMatchObject({
        status: 200,
        body: first.body,
      })
    })

    it('by the oracle that the asset itself names, whoever shares its controller', async () => {
      const subject = (await app.entity({ controller: 'did:ixo:carol' })).did
      const points = [
        { role: 'distributes', target: subject },
        { role: 'verifier', target: oracle },
      ]
      // Edges from other entities to the asset make no verifier, not even from an entity with the same controller.
      await app.entity({ controller: 'did:ixo:mallory', relationships: points })
      await app.entity({ controller: 'did:ixo:carol', relationships: points })
      const before = await submitted({ subject })
      const verdict = { status: 'approved' }
      expect((await evaluate(before.id, verdict)).body.evaluation.oracle).toBe(app.oracleDid)
      expect((await app.put(app.at(subject, `/relationships/verifier/${oracle}`), {})).status).toBe(
        201,
      )
      const after = await submitted({ subject })
      expect((await evaluate(after.id, verdict)).body.evaluation.oracle).toBe(oracle)
    })

    it('not by another than the asset’s verifier, nor by what is no oracle, nor by nobody', async () => {
      const { id } = await submitted()
      const other = (await app.entity({ type: 'OracleEntity' })).did
      const refused = async (verdict: object) => {
        const { status, body } = await evaluate(id, { status: 'approved', ...verdict })
        return `${status} ${body.message}`
      }
      expect(await refused({ oracle: other })).toMatch(/^403 .* does not name .* as its verifier/)
      expect(await refused({ oracle: asset })).toMatch(/^403 .* is not an oracle twin/)
      expect(await refused({ oracle: 'did:ixo:none' })).toMatch(/^422 .*no active entity/)
      expect(await refused({ oracle: 'me' })).toMatch(/^400 /)
      expect(await refused({ status: 'maybe' })).toMatch(/^400 .*"approved" or "rejected"/)
      expect(await refused({ status: undefined })).toMatch(/^400 /)
      expect((await evaluate('none', { status: 'approved' })).status).toBe(404)
      expect((await app.get(`/v1/claims/${id}`)).body.status).toBe('submitted')
    })

    it('by any oracle in the operator’s hands where the asset names none, else by this one', async () => {
      const subject = (await app.entity()).did
      const first = await submitted({ subject })
      const said = await evaluate(first.id, { status: 'approved', oracle })
      expect(said.body.evaluation.oracle).toBe(oracle)
      const second = await submitted({ subject })
      const own = await evaluate(second.id, { status: 'approved' })
      expect(own.body.evaluation.oracle).toBe(app.oracleDid)
    })

    it('not without saying by whom, where the asset names several', async () => {
      const other = (await app.entity({ type: 'OracleEntity' })).did
      const relationships = [oracle, other].map((target) => ({ role: 'verifier', target }))
      const { id } = await submitted({ subject: (await app.entity({ relationships })).did })
      expect((await evaluate(id, { status: 'approved' })).status).toBe(422)
      expect((await evaluate(id, { status: 'approved', oracle: app.oracleDid })).status).toBe(403)
      expect((await evaluate(id, { status: 'approved', oracle: other })).status).toBe(200)
    })

    it('never by an oracle that submitted them', async () => {
      const { id } = await submitted({ submitter: oracle })
      expect(await evaluate(id, { status: 'approved' })).toMatchObject({
        status: 403,
        body: { message: expect.stringMatching('a claim of its own') },
      })
    })
  })

  it('stand in the feed of changes, their verdicts and the end of their credentials too', async () => {
    const { id } = await submitted()
    const { credential } = (await evaluate(id, { status: 'approved' })).body
    await app.post(`/v1/credentials/${credential}/revocation`, {})
    const leave = new AbortController()
    const url = `${app.url}/v1/events?after=0`
    const { body } = await fetch(url, { headers: asKey, signal: leave.signal })
    let text = ''
    for await (const chunk of body!.pipeThrough(new TextDecoderStream()))
      if ((text += chunk).includes('credential.revoked')) break
    leave.abort()
    const told = [...text.matchAll(/event: (claim|credential)\.(\w+)\ndata: (.+)\n/g)]
      .map(([, kind, action, data]) => ({ kind, action, ...JSON.parse(data!) }))
      .filter(({ did }) => did === id || did === credential)
    expect(told).toMatchObject([
      { kind: 'claim', action: 'submitted', did: id, subject: asset },
      { kind: 'claim', action: 'approved', did: id, subject: asset, oracle },
      { kind: 'credential', action: 'revoked', did: credential, subject: asset, claim: id },
    ])
  })

  describe('of callers with a DID', () => {
    let owner: TestUser
    let verifier: TestUser
    let theirs: { asset: string; oracle: string }
    beforeAll(async () => {
      ;[owner, verifier] = [
        await userWith(app.app, 'registry/*'),
        await userWith(app.app, 'registry/*'),
      ]
      const oracle = (await app.entity({ type: 'OracleEntity', controller: verifier.did })).did
      const relationships = [{ role: 'verifier', target: oracle }]
      const asset = (await app.entity({ controller: owner.did, relationships })).did
      theirs = { asset, oracle }
    })
    const claim = () => ({ ...session(), subject: theirs.asset })

    it('are submitted by the asset’s controller under their own name', async () => {
      expect(await owner.post('/v1/claims', claim())).toMatchObject({
        status: 201,
        body: { submitter: owner.did },
      })
      const other = await owner.post('/v1/claims', { ...claim(), submitter: verifier.did })
      expect(other.status).toBe(403)
      expect((await verifier.post('/v1/claims', claim())).status).toBe(403)
    })

    it('are evaluated by the controller of the verifier, and by nobody else', async () => {
      const { id } = (await owner.post('/v1/claims', claim())).body
      const path = `/v1/claims/${id}/evaluation`
      expect((await owner.post(path, { status: 'approved' })).status).toBe(403)
      const stranger = await userWith(app.app, 'registry/*')
      expect(await stranger.post(path, { status: 'approved' })).toMatchObject({
        status: 403,
        body: { message: `${stranger.did} does not control ${theirs.oracle}.` },
      })
      // The owner's own oracle is no verifier of the owner's asset.
      const own = (await app.entity({ type: 'OracleEntity', controller: owner.did })).did
      expect((await owner.post(path, { status: 'approved', oracle: own })).status).toBe(403)
      expect((await verifier.post(path, { status: 'approved' })).body.evaluation.oracle).toBe(
        theirs.oracle,
      )
    })

    it('are not evaluated by who controls the asset, though the oracle be theirs too', async () => {
      const own = (await app.entity({ type: 'OracleEntity', controller: owner.did })).did
      const relationships = [{ role: 'verifier', target: own }]
      const subject = (await app.entity({ controller: owner.did, relationships })).did
      const { id } = (await owner.post('/v1/claims', { ...claim(), subject })).body
      expect(await owner.post(`/v1/claims/${id}/evaluation`, { status: 'approved' })).toMatchObject(
        {
          status: 403,
          body: { message: expect.stringMatching('a claim of its own') },
        },
      )
    })

    it('are not evaluated by who submitted them, though the asset has gone to another since', async () => {
      const own = (await app.entity({ type: 'OracleEntity', controller: owner.did })).did
      const relationships = [{ role: 'verifier', target: own }]
      const subject = (await app.entity({ controller: owner.did, relationships })).did
      const { id } = (await owner.post('/v1/claims', { ...claim(), subject })).body
      const handed = await app.patch(
        app.at(subject),
        { controller: 'did:ixo:carol' },
        { 'if-match': '*' },
      )
      expect(handed.status).toBe(200)
      expect(await owner.post(`/v1/claims/${id}/evaluation`, { status: 'approved' })).toMatchObject(
        {
          status: 403,
          body: { message: expect.stringMatching('a claim of its own') },
        },
      )
    })

    it('are not evaluated by an oracle that somebody made up, though the asset name it', async () => {
      const twin = { type: 'OracleEntity', protocol: app.open, properties: {} }
      const made = await verifier.post('/v1/entities', twin)
      expect(made.body).toMatchObject({ class: 'oracle-twin', controller: verifier.did })
      const relationships = [{ role: 'verifier', target: made.body.did }]
      const subject = (await app.entity({ controller: owner.did, relationships })).did
      const { id } = (await owner.post('/v1/claims', { ...claim(), subject })).body
      const path = `/v1/claims/${id}/evaluation`
      expect(await verifier.post(path, { status: 'approved' })).toMatchObject({
        status: 403,
        body: { message: expect.stringMatching('not registered by the operator') },
      })
      expect((await app.post(path, { status: 'approved' }, asVerifier)).status).toBe(200)
    })

    it('are not evaluated where the asset names no verifier', async () => {
      const subject = (await app.entity({ controller: owner.did })).did
      const { id } = (await owner.post('/v1/claims', { ...claim(), subject })).body
      const path = `/v1/claims/${id}/evaluation`
      const verdict = { status: 'approved', oracle: theirs.oracle }
      expect((await verifier.post(path, verdict)).status).toBe(403)
      expect((await verifier.post(path, { status: 'approved' })).status).toBe(422)
    })
  })

  it('wait with 503 where no signing key is loaded, and may be rejected all the same', async () => {
    const database = where.databaseUrl ? { DATABASE_URL: where.databaseUrl } : {}
    await using bare = await testApp({
      plugins: [registry],
      env: { NODE_ENV: 'production', API_KEY: apiKeys, ...database },
    })
    const make = async (path: string, body: object, headers = asKey) =>
      (await bare.post(path, body, headers)).body
    const { did: protocol } = await make('/v1/protocols', { type: 'Protocol', properties: {} })
    const twin = { protocol, properties: {}, controller: 'did:ixo:operator' }
    const { did } = await make('/v1/entities', { ...twin, type: 'OracleEntity' })
    const { did: subject } = await make('/v1/entities', { ...twin, type: 'Stove' })
    const { id } = await make('/v1/claims', { ...session(), subject })
    const path = `/v1/claims/${id}/evaluation`
    expect(await bare.post(path, { status: 'approved', oracle: did }, asVerifier)).toMatchObject({
      status: 503,
      body: { code: 'CANNOT_SIGN', hint: expect.stringMatching('ORACLE_MNEMONIC') },
    })
    expect((await make(path, { status: 'rejected', oracle: did }, asVerifier)).status).toBe(
      'rejected',
    )
  })
})

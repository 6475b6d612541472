import { createPrivateKey, generateKeyPairSync, randomUUID, sign } from 'node:crypto'
import { base58btc } from 'multiformats/bases/base58'
import { beforeAll, describe, expect, it } from 'vitest'
import { testApp, type TestUser } from '#core/testing'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { userWith } from '../../../test/support/granted-user.ts'
import { asVerifier, registryApp } from '../../../test/support/registry.ts'
import { withProof } from '../credentials/data-integrity.ts'
import registry from '../index.ts'

const edge = (role: string, target: string) =>
  `/relationships/${role}/${encodeURIComponent(target)}`

await onEachDatabase('rights in the registry', (where) => {
  const app = registryApp(where)
  let mallory: TestUser
  let alice: TestUser
  beforeAll(async () => {
    mallory = await userWith(app.app, 'registry/write')
    alice = await userWith(app.app, 'registry/write')
  })
  const thing = (body: object = {}) => ({
    type: 'Thing',
    protocol: app.open,
    properties: {},
    ...body,
  })
  const resolve = (did: string, query = '') =>
    app.app.get(`/1.0/identifiers/${encodeURIComponent(did)}${query}`, {
      headers: { accept: 'application/json' },
    })
  const evaluate = (who: TestUser, id: string, verdict: object = {}) =>
    who.post(`/v1/claims/${id}/evaluation`, { status: 'approved', ...verdict })
  const claimOf = (subject: string) => ({ subject, type: 'Use', properties: { minutes: 4 } })

  describe('over ids', () => {
    it('are the caller’s for their own DID, and the operator’s for every other', async () => {
      const key = `did:key:z6Mk${'x'.repeat(44)}`
      for (const did of [app.oracleDid, alice.did, key, 'did:web:bank.example', 'did:ixo:alice'])
        expect(await mallory.post('/v1/entities', thing({ did })), did).toMatchObject({
          status: 403,
          body: { code: 'FORBIDDEN', details: { path: 'did' } },
        })
      expect((await mallory.post('/v1/entities', thing({ did: mallory.did }))).status).toBe(201)
      expect((await mallory.post('/v1/entities', thing())).status).toBe(201)
      const protocol = { type: 'Protocol', did: 'did:ixo:protocol:theirs' }
      expect((await mallory.post('/v1/protocols', protocol)).status).toBe(403)
      const admin = await userWith(app.app, 'registry/admin')
      expect((await admin.post('/v1/entities', thing({ did: 'did:ixo:by-admin' }))).status).toBe(
        201,
      )
    })

    it('are refused before it is told whether an id is in use', async () => {
      const { did } = await app.entity()
      const taken = await mallory.post('/v1/entities', thing({ did }))
      const free = await mallory.post('/v1/entities', thing({ did: `${did}0` }))
      expect([taken.status, free.status]).toEqual([403, 403])
    })

    it('hold in a batch, line by line and all together', async () => {
      const lines = [thing(), thing({ did: app.oracleDid })].map((line) => JSON.stringify(line))
      const ndjson = { 'content-type': 'application/x-ndjson' }
      const each = await mallory.post('/v1/entities/batch', lines.join('\n'), ndjson)
      expect(
        each.body
          .trim()
          .split('\n')
          .map((line: string) => JSON.parse(line).status),
      ).toEqual([201, 403])
      const all = await mallory.post('/v1/entities/batch?atomic=true', lines.join('\n'), ndjson)
      expect(all.status).toBe(403)
    })

    it('leave keys, hosts and the oracle their own documents, whatever stands in the table', async () => {
      const services = [{ id: '#api', type: 'Evil', endpoint: 'https://evil.example/' }]
      for (const did of [app.oracleDid, mallory.did, 'did:web:stove.example'])
        await app.post('/v1/entities', thing({ did, services, controller: mallory.did }))
      const oracle = (await resolve(app.oracleDid)).body.didDocument
      expect(oracle.controller).toBeUndefined()
      expect(oracle.verificationMethod[0].publicKeyMultibase).toBe(app.oracleDid.slice(8))
      expect(JSON.stringify(oracle)).not.toContain('evil')
      const { didDocument } = (await resolve(mallory.did)).body
      expect(didDocument).toMatchObject({ id: mallory.did, authentication: [expect.anything()] })
      expect(didDocument.service).toBeUndefined()
      expect((await resolve('did:web:stove.example')).status).toBe(404)
      const host = `did:web:${new URL(app.url).host.replace(':', '%3A')}`
      expect((await resolve(host)).body.didDocument).toMatchObject({
        id: host,
        alsoKnownAs: expect.arrayContaining([app.oracleDid]),
      })
    })

    it('send nobody to an address that a stranger wrote', async () => {
      const services = [{ id: '#api', type: 'Api', endpoint: 'https://evil.example/' }]
      const { did } = (await mallory.post('/v1/entities', thing({ services }))).body
      const answer = await fetch(`${app.url}/1.0/identifiers/${did}?service=api`, {
        redirect: 'manual',
      })
      expect(answer.status).toBe(200)
      expect(answer.headers.get('content-type')).toBe('text/uri-list')
      expect(answer.headers.get('location')).toBeNull()
      expect(await answer.text()).toBe('https://evil.example/\r\n')
      const ours = await app.entity({ services })
      const redirected = await fetch(`${app.url}/1.0/identifiers/${ours.did}?service=api`, {
        redirect: 'manual',
      })
      expect(redirected.status).toBe(303)
    })
  })

  describe('over controllers', () => {
    it('are those of the party itself, of its delegation and of the operator', async () => {
      const refused = { status: 403, body: { code: 'FORBIDDEN', details: { path: 'controller' } } }
      const foreign = thing({ controller: alice.did })
      expect(await mallory.post('/v1/entities', foreign)).toMatchObject(refused)
      const own = (await mallory.post('/v1/entities', thing())).body
      const patch = { controller: alice.did }
      expect(await mallory.patch(app.at(own.did), patch, { 'if-match': '*' })).toMatchObject(
        refused,
      )
      const protocol = { type: 'Protocol', controller: alice.did }
      expect(await mallory.post('/v1/protocols', protocol)).toMatchObject(refused)

      const audience = app.oracleDid
      const handed = await alice.wallet.delegate({
        audience: mallory.did,
        capabilities: [{ can: 'registry/control', with: alice.did }],
      })
      const carried = await mallory.wallet.delegate({
        audience,
        capabilities: [
          { can: '*', with: 'ixo:oracle' },
          { can: 'registry/control', with: alice.did },
        ],
        proofs: [handed],
      })
      const headers = { 'x-ucan-delegation': carried.text }
      expect(await mallory.post('/v1/entities', foreign, headers)).toMatchObject({
        status: 201,
        body: { controller: alice.did },
      })
    })

    it.each([
      ['a list', ['did:ixo:a']],
      ['nothing', ''],
      ['10 kB', `did:ixo:${'a'.repeat(10_000)}`],
      ['null', null],
      ['an object', { did: 'did:ixo:a' }],
    ])('are not %s', async (_, controller) => {
      const answer = await app.post('/v1/entities', thing({ controller }))
      expect(answer).toMatchObject({
        status: 400,
        body: { details: [{ path: 'controller' }] },
      })
      const { did } = await app.entity()
      if (controller !== null)
        expect((await app.patch(app.at(did), { controller }, { 'if-match': '*' })).status).toBe(400)
    })
  })

  describe('over verifiers', () => {
    /** An asset of Alice, and an oracle of Mallory's that the operator has registered. */
    async function scene() {
      const asset = (await alice.post('/v1/entities', thing())).body.did as string
      const oracle = await app.entity({ type: 'OracleEntity', controller: mallory.did })
      const claim = (await alice.post('/v1/claims', claimOf(asset))).body.id as string
      return { asset, oracle: oracle.did as string, claim }
    }
    const refused = { status: 403, body: { message: expect.stringMatching('does not name') } }

    it('are not taken from the asset’s side, nor from the oracle’s, nor over what both share', async () => {
      const { asset, oracle, claim } = await scene()
      expect((await mallory.put(app.at(asset, edge('verifier', oracle)), {})).status).toBe(403)
      expect((await mallory.put(app.at(oracle, edge('verifies', asset)), {})).status).toBe(201)
      const points = [
        { role: 'distributes', target: asset },
        { role: 'verifier', target: oracle },
      ]
      await mallory.post('/v1/entities', thing({ relationships: points }))
      await app.entity({ controller: alice.did, relationships: points })
      expect(await evaluate(mallory, claim, { oracle })).toMatchObject(refused)
    })

    it('count once the asset’s controller confirms an edge that the other side drew', async () => {
      const { asset, oracle, claim } = await scene()
      const path = app.at(oracle, edge('verifies', asset))
      expect((await mallory.put(path, {})).status).toBe(201)
      expect((await alice.put(path, {})).status).toBe(200)
      expect(await evaluate(mallory, claim)).toMatchObject({
        status: 200,
        body: { evaluation: { oracle } },
      })
    })

    it('end with their edge’s words: who changes a confirmed edge has it confirmed anew', async () => {
      const { asset, oracle, claim } = await scene()
      const path = app.at(oracle, edge('verifies', asset))
      await mallory.put(path, {})
      await alice.put(path, {})
      expect((await mallory.put(path, { properties: { for: 'ever' } })).status).toBe(200)
      expect(await evaluate(mallory, claim, { oracle })).toMatchObject(refused)
    })

    it('of a former controller do not count for the next one until confirmed', async () => {
      const { asset, oracle } = await scene()
      const path = app.at(asset, edge('verifier', oracle))
      expect((await alice.put(path, {})).status).toBe(201)
      const next = await userWith(app.app, 'registry/write')
      const handed = await app.patch(app.at(asset), { controller: next.did }, { 'if-match': '*' })
      expect(handed.status).toBe(200)
      const { id } = (await next.post('/v1/claims', claimOf(asset))).body
      expect(await evaluate(mallory, id, { oracle })).toMatchObject(refused)
      expect((await next.put(path, {})).status).toBe(200)
      expect((await evaluate(mallory, id, { oracle })).status).toBe(200)
    })

    it('are not confirmed by a list that repeats all edges', async () => {
      const { asset, oracle } = await scene()
      await alice.put(app.at(asset, edge('verifier', oracle)), {})
      const next = await userWith(app.app, 'registry/write')
      await app.patch(app.at(asset), { controller: next.did }, { 'if-match': '*' })
      const { relationships } = (await next.get(app.at(asset))).body
      const patched = await next.patch(app.at(asset), { relationships }, { 'if-match': '*' })
      expect(patched.status).toBe(200)
      const { id } = (await next.post('/v1/claims', claimOf(asset))).body
      expect(await evaluate(mallory, id, { oracle })).toMatchObject(refused)
    })

    it('let who is pointed at end the edge', async () => {
      const { asset } = await scene()
      const pointing = (await mallory.post('/v1/entities', thing())).body.did
      const path = app.at(pointing, edge('near', asset))
      expect((await mallory.put(path, {})).status).toBe(201)
      expect((await alice.delete(app.at(asset), { headers: { 'if-match': '*' } })).status).toBe(409)
      expect((await alice.delete(path)).status).toBe(200)
    })
  })

  describe('over verdicts and credentials', () => {
    it('need four eyes: not the same key, nor a key without a name, nor a hand of the claimant', async () => {
      const oracle = (await app.entity({ type: 'OracleEntity' })).did
      const subject = (await app.entity({ relationships: [{ role: 'verifier', target: oracle }] }))
        .did
      const { id } = (await app.post('/v1/claims', claimOf(subject), asVerifier)).body
      const path = `/v1/claims/${id}/evaluation`
      const verdict = { status: 'approved', oracle }
      expect(await app.post(path, verdict, asVerifier)).toMatchObject({
        status: 403,
        body: { message: expect.stringMatching('a claim of its own') },
      })
      expect(await app.post(path, verdict)).toMatchObject({
        status: 403,
        body: {
          message: expect.stringMatching('without a name'),
          hint: expect.stringMatching('API_KEY=name:value'),
        },
      })
    })

    it('are not the claimant’s through an oracle of theirs', async () => {
      const own = (await app.entity({ type: 'OracleEntity', controller: alice.did })).did
      const relationships = [{ role: 'verifier', target: own }]
      const subject = (await alice.post('/v1/entities', thing({ relationships }))).body.did
      const { id } = (await alice.post('/v1/claims', claimOf(subject))).body
      expect(await evaluate(alice, id, { oracle: own })).toMatchObject({
        status: 403,
        body: { message: expect.stringMatching('a claim of its own') },
      })
    })

    it('of revoking are the issuer’s, not those of an entity that carries its DID', async () => {
      const { credential } = await approved()
      const id = encodeURIComponent(credential.id)
      await app.post('/v1/entities', thing({ did: app.oracleDid, type: 'OracleEntity' }))
      await app.patch(app.at(app.oracleDid), { controller: mallory.did }, { 'if-match': '*' })
      const path = `/v1/credentials/${id}/revocation`
      expect((await mallory.post(path, {})).status).toBe(403)
      const admin = await userWith(app.app, 'registry/admin')
      expect((await admin.post(path, {})).status).toBe(200)
    })
  })

  /** Makes a claim about an asset, and returns the claim and its credential. */
  async function approved(asset: object = {}) {
    const subject = (await app.entity(asset)).did
    const { id } = (await app.post('/v1/claims', claimOf(subject))).body
    const verdict = { status: 'approved' }
    const evaluated = await app.post(`/v1/claims/${id}/evaluation`, verdict, asVerifier)
    expect(evaluated.status).toBe(200)
    const credential = (await app.get(`/v1/credentials/${evaluated.body.credential}`)).body
    return { subject, credential }
  }

  describe('over presented credentials', () => {
    const issuer = keyPair()
    const foreign = (did: string, change: object = {}, by = issuer) =>
      withProof(
        {
          '@context': ['https://www.w3.org/ns/credentials/v2'],
          id: `urn:uuid:${randomUUID()}`,
          type: ['VerifiableCredential'],
          issuer: by.did,
          credentialSubject: { id: did },
          ...change,
        },
        by,
        new Date(),
      )
    const present = async (make: (did: string) => unknown) => {
      const { did } = await app.entity()
      const given = make(did)
      const list = Array.isArray(given) ? given : [given]
      return app.patch(app.at(did), { verifiableCredential: list }, { 'if-match': '*' })
    }

    it('show what came without a proof as unverified, whatever it says of itself', async () => {
      const plain = { type: 'Warranty', issuer: 'did:ixo:maker', status: 'verified' }
      const made = await app.entity({ verifiableCredential: [plain] })
      expect(made.verifiableCredential).toEqual([{ ...plain, status: 'unverified' }])
      expect(await app.read(made.did)).toEqual(made)
      const { verifiableCredential } = made
      const patched = await app.patch(
        app.at(made.did),
        { verifiableCredential },
        { 'if-match': '*' },
      )
      expect(patched.body.verifiableCredential).toEqual(verifiableCredential)
    })

    it('keep what its issuer signed of this entity', async () => {
      const answer = await present((did) => foreign(did))
      expect(answer.status).toBe(200)
      expect(answer.body.verifiableCredential[0].status).toBeUndefined()
      const { did, verifiableCredential } = answer.body
      const again = await app.patch(app.at(did), { verifiableCredential }, { 'if-match': '*' })
      expect(again.status).toBe(200)
    })

    const other = keyPair()
    it.each<[string, (did: string) => unknown, RegExp]>([
      ['a forged text', (did) => ({ ...foreign(did), name: 'x' }), /signature/],
      ['a forged issuer', (did) => ({ ...foreign(did), issuer: other.did }), /another key/],
      ['another’s signature', (did) => foreign(did, { issuer: other.did }), /another key/],
      ['a foreign subject', () => foreign('did:ixo:somebody'), /not about/],
      ['no subject', (did) => foreign(did, { credentialSubject: {} }), /nobody/],
      [
        'one foreign subject of two',
        (did) => foreign(did, { credentialSubject: [{ id: did }, { id: 'did:ixo:a' }] }),
        /not about/,
      ],
      [
        'an end in the past',
        (did) => foreign(did, { validUntil: '2020-01-01T00:00:00Z' }),
        /expired/,
      ],
      [
        'an older end in the past',
        (did) => foreign(did, { expirationDate: '2020-01-01T00:00:00Z' }),
        /expired/,
      ],
      [
        'a beginning to come',
        (did) => foreign(did, { validFrom: '2999-01-01T00:00:00Z' }),
        /not valid yet/,
      ],
      [
        'an unknown issuer',
        (did) => foreign(did, {}, { ...issuer, did: 'did:ixo:nobody' }),
        /not known/,
      ],
      [
        'an issuer at a host',
        (did) => foreign(did, {}, { ...issuer, did: 'did:web:evil.example' }),
        /not known/,
      ],
      [
        'a status list elsewhere',
        (did) =>
          foreign(did, {
            credentialStatus: {
              type: 'BitstringStatusListEntry',
              statusListCredential: 'http://127.0.0.1:1/',
            },
          }),
        /status list/,
      ],
      [
        'another cryptosuite',
        (did) => withPart(foreign(did), { cryptosuite: 'eddsa-rdfc-2022' }),
        /cryptosuite/,
      ],
      [
        'another purpose',
        (did) => withPart(foreign(did), { proofPurpose: 'authentication' }),
        /proofPurpose/,
      ],
      [
        'an endless signature',
        (did) => withPart(foreign(did), { proofValue: `z${'1'.repeat(50_000)}` }),
        /proofValue/,
      ],
      ['a proof of nothing', (did) => ({ ...foreign(did), proof: null }), /proof/],
      ['an empty list of proofs', (did) => ({ ...foreign(did), proof: [] }), /0 proofs/],
      [
        'one proof of two that fails',
        (did) => {
          const made = foreign(did)
          return {
            ...made,
            proof: [made.proof, { ...made.proof, created: '2020-01-01T00:00:00Z' }],
          }
        },
        /signature/,
      ],
      [
        'more than are checked',
        (did) => Array.from({ length: 21 }, () => foreign(did)),
        /20 credentials/,
      ],
      ['70 kB', (did) => foreign(did, { name: 'x'.repeat(70_000) }), /longer/],
    ])('refuse %s with 422', async (_, make, reason) => {
      const answer = await present(make)
      expect(answer).toMatchObject({
        status: 422,
        body: { code: 'UNPROCESSABLE', message: expect.stringMatching(reason) },
      })
      expect(answer.body.details[0].path).toMatch(/^verifiableCredential\.\d/)
    })

    it('refuse on creation and in a batch as well', async () => {
      const forged = { ...foreign('did:ixo:a'), name: 'x' }
      const body = thing({ verifiableCredential: [forged] })
      expect((await app.post('/v1/entities', body)).status).toBe(422)
      const { results } = await app.batch([thing(), body])
      expect(results.map(({ status }) => status)).toEqual([201, 422])
      expect((await app.batch([thing(), body], '?atomic=true')).status).toBe(422)
    })

    it('refuse ours once it was revoked, and what our key signed for something else', async () => {
      const { subject, credential } = await approved()
      const patch = { verifiableCredential: [credential] }
      const revoke = `/v1/credentials/${encodeURIComponent(credential.id)}/revocation`
      expect((await app.post(revoke, {})).status).toBe(200)
      const answer = await app.patch(app.at(subject), patch, { 'if-match': '*' })
      expect(answer).toMatchObject({
        status: 422,
        body: { message: expect.stringMatching('revoked') },
      })
      const list = (await app.get('/v1/credentials/status/1')).body
      const listed = { verifiableCredential: [list] }
      expect((await app.patch(app.at(subject), listed, { 'if-match': '*' })).status).toBe(422)
    })
  })

  describe('over credits', () => {
    let mints: string
    beforeAll(async () => {
      const definition = { type: 'Protocol', properties: { tonnes: 'number' }, mints: 'tCO2e' }
      mints = (await app.protocol(definition)).did
    })
    const credit = (...verifiableCredential: unknown[]) => ({
      type: 'Credit',
      protocol: mints,
      properties: {},
      ...(verifiableCredential.length > 0 && { verifiableCredential }),
    })
    const make = (body: object, headers = {}) => app.post('/v1/entities', body, headers)

    it('need the credential of an approved claim', async () => {
      expect((await make(credit())).status).toBe(422)
      expect((await make(credit({ type: 'Claim', issuer: 'did:ixo:a' }))).status).toBe(422)
      const child = await app.protocol({ type: 'Protocol', extends: mints })
      expect((await make({ ...credit(), protocol: child.did })).status).toBe(422)
      const { credential } = await approved()
      expect((await make(credit(credential))).status).toBe(201)
    })

    it('are made of it once, also after the credit has ended and in one batch', async () => {
      const { credential } = await approved()
      const first = (await make(credit(credential))).body
      const again = await make(credit(credential))
      expect(again).toMatchObject({ status: 409, body: { details: { entity: first.did } } })
      expect((await app.delete(app.at(first.did), { 'if-match': '*' })).status).toBe(200)
      expect((await make(credit(credential))).status).toBe(409)
      const other = (await approved()).credential
      const { results } = await app.batch([credit(other), credit(other)])
      expect(results.map(({ status }) => status)).toEqual([201, 409])
      const third = (await approved()).credential
      expect((await app.batch([credit(third), credit(third)], '?atomic=true')).status).toBe(409)
      expect((await make(credit(third))).status).toBe(201)
    })

    it('are one of many that are asked for at the same moment, on every server', async () => {
      const { credential } = await approved()
      const database = where.databaseUrl ? { DATABASE_URL: where.databaseUrl } : undefined
      await using second = database
        ? await testApp({ plugins: [registry], env: { API_KEY: 'b:other', ...database } })
        : undefined
      const body = credit(credential)
      const answers = await Promise.all(
        Array.from({ length: 20 }, (_, n) =>
          second && n % 2
            ? second.post('/v1/entities', body, { authorization: 'Bearer other' })
            : make(body),
        ),
      )
      const statuses = answers.map(({ status }) => status).sort()
      expect(statuses).toEqual([201, ...Array(19).fill(409)])
    })

    it('are not made by a change of what was no credit, unless it presents one', async () => {
      const { did } = await app.entity()
      const patch = (body: object) => app.patch(app.at(did), body, { 'if-match': '*' })
      expect((await patch({ protocol: mints, properties: {} })).status).toBe(422)
      const { credential } = await approved()
      const verifiableCredential = [credential]
      expect((await patch({ protocol: mints, verifiableCredential })).status).toBe(200)
      expect((await make(credit(credential))).status).toBe(409)
    })

    it('are not made by a stranger of what was claimed of somebody’s asset', async () => {
      const { credential } = await approved()
      const answer = await mallory.post('/v1/entities', credit(credential))
      expect(answer).toMatchObject({
        status: 422,
        body: { message: expect.stringMatching('not about') },
      })
    })
  })
})

await onEachDatabase('quotas of the registry', (where) => {
  const app = registryApp(where, {
    REGISTRY_ENTITIES_PER_DID: '3',
    REGISTRY_PROTOCOLS_PER_DID: '1',
    REGISTRY_EDGES_PER_DID: '1',
    REGISTRY_CLAIMS_PER_DID: '1',
  })
  const thing = (body: object = {}) => ({
    type: 'Thing',
    protocol: app.open,
    properties: {},
    ...body,
  })
  const over = (quota: string) => ({
    status: 429,
    body: { code: 'QUOTA_EXCEEDED', details: { quota } },
  })

  it('count what a DID has made, what has ended included, and every line of a batch', async () => {
    const user = await userWith(app.app, 'registry/*')
    const lines = Array.from({ length: 5 }, () => JSON.stringify(thing())).join('\n')
    const ndjson = { 'content-type': 'application/x-ndjson' }
    const whole = await user.post('/v1/entities/batch?atomic=true', lines, ndjson)
    expect(whole).toMatchObject({ status: 429, body: { code: 'QUOTA_EXCEEDED' } })
    expect(whole.headers.get('retry-after')).toBe('3600')
    const { body } = await user.post('/v1/entities/batch', lines, ndjson)
    const results = body
      .trim()
      .split('\n')
      .map((line: string) => JSON.parse(line))
    expect(results.map(({ status }: { status: number }) => status)).toEqual([
      201, 201, 201, 429, 429,
    ])
    const [{ did }] = results
    expect((await user.delete(app.at(did), { headers: { 'if-match': '*' } })).status).toBe(200)
    expect(await user.post('/v1/entities', thing())).toMatchObject(
      over('REGISTRY_ENTITIES_PER_DID'),
    )
    for (let n = 0; n < 5; n++) expect((await app.post('/v1/entities', thing())).status).toBe(201)
  })

  it('count organisations with their groups', async () => {
    const user = await userWith(app.app, 'registry/*')
    const body = thing({ type: 'OrganisationEntity', groups: ['a', 'b', 'c'] })
    expect((await user.post('/v1/entities', body)).status).toBe(429)
  })

  it('count protocols, edges and claims', async () => {
    const user = await userWith(app.app, 'registry/write')
    const protocol = { type: 'Protocol' }
    expect((await user.post('/v1/protocols', protocol)).status).toBe(201)
    expect(await user.post('/v1/protocols', protocol)).toMatchObject(
      over('REGISTRY_PROTOCOLS_PER_DID'),
    )
    const { did } = (await user.post('/v1/entities', thing())).body
    const path = (role: string) => app.at(did, edge(role, did))
    expect((await user.put(path('a'), {})).status).toBe(201)
    expect((await user.put(path('a'), {})).status).toBe(200)
    expect(await user.put(path('b'), {})).toMatchObject(over('REGISTRY_EDGES_PER_DID'))
    const relationships = ['a', 'b'].map((role) => ({ role, target: did }))
    expect(await user.patch(app.at(did), { relationships }, { 'if-match': '*' })).toMatchObject(
      over('REGISTRY_EDGES_PER_DID'),
    )
    const claim = { subject: did, type: 'Use', properties: {} }
    expect((await user.post('/v1/claims', claim)).status).toBe(201)
    expect(await user.post('/v1/claims', claim)).toMatchObject(over('REGISTRY_CLAIMS_PER_DID'))
  })
})

it.each([
  ...['0', '-1', '1e9', 'ten', '1.5'].flatMap((value) => [
    ['REGISTRY_ENTITIES_PER_DID', value],
    ['REGISTRY_CLAIMS_PER_DID', value],
  ]),
  ['REGISTRY_READ', 'publik'],
])('a boot with %s=%j stops and names the variable', async (variable, value) => {
  const env = { [variable]: value }
  await expect(testApp({ plugins: [registry], env })).rejects.toThrow(variable)
})

/** The key of another issuer, as a did:key. */
function keyPair() {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const raw = publicKey.export({ format: 'der', type: 'spki' }).subarray(-32)
  const did = `did:key:${base58btc.encode(Buffer.concat([Buffer.from('ed01', 'hex'), raw]))}`
  const key = createPrivateKey({ key: privateKey.export({ format: 'pem', type: 'pkcs8' }) })
  return { did, sign: (bytes: Uint8Array) => new Uint8Array(sign(null, bytes, key)) }
}

const withPart = <T extends { proof: object }>(credential: T, part: object) => ({
  ...credential,
  proof: { ...credential.proof, ...part },
})

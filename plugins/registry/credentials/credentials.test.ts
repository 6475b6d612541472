import jsonld from 'jsonld'
import { defaultDocumentLoader } from '@digitalbazaar/vc'
import { beforeAll, describe, expect, it } from 'vitest'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { asVerifier, registryApp } from '../../../test/support/registry.ts'
import { verify } from '../../../test/support/verify-credential.ts'
import { userWith } from '../../../test/support/granted-user.ts'

await onEachDatabase('credentials', (where) => {
  const app = registryApp(where)
  let asset: string
  let oracle: string
  beforeAll(async () => {
    oracle = (await app.entity({ type: 'OracleEntity' })).did
    asset = (await app.entity({ relationships: [{ role: 'verifier', target: oracle }] })).did
  })

  /** Approves a claim, and returns the claim and its credential. */
  async function issued(claim: object = {}, verdict: object = {}) {
    const submitted = await app.post('/v1/claims', {
      subject: asset,
      type: 'CookingSession',
      properties: { minutes: 42 },
      ...claim,
    })
    expect(submitted).toMatchObject({ status: 201 })
    const path = `/v1/claims/${submitted.body.id}`
    const evaluated = await app.post(
      `${path}/evaluation`,
      { status: 'approved', ...verdict },
      asVerifier,
    )
    expect(evaluated).toMatchObject({ status: 200, body: { status: 'approved' } })
    const { status, body } = await app.get(`/v1/credentials/${evaluated.body.credential}`)
    expect(status).toBe(200)
    return { claim: evaluated.body, credential: body }
  }

  it('are what the VC Data Model 2.0 says, of the claim and its evaluation', async () => {
    const evidence = [
      { type: 'MeterReading', id: 'ipfs://bafy', digestMultibase: 'zQmdfTbBqBPQ7VNxZEYEj14VmRu' },
    ]
    const { claim, credential } = await issued({ evidence }, { notes: 'As the meter says.' })
    const signer = (await app.get('/.well-known/did.json')).body.id
    expect(credential).toEqual({
      '@context': [
        'https://www.w3.org/ns/credentials/v2',
        'https://www.w3.org/ns/credentials/undefined-terms/v2',
      ],
      id: `urn:uuid:${claim.credential}`,
      type: ['VerifiableCredential', 'EvaluatedClaim'],
      issuer: signer,
      validFrom: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/),
      credentialSubject: {
        id: asset,
        claim: {
          id: `urn:uuid:${claim.id}`,
          claimType: 'CookingSession',
          submitter: asset,
          submitted: claim.createdAt,
          properties: { minutes: 42 },
        },
        evaluation: {
          oracle,
          status: 'approved',
          evaluated: credential.validFrom,
          notes: 'As the meter says.',
        },
      },
      evidence,
      credentialStatus: {
        id: expect.any(String),
        type: 'BitstringStatusListEntry',
        statusPurpose: 'revocation',
        statusListIndex: expect.stringMatching(/^\d+$/),
        statusListCredential: `${app.url}/v1/credentials/status/1`,
      },
      proof: {
        type: 'DataIntegrityProof',
        cryptosuite: 'eddsa-jcs-2022',
        created: credential.validFrom,
        verificationMethod: `${signer}#${signer.slice('did:key:'.length)}`,
        proofPurpose: 'assertionMethod',
        '@context': credential['@context'],
        proofValue: expect.stringMatching(/^z[1-9A-HJ-NP-Za-km-z]{80,90}$/),
      },
    })
  })

  it('verify with a library that is not ours, which reads the key from the resolver here', async () => {
    const { credential } = await issued({
      properties: { 'a:b': [1e21, -0, '€', null], '\u{1f600}': {} },
    })
    expect(await verify(credential, app.url)).toEqual({
      verified: true,
      reasons: [],
      revoked: false,
    })
  })

  it('no longer verify when anything in them is another, be it one character', async () => {
    const { credential } = await issued({}, { notes: 'Well seen.' })
    const changed = [...oneChangeEach(credential)]
    expect(changed.length).toBeGreaterThan(25)
    for (const { path, value } of changed) {
      const { verified } = await verify(value as object, app.url)
      expect(verified, path).toBe(false)
    }
  })

  it('say the same to a JSON-LD processor: every name of ours means something', async () => {
    const { credential } = await issued(
      {
        properties: { minutes: 7, meter: { serial: 'A-1' } },
        evidence: [{ type: 'MeterReading', name: 'Meter 7', digestMultibase: 'zQmdfTbBqBPQ7VNx' }],
      },
      { notes: 'Seen.' },
    )
    const [expanded] = await jsonld.expand(credential, {
      documentLoader: defaultDocumentLoader,
      safe: true,
    })
    const term = (name: string) => `https://www.w3.org/ns/credentials/undefined-term#${name}`
    const [subject] = expanded['https://www.w3.org/2018/credentials#credentialSubject']
    const [claim] = subject[term('claim')]
    const [properties] = claim[term('properties')]
    expect(properties[term('minutes')]).toEqual([{ '@value': 7 }])
    expect(properties[term('meter')]).toEqual([{ [term('serial')]: [{ '@value': 'A-1' }] }])
  })

  it('are listed by subject, oracle and claim, newest first, in pages', async () => {
    const other = (await app.entity({ relationships: [{ role: 'verifier', target: oracle }] })).did
    const ids: string[] = []
    for (let n = 0; n < 5; n++) ids.unshift((await issued({ subject: other })).credential.id)
    const list = async (query: string) => (await app.get(`/v1/credentials?${query}`)).body
    const of = encodeURIComponent(other)
    const seen: string[] = []
    for (let cursor = ''; ;) {
      const { items, nextCursor } = await list(`subject=${of}&limit=2${cursor}`)
      seen.push(...items.map(({ id }: { id: string }) => id))
      await issued({ subject: other }) // a newer credential comes before the first page, so no page shifts
      if (!nextCursor) break
      cursor = `&cursor=${nextCursor}`
    }
    expect(seen).toEqual(ids)
    const { items } = await list(`oracle=${encodeURIComponent(oracle)}&limit=1`)
    expect(items[0].credentialSubject.evaluation.oracle).toBe(oracle)
    const claim = items[0].credentialSubject.claim.id.replace('urn:uuid:', '')
    expect((await list(`claim=${claim}`)).items).toEqual(items)
    expect((await app.get('/v1/credentials?cursor=x')).status).toBe(400)
  })

  it('go by either form of their id, and by the media type of credentials', async () => {
    const { credential } = await issued()
    const path = `/v1/credentials/${encodeURIComponent(credential.id)}`
    expect((await app.get(path)).body).toEqual(credential)
    const typed = await app.get(path, { accept: 'application/vc' })
    expect(typed.headers.get('content-type')).toBe('application/vc')
    expect(JSON.parse(typed.body)).toEqual(credential)
    expect((await app.get('/v1/credentials/none')).status).toBe(404)
  })

  describe('taken back', () => {
    it('stay as they were signed, and the status list tells every verifier', async () => {
      const { credential } = await issued()
      const { credential: kept } = await issued()
      const path = `/v1/credentials/${encodeURIComponent(credential.id)}`
      const revoked = await app.post(`${path}/revocation`, { reason: 'The meter was broken.' })
      expect(revoked).toMatchObject({
        status: 200,
        body: { id: credential.id, status: 'revoked', reason: 'The meter was broken.' },
      })
      expect((await app.post(`${path}/revocation`, { reason: 'Again.' })).body).toEqual(
        revoked.body,
      )
      expect((await app.get(path)).body).toEqual(credential)
      expect(await verify(credential, app.url)).toMatchObject({ revoked: true })
      expect(await verify(kept, app.url)).toMatchObject({ verified: true, revoked: false })
      const of = encodeURIComponent(asset)
      const revokedOnes = await app.get(`/v1/credentials?subject=${of}&status=revoked`)
      expect(revokedOnes.body.items).toEqual([credential])
      const list = await app.app.get('/v1/credentials/status/1')
      expect((await verify(list.body, app.url)).verified).toBe(true)
      expect((await app.app.get('/v1/credentials/status/2')).status).toBe(404)
      expect((await app.app.get('/v1/credentials/status/0')).status).toBe(400)
    })

    it('only by the operator, whose key has issued them', async () => {
      const { credential } = await issued()
      const path = `/v1/credentials/${encodeURIComponent(credential.id)}/revocation`
      const stranger = await userWith(app.app, 'registry/write')
      expect((await stranger.post(path, {})).status).toBe(403)
      expect((await app.app.post(path, {})).status).toBe(401)
      expect((await app.post('/v1/credentials/none/revocation', {})).status).toBe(404)
    })
  })
})

/** Yields copies of a value, each with one text, number or name changed by one character. */
function* oneChangeEach(
  value: any, // any: the test walks through values of every type
  path = '',
): Generator<{ path: string; value: unknown }> {
  if (typeof value === 'string') {
    const at = value.length >> 1
    const other = value[at] === 'x' ? 'y' : 'x'
    yield { path, value: value.slice(0, at) + other + value.slice(at + 1) }
  } else if (typeof value === 'number') yield { path, value: value + 1 }
  else
    for (const key of Object.keys(value)) {
      for (const inner of oneChangeEach(value[key], `${path}/${key}`)) {
        const copy = structuredClone(value)
        copy[key] = inner.value
        yield { path: inner.path, value: copy }
      }
      if (Array.isArray(value)) continue
      const { [key]: moved, ...rest } = value
      yield { path: `${path}/${key} left out`, value: rest }
      yield { path: `${path}/${key} renamed`, value: { ...rest, [`${key}x`]: moved } }
    }
}

import { request } from 'node:http'
import { beforeAll, describe, expect, it } from 'vitest'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { random } from '../../../test/support/random.ts'
import { registryApp } from '../../../test/support/registry.ts'

await onEachDatabase('the resolver', (where) => {
  const app = registryApp(where)
  const did = 'did:ixo:entity:resolved'
  const pathDid = 'did:ixo:entity/device-123'
  beforeAll(async () => {
    const services = [
      { id: '#api', type: 'Api', endpoint: 'https://stove.example/v2/data?key=a' },
      { id: '#mail', type: 'Mail', endpoint: 'mailto:stove@example.org' },
    ]
    await app.entity({ did, controller: 'did:ixo:carol', services })
    await app.entity({ did: pathDid, services })
  })

  /** Sends a request without an API key, and follows no redirect. */
  async function ask(what: string, accept?: string) {
    const { status, headers, body } = await get(`${app.url}/1.0/identifiers/${what}`, accept)
    return { status, type: headers['content-type'], location: headers.location, body }
  }
  const id = encodeURIComponent
  const error = (name: string) => ({
    didDocument: null,
    didResolutionMetadata: { error: { type: `https://www.w3.org/ns/did#${name}` } },
    didDocumentMetadata: {},
  })

  it('answers anybody with the document and what is known of it', async () => {
    const { status, type, body } = await ask(did, 'application/did-resolution')
    expect({ status, type }).toEqual({ status: 200, type: 'application/did-resolution' })
    const seconds = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
    expect(body).toEqual({
      didDocument: {
        '@context': ['https://www.w3.org/ns/did/v1'],
        id: did,
        controller: 'did:ixo:carol',
        service: [
          { id: `${did}#api`, type: 'Api', serviceEndpoint: 'https://stove.example/v2/data?key=a' },
          { id: `${did}#mail`, type: 'Mail', serviceEndpoint: 'mailto:stove@example.org' },
        ],
      },
      didResolutionMetadata: { contentType: 'application/did' },
      didDocumentMetadata: { created: seconds, updated: seconds, versionId: '1' },
    })
  })

  it.each([
    [undefined, 'application/did-resolution'],
    ['*/*', 'application/did-resolution'],
    ['application/*', 'application/did-resolution'],
    ['application/json', 'application/json'],
    [
      'application/ld+json;profile="https://w3id.org/did-resolution"',
      'application/ld+json;profile="https://w3id.org/did-resolution"',
    ],
    ['text/html, application/did-resolution;q=0.5', 'application/did-resolution'],
  ])('answers Accept: %s with a result as %s', async (accept, type) => {
    const answer = await ask(did, accept)
    expect(answer).toMatchObject({ status: 200, type, body: { didDocument: { id: did } } })
  })

  it.each(['application/did', 'application/did+ld+json', 'application/did+json'])(
    'answers Accept: %s with the document alone',
    async (accept) => {
      expect(await ask(did, accept)).toMatchObject({ status: 200, type: accept, body: { id: did } })
      const both = await ask(did, `${accept}, application/did-resolution;q=0.1`)
      expect(both.type).toBe(accept)
    },
  )

  it('answers 406 to whoever takes none of its types', async () => {
    for (const accept of ['text/html', 'application/did+cbor', 'application/did;q=0'])
      expect(await ask(did, accept)).toMatchObject({
        status: 406,
        body: { statusCode: 406, code: 'NOT_ACCEPTABLE' },
      })
  })

  it('resolves ids with a path, encoded or as they are', async () => {
    for (const written of [id(pathDid), pathDid, 'did%3Aixo%3Aentity%2Fdevice-123'])
      expect(await ask(written)).toMatchObject({
        status: 200,
        body: { didDocument: { id: pathDid, service: [{ id: `${pathDid}#api` }, {}] } },
      })
    expect((await ask('did:ixo:entity/device-124')).status).toBe(404)
  })

  it('resolves ids that hold a percent-encoding, encoded once more or as they are', async () => {
    const { did } = await app.entity({ did: 'did:ixo:host%3A8080' })
    for (const written of [id(did), did])
      expect((await ask(written)).body).toMatchObject({ didDocument: { id: did } })
    expect((await ask('did:ixo:host%3A8081')).status).toBe(404)
  })

  it.each([
    'did',
    'did:',
    'did:ixo',
    'did:ixo:',
    'did:IXO:a',
    'DID:ixo:a',
    'did:ixo:a:',
    'did:ixo:a%zz',
    'did:ixo:a b',
    'did:ixo:a\n',
    'did:ixo:ä',
    'urn:uuid:1',
    `did:ixo:${'a'.repeat(5000)}`,
  ])('answers 400 to %j', async (wrong) => {
    expect(await ask(id(wrong), 'application/did-resolution')).toMatchObject({
      status: 400,
      type: 'application/did-resolution',
      body: error('INVALID_DID'),
    })
    expect((await ask(id(wrong), 'application/did')).status).toBe(400)
  })

  it('answers 400 to what is no DID URL, and to an encoding that is none', async () => {
    expect(await ask(id('did:ixo:?service=api'))).toMatchObject({
      status: 400,
      body: error('INVALID_DID_URL'),
    })
    expect((await ask('did:ixo:%zz')).status).toBe(400)
    expect((await ask('did:ixo:%00')).status).toBe(400)
  })

  it('answers 404 to a DID of this method that is not here', async () => {
    expect(await ask('did:ixo:none')).toMatchObject({ status: 404, body: error('NOT_FOUND') })
    expect(await ask('did:ixo:none', 'application/did')).toMatchObject({
      status: 404,
      body: { code: 'NOT_FOUND' },
    })
  })

  it('answers 501 to other methods, unless the operator has registered the entity here', async () => {
    expect(await ask('did:example:1')).toMatchObject({
      status: 501,
      body: error('METHOD_NOT_SUPPORTED'),
    })
    await app.entity({ did: 'did:example:1' })
    expect((await ask('did:example:1')).status).toBe(200)
  })

  it('answers 410 with a tombstone once the entity is deactivated', async () => {
    const gone = await app.entity()
    expect((await app.delete(app.at(gone.did), { 'if-match': '"1"' })).status).toBe(200)
    expect(await ask(gone.did)).toMatchObject({
      status: 410,
      type: 'application/did-resolution',
      body: { didDocument: null, didDocumentMetadata: { deactivated: true } },
    })
    expect((await ask(gone.did, 'application/did')).status).toBe(410)
    expect((await ask(`${gone.did}?service=api`)).status).toBe(410)
  })

  it('resolves earlier versions by number and by time, and says which it is', async () => {
    const { did } = await app.entity({ controller: 'did:ixo:carol' })
    const services = [{ id: '#a', type: 'A', endpoint: 'https://a.example/' }]
    const before = new Date(Date.now() - 60_000).toISOString()
    const patch = (body: object, version: number) =>
      app.patch(app.at(did), body, { 'if-match': `"${version}"` })
    expect((await patch({ services }, 1)).status).toBe(200)
    expect((await patch({ controller: 'did:ixo:dora' }, 2)).status).toBe(200)
    const now = { id: did, controller: 'did:ixo:dora', service: [{ id: `${did}#a` }] }
    expect((await ask(did)).body).toMatchObject({
      didDocument: now,
      didDocumentMetadata: { versionId: '3' },
    })
    const second = await ask(`${did}?versionId=2`)
    expect(second.body).toMatchObject({
      didDocument: { ...now, controller: 'did:ixo:carol' },
      didDocumentMetadata: { versionId: '2' },
    })
    const first = await ask(`${did}?versionId=1`)
    expect(first.body.didDocument.service).toBeUndefined()
    expect((await ask(`${did}?versionTime=${new Date().toISOString()}`)).body).toMatchObject({
      didDocument: now,
    })
    expect((await ask(`${did}?versionTime=${before}`)).status).toBe(404)
    expect((await ask(`${did}?versionId=4`)).status).toBe(404)
    for (const wrong of ['versionId=x', 'versionId=0', 'versionTime=yesterday'])
      expect(await ask(`${did}?${wrong}`)).toMatchObject({
        status: 400,
        body: error('INVALID_OPTIONS'),
      })
  })

  it('answers whatever it is asked with a status of the binding', async () => {
    const { integer } = random('identifiers')
    const pieces = [
      'did:',
      'ixo:',
      'key:',
      did,
      pathDid,
      '?service=',
      '#',
      '/',
      '%2F',
      '%',
      'é',
      '..',
    ]
    const accepts = ['*/*', 'application/did', 'application/did-url-dereferencing', '', ';;', 'x/y']
    const pick = <T>(list: readonly T[]) => list[integer(0, list.length - 1)]!
    for (let n = 0; n < 300; n++) {
      const what = Array.from({ length: integer(1, 5) }, () =>
        integer(0, 2) ? pick(pieces) : String.fromCodePoint(integer(32, 126)),
      ).join('')
      const { status } = await ask(id(what), pick(accepts))
      expect([200, 303, 400, 404, 406, 501], what).toContain(status)
    }
  })

  describe('of keys', () => {
    const key = 'did:key:z6MkrJVnaZkeFzdQyMZu1cgjg7k1pZZ6pvBQ7XJPt4swbTQ2'
    const method = `${key}#${key.slice('did:key:'.length)}`

    it('answers with the document that the key stands for', async () => {
      const { status, body } = await ask(key, 'application/did')
      expect(status).toBe(200)
      expect(body).toEqual({
        '@context': ['https://www.w3.org/ns/did/v1', 'https://w3id.org/security/multikey/v1'],
        id: key,
        verificationMethod: [
          {
            id: method,
            type: 'Multikey',
            controller: key,
            publicKeyMultibase: key.slice('did:key:'.length),
          },
        ],
        authentication: [method],
        assertionMethod: [method],
        capabilityInvocation: [method],
        capabilityDelegation: [method],
      })
    })

    it('answers with the method alone where a fragment names it', async () => {
      expect(await ask(id(method), 'application/did')).toMatchObject({
        status: 200,
        type: 'application/did',
        body: { id: method, type: 'Multikey' },
      })
      expect(await ask(id(method), 'application/did-url-dereferencing')).toMatchObject({
        type: 'application/did-url-dereferencing',
        body: {
          content: { id: method },
          dereferencingMetadata: { contentType: 'application/did' },
        },
      })
      expect((await ask(id(`${key}#other`))).status).toBe(404)
    })

    it('answers 400 where there is no key in it', async () => {
      for (const wrong of [`${key}x`, 'did:key:z6Mk', 'did:key:abc', `did:key:${'z'.repeat(48)}`])
        expect((await ask(wrong)).status, wrong).toBe(400)
    })
  })

  describe('dereferences', () => {
    it.each([
      ['?service=api', 'https://stove.example/v2/data?key=a'],
      ['?service=api&relativeRef=%2Flog%2F7', 'https://stove.example/log/7'],
      ['?service=api&relativeRef=log%3Fday%3D2', 'https://stove.example/v2/log?day=2'],
      ['?service=%23api', 'https://stove.example/v2/data?key=a'],
      ['?service=mail', 'mailto:stove@example.org'],
      [id('?service=api&relativeRef=/log'), 'https://stove.example/log'],
    ])('a service: %s to %s', async (query, location) => {
      for (const accept of [undefined, 'application/did-resolution', 'text/html', 'text/uri-list'])
        expect(await ask(did + query, accept)).toMatchObject({ status: 303, location, body: '' })
    })

    it('a service into a result, for whoever asks for one', async () => {
      expect(await ask(`${did}?service=api`, 'application/did-url-dereferencing')).toEqual({
        status: 200,
        type: 'application/did-url-dereferencing',
        location: undefined,
        body: {
          content: 'https://stove.example/v2/data?key=a',
          dereferencingMetadata: { contentType: 'text/uri-list' },
          contentMetadata: {},
        },
      })
    })

    it('a fragment into the part of the document', async () => {
      expect(await ask(id(`${did}#api`), 'application/did')).toMatchObject({
        status: 200,
        body: { id: `${did}#api`, serviceEndpoint: 'https://stove.example/v2/data?key=a' },
      })
      expect((await ask(id(`${did}#api`), 'text/html')).status).toBe(406)
    })

    it('404 for a service that is not there, and 400 for one that would lead elsewhere', async () => {
      expect((await ask(`${did}?service=none`)).status).toBe(404)
      for (const ref of [
        '//evil.example/',
        'https://evil.example/',
        'javascript:alert(1)',
        '\\\\evil',
      ])
        expect(await ask(`${did}?service=api&relativeRef=${id(ref)}`), ref).toMatchObject({
          status: 400,
          location: undefined,
        })
    })
  })
})

/** Sends a request unchanged, because `fetch` would follow redirects and normalise the address. */
function get(url: string, accept?: string) {
  const { promise, resolve, reject } = Promise.withResolvers<{
    status: number
    headers: Record<string, string>
    body: any // any: the tests read members of the body
  }>()
  const [, host = '', path = ''] = /^http:\/\/([^/]+)(.*)$/s.exec(url) ?? []
  const [hostname, port] = host.split(':')
  const headers = accept === undefined ? {} : { accept }
  request({ hostname, port, path, headers }, async (response) => {
    const text = (await response.toArray()).join('')
    const body = /json|did/.test(response.headers['content-type'] ?? '') ? JSON.parse(text) : text
    resolve({ status: response.statusCode!, headers: response.headers as never, body })
  })
    .on('error', reject)
    .end()
  return promise
}

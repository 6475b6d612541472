import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { base58btc } from 'multiformats/bases/base58'
import { afterEach, describe, expect, test } from 'vitest'
import { Resolver } from '../../core/runtime/auth/did/resolver.ts'
import { createWallet, type Minted } from '../../core/testing/wallet.ts'
import { noNetwork, oracle, requestOf, testAuth } from '../support/auth.ts'
import { bearer, inTheNameOf, keyDid, minted, smallOrder, token } from '../support/tokens.ts'

const ixoDid = 'did:ixo:ixo1user'
const key = await createWallet()
const multibase = key.did.slice('did:key:'.length)
const raw = base58btc.decode(multibase).slice(2)

const method = (rest: object, id = `${ixoDid}#signing`) => ({
  id,
  type: 'Ed25519VerificationKey2018',
  controller: ixoDid,
  ...rest,
})
const documentOf = (...methods: { id: string }[]) => ({
  id: ixoDid,
  verificationMethod: methods,
  authentication: methods.map(({ id }) => id),
})
const good = documentOf(method({ publicKeyMultibase: multibase }))

const closers: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closers.splice(0)) await close()
})

/** A DID resolver on loopback that keeps what it was asked. */
async function resolverServer(
  answer: (request: IncomingMessage, response: ServerResponse) => void,
) {
  const asked: string[] = []
  const server = createServer((request, response) => {
    asked.push(request.url!)
    answer(request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closers.push(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked }
}

const serve = (body: unknown, status = 200) =>
  resolverServer((_, response) => {
    response.writeHead(status, { 'content-type': 'application/json' })
    response.end(typeof body === 'string' ? body : JSON.stringify(body))
  })

async function keysFrom(body: unknown, status?: number) {
  const { url } = await serve(body, status)
  return new Resolver({ url, fetch }).verificationKeys(ixoDid)
}
const none = { reason: 'the keys of the issuer cannot be resolved' }
const unavailable = {
  code: 'ISSUER_LOOKUP_UNAVAILABLE',
  status: 503,
  headers: { 'Retry-After': expect.stringMatching(/^[1-5]$/) },
}

describe('a did:key', () => {
  test('resolves to itself without any network', async () => {
    const resolver = new Resolver({ url: 'http://127.0.0.1:1', fetch: noNetwork })
    expect(await resolver.verificationKeys(key.did)).toMatchObject({ keys: [key.did] })
  })
})

describe('a did:ixo', () => {
  test('is asked for by the W3C binding, and authenticates its user', async () => {
    const { url, asked } = await serve({ didDocument: good })
    const { auth } = testAuth({ resolver: new Resolver({ url, fetch }) })
    const text = await token(inTheNameOf(key, ixoDid), { audience: oracle.did })
    expect((await auth.authenticate(requestOf(bearer(text)))).did).toBe(ixoDid)
    expect(asked).toEqual([`/1.0/identifiers/${ixoDid}`])
  })

  test('does not authenticate with a key that its document does not name', async () => {
    const { url } = await serve(good)
    const { auth, lines } = testAuth({ resolver: new Resolver({ url, fetch }) })
    const text = await token(inTheNameOf(await createWallet(), ixoDid), { audience: oracle.did })
    await expect(auth.authenticate(requestOf(bearer(text)))).rejects.toMatchObject({
      code: 'UNAUTHORIZED',
    })
    expect(lines.join()).toContain('a signature does not hold')
  })

  test('is not asked for when anything cheaper fails', async () => {
    const { url, asked } = await serve(good)
    const { auth } = testAuth({ resolver: new Resolver({ url, fetch }) })
    const signer = inTheNameOf(key, ixoDid)
    for (const claims of [
      { audience: key.did },
      { audience: oracle.did, expiration: 1 },
      { audience: oracle.did, capabilities: [{ can: 'a/b', with: 'a:b' }] },
    ])
      await expect(
        auth.authenticate(requestOf(bearer(await token(signer, claims)))),
      ).rejects.toMatchObject({ code: 'UNAUTHORIZED' })
    expect(asked).toEqual([])
  })

  test('hands a session key on like any other user', async () => {
    const { url } = await serve(good)
    const { auth } = testAuth({ resolver: new Resolver({ url, fetch }) })
    const session = await createWallet()
    const call = { can: 'oracle/call', with: ixoDid }
    const proof = await minted(inTheNameOf(key, ixoDid), {
      audience: session.did,
      capabilities: [call],
    })
    const { text } = await session.invoke({
      audience: oracle.did,
      capability: call,
      proofs: [proof],
    })
    expect((await auth.authenticate(requestOf(bearer(text)))).did).toBe(ixoDid)
  })

  test.each([
    ['a multibase key', method({ publicKeyMultibase: multibase })],
    ['a base58 key', method({ publicKeyBase58: base58btc.encode(raw).slice(1) })],
    ['a hex key', method({ publicKeyHex: Buffer.from(raw).toString('hex') })],
    [
      'a JWK',
      method({
        type: 'JsonWebKey2020',
        publicKeyJwk: { kty: 'OKP', crv: 'Ed25519', x: Buffer.from(raw).toString('base64url') },
      }),
    ],
    ['a method with a relative id', method({ publicKeyMultibase: multibase }, '#signing')],
  ])('may hold %s', async (_, entry) => {
    expect(await keysFrom(documentOf(entry))).toMatchObject({ keys: [key.did] })
  })

  test('may hold the method in the relationship itself, or beside keys of other kinds', async () => {
    const embedded = { id: ixoDid, authentication: [method({ publicKeyMultibase: multibase })] }
    expect(await keysFrom(embedded)).toMatchObject({ keys: [key.did] })
    const mixed = documentOf(
      method({ type: 'EcdsaSecp256k1VerificationKey2019', publicKeyHex: '02'.repeat(33) }, '#a'),
      method({ publicKeyMultibase: multibase }),
    )
    expect(await keysFrom(mixed)).toMatchObject({ keys: [key.did] })
  })

  test.each([
    ['of another DID', { ...good, id: 'did:ixo:ixo1other' }],
    ['that is deactivated', { didDocument: good, didDocumentMetadata: { deactivated: true } }],
    ['whose key is for encryption only', { ...good, authentication: [], keyAgreement: [ixoDid] }],
    [
      'whose key another DID controls',
      documentOf(method({ publicKeyMultibase: multibase, controller: 'did:ixo:ixo1other' })),
    ],
    ['without keys', documentOf()],
    ['whose key is of another kind', documentOf(method({ type: 'X', publicKeyHex: '00' }))],
    ['that is no document', { id: 4 }],
    ['that is not there', { didDocument: null, didResolutionMetadata: { error: 'notFound' } }],
  ])('has no keys in a document %s', async (_, body) => {
    await expect(keysFrom(body)).rejects.toMatchObject(none)
  })

  test.each([400, 404, 410])('has no keys where the resolver answers %i', async (status) => {
    await expect(keysFrom(good, status)).rejects.toMatchObject(none)
  })

  test.each([
    ['answers 500', good, 500],
    ['answers 429', good, 429],
    ['answers 401', good, 401],
    ['answers what is not JSON', '<html>', 200],
    ['answers too much', JSON.stringify({ ...good, padding: 'x'.repeat(70_000) }), 200],
    [
      'says that it failed',
      { didDocument: null, didResolutionMetadata: { error: 'internalError' } },
      200,
    ],
  ])('is not refused where the resolver %s: nobody knows', async (_, body, status) => {
    await expect(keysFrom(body, status)).rejects.toMatchObject(unavailable)
  })

  test('is not refused where the resolver redirects or is not there', async () => {
    const other = await serve(good)
    const { url } = await resolverServer((request, response) => {
      response.writeHead(302, { location: `${other.url}${request.url}` }).end()
    })
    await expect(new Resolver({ url, fetch }).verificationKeys(ixoDid)).rejects.toMatchObject(
      unavailable,
    )
    expect(other.asked).toEqual([])
    const gone = new Resolver({ url: 'http://127.0.0.1:1', fetch })
    await expect(gone.verificationKeys(ixoDid)).rejects.toMatchObject(unavailable)
    expect(await gone.document(ixoDid)).toBeUndefined()
    const unset = new Resolver({ fetch })
    await expect(unset.verificationKeys(ixoDid)).rejects.toMatchObject(none)
  })

  test('has a key of small order refused like any other', async () => {
    const weak = keyDid(smallOrder.key).slice('did:key:'.length)
    const { url } = await serve(documentOf(method({ publicKeyMultibase: weak })))
    const { auth, lines } = testAuth({ resolver: new Resolver({ url, fetch }) })
    const text = await token(inTheNameOf(key, ixoDid), { audience: oracle.did })
    await expect(auth.authenticate(requestOf(bearer(text)))).rejects.toMatchObject({
      code: 'UNAUTHORIZED',
    })
    expect(lines.join()).toContain('small order')
  })
})

describe('a DID of another method', () => {
  test.each(['did:web:example.com', 'did:ixo:../../admin', 'did:ixo:a?b', 'did:ixo:', 'x'])(
    'such as %s is not asked for',
    async (did) => {
      const { url, asked } = await serve({ ...good, id: did })
      const resolver = new Resolver({ url, fetch })
      await expect(resolver.verificationKeys(did)).rejects.toMatchObject(none)
      expect(await resolver.document(did)).toBeUndefined()
      expect(asked).toEqual([])
    },
  )
})

describe('the services of a document', () => {
  test('can be read, and cost no key when they are not what they should be', async () => {
    const service = [{ id: `${ixoDid}#api`, serviceEndpoint: 'http://localhost:4000' }]
    const { url } = await serve({ ...good, service })
    const found = await new Resolver({ url, fetch }).document(ixoDid)
    expect(found?.service).toEqual(service)
    expect(await keysFrom({ ...good, service: 'none' })).toMatchObject({ keys: [key.did] })
  })
})

describe('what was looked up', () => {
  test('is asked for once by all who wait, kept for a minute, and then asked for again', async () => {
    let time = 0
    const { url, asked } = await serve(good)
    const resolver = new Resolver({ url, fetch, now: () => time })
    await Promise.all(Array.from({ length: 20 }, () => resolver.verificationKeys(ixoDid)))
    time = 59_999
    await resolver.verificationKeys(ixoDid)
    expect(asked).toHaveLength(1)
    time = 60_000
    await resolver.verificationKeys(ixoDid)
    expect(asked).toHaveLength(2)
  })

  test('and failed is asked for again after five seconds', async () => {
    let time = 0
    const { url, asked } = await serve('', 500)
    const resolver = new Resolver({ url, fetch, now: () => time })
    for (time of [0, 4_999, 5_000])
      await expect(resolver.verificationKeys(ixoDid)).rejects.toMatchObject(unavailable)
    expect(asked).toHaveLength(2)
  })

  test('stops authenticating a minute after the key was withdrawn', async () => {
    let later = 0
    const now = () => Date.now() + later
    let document: object = good
    const { url } = await resolverServer((_, response) => {
      response.end(JSON.stringify(document))
    })
    const { auth } = testAuth({ resolver: new Resolver({ url, fetch, now }), now })
    const text = await token(inTheNameOf(key, ixoDid), { audience: oracle.did })
    expect((await auth.authenticate(requestOf(bearer(text)))).did).toBe(ixoDid)
    document = documentOf()
    // Another token, verified shortly before the keys are asked for again, lives no longer for that.
    later = 59_000
    const second = await token(inTheNameOf(key, ixoDid), { audience: oracle.did, nonce: '2' })
    expect((await auth.authenticate(requestOf(bearer(second)))).did).toBe(ixoDid)
    later = 61_000
    await expect(auth.authenticate(requestOf(bearer(second)))).rejects.toMatchObject({
      code: 'UNAUTHORIZED',
    })
    await expect(auth.authenticate(requestOf(bearer(text)))).rejects.toMatchObject({
      code: 'UNAUTHORIZED',
    })
  })

  test('takes sixteen places of an address and sixty-four in all, and those who have few go first', async () => {
    const waiting: ServerResponse[] = []
    const { url, asked } = await resolverServer((_, response) => void waiting.push(response))
    const resolver = new Resolver({ url, fetch })
    let nth = 0
    const flood = (count: number, address: string) =>
      Array.from({ length: count }, () =>
        resolver
          .verificationKeys(`did:ixo:ixo1n${nth++}`, address)
          .catch((error: unknown) => error),
      )
    const first = flood(20, '192.0.2.1')
    await expect(Promise.all(first.slice(16))).resolves.toEqual(
      Array.from({ length: 4 }, () => expect.objectContaining({ status: 503 })),
    )
    const rest = ['192.0.2.2', '192.0.2.3', '192.0.2.4'].flatMap((address) => flood(16, address))
    await expect.poll(() => waiting.length).toBe(64)
    // Another address is let in, at the cost of one that has many.
    const [late] = flood(1, '192.0.2.5')
    expect(await first[0]).toMatchObject({ status: 503 })
    await expect.poll(() => waiting.length).toBe(65)
    for (const response of waiting) response.writeHead(404).end()
    expect(await late).toMatchObject(none)
    await Promise.all([...first, ...rest])
    expect(asked).toHaveLength(65)
  })

  test('goes on for ten minutes while the resolver is away, and is asked for again when it is back', async () => {
    let time = 0
    let away: 'slow' | 'dead' | false = false
    const { url, asked } = await resolverServer((_, response) => {
      if (away === 'dead') response.writeHead(500).end()
      else if (!away) response.end(JSON.stringify(good))
    })
    const resolver = new Resolver({ url, fetch, now: () => time })
    await resolver.verificationKeys(ixoDid)
    for (away of ['dead', 'slow'] as const)
      for (time of [61_000, 120_000, 650_000])
        expect(await resolver.verificationKeys(ixoDid)).toMatchObject({ keys: [key.did] })
    away = 'dead'
    time = 661_000
    await expect(resolver.verificationKeys(ixoDid)).rejects.toMatchObject(unavailable)
    away = false
    time = 670_000
    const before = asked.length
    expect(await resolver.verificationKeys(ixoDid)).toMatchObject({ until: 730_000 })
    expect(asked).toHaveLength(before + 1)
  })

  test('of three issuers at most for one token', async () => {
    const { url, asked } = await serve(good)
    const { auth, lines } = testAuth({ resolver: new Resolver({ url, fetch }) })
    const names = ['a', 'b', 'c', 'd'].map((name) => `did:ixo:ixo1${name}`)
    const call = { can: 'oracle/call', with: names[0]! }
    let proofs: Minted[] = []
    for (const [at, name] of names.entries()) {
      const next = names[at + 1] ?? key.did
      const made = { audience: next, capabilities: [call], proofs }
      proofs = [await minted(inTheNameOf(key, name), made)]
    }
    const { text } = await key.invoke({ audience: oracle.did, capability: call, proofs })
    await expect(auth.authenticate(requestOf(bearer(text)))).rejects.toMatchObject({
      code: 'UNAUTHORIZED',
    })
    expect(lines.join()).toContain('too many issuers to look up')
    expect(asked).toEqual([])
  })

  test('is unknown after three seconds without an answer', async () => {
    const { url } = await resolverServer(() => {})
    await expect(new Resolver({ url, fetch }).verificationKeys(ixoDid)).rejects.toMatchObject(
      unavailable,
    )
  })
})

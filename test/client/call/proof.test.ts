import { expect, it, onTestFinished } from 'vitest'
import { fingerprintOf, type Proof, verified } from '../../../client/call/proof.ts'
import { createOracleClient } from '../../../client/core/client.ts'
import { testWallet } from '../oracle.ts'
import { keyOf, print, sdp } from './oracle-key.ts'

const ends = { callId: 'c', sessionId: 's', offer: sdp('aa'), answer: sdp('BB') }
const lines = ['oracle-call-v1', 'c', 's', print('AA'), print('BB')].join('\n')
const key = keyOf()
const proofBy = (by: typeof key, words = lines): Proof => ({
  ...{ did: by.did, key: by.did, signature: by.signed(words) },
})

async function check(
  oracleDid: string,
  proof: Proof | undefined,
  documents: Record<string, unknown> = {},
  more: Partial<typeof ends> & { resolverUrl?: string } = {},
) {
  const real = globalThis.fetch
  onTestFinished(() => void (globalThis.fetch = real))
  globalThis.fetch = async (url) => {
    const found = documents[String(url)]
    return found ? Response.json(found) : new Response('', { status: 404 })
  }
  const { initialWallet: wallet, createDelegation } = await testWallet()
  const { resolverUrl, ...other } = more
  const client = createOracleClient({ wallet, createDelegation, resolverUrl })
  const meant = { client, oracleDid, apiUrl: 'https://api.example' }
  return verified({ ...ends, ...other, proof }, meant)
}
const refused = expect.objectContaining({ code: 'call_not_verified' })

it('the key of a did:key stands in the DID: nobody is asked', async () => {
  const found = await check(key.did, proofBy(key))
  expect(found).toEqual({ verifiedBy: 'did', fingerprint: print('BB') })
})

it('a proof of another call, of another key, or none is refused', async () => {
  const other = keyOf()
  await expect(check(key.did, undefined)).rejects.toEqual(refused)
  await expect(check(key.did, proofBy(other))).rejects.toEqual(refused)
  await expect(check(key.did, { ...proofBy(other), key: key.did })).rejects.toEqual(refused)
  await expect(check(key.did, { ...proofBy(key), signature: '' })).rejects.toEqual(refused)
  await expect(check(key.did, { ...proofBy(key), signature: '%' })).rejects.toEqual(refused)
  for (const change of [
    { callId: 'd' },
    { sessionId: 't' },
    { offer: sdp('ab') },
    { answer: sdp('BC') },
    { answer: `${sdp('BB')}a=fingerprint:sha-256 ${print('CC')}\r\n` },
    { answer: 'v=0\r\n' },
  ])
    await expect(check(key.did, proofBy(key), {}, change)).rejects.toEqual(refused)
})

it('the key of a did:web stands in its document, and must be one that signs', async () => {
  const did = 'did:web:oracle.example'
  const address = 'https://oracle.example/.well-known/did.json'
  const method = { id: `${did}#k`, type: 'Multikey', publicKeyMultibase: key.multibase }
  const document = { id: did, verificationMethod: [method], assertionMethod: [`${did}#k`] }
  const by = async (found: unknown, proof = proofBy(key)) =>
    (await check(did, proof, { [address]: found })).verifiedBy
  expect(await by(document)).toBe('document')
  const jwk = { kty: 'OKP', crv: 'Ed25519', x: key.raw.toString('base64url') }
  const relative = { id: '#k', type: 'JsonWebKey', publicKeyJwk: jwk }
  expect(await by({ id: did, verificationMethod: [relative], authentication: ['#k'] })).toBe(
    'document',
  )
  expect(await by({ id: did, assertionMethod: [method] })).toBe('document')
  await expect(by(document, proofBy(keyOf()))).rejects.toEqual(refused)
  const { assertionMethod: _, ...encrypts } = { ...document, keyAgreement: [`${did}#k`] }
  await expect(by(encrypts)).rejects.toEqual(refused)
  await expect(by({ ...document, id: 'did:web:another.example' })).rejects.toEqual(refused)
  await expect(by(undefined)).rejects.toEqual(refused)
})

it('a DID that only a resolver knows is asked of it; without one the server’s own word counts, and says so', async () => {
  const did = 'did:ixo:entity:1'
  const method = { id: '#k', type: 'Multikey', publicKeyMultibase: key.multibase }
  const document = { id: did, verificationMethod: [method], assertionMethod: ['#k'] }
  const resolved = {
    'https://resolver.example/1.0/identifiers/did:ixo:entity:1': { didDocument: document },
  }
  const resolverUrl = 'https://resolver.example'
  expect((await check(did, proofBy(key), resolved, { resolverUrl })).verifiedBy).toBe('document')
  await expect(check(did, proofBy(keyOf()), resolved, { resolverUrl })).rejects.toEqual(refused)
  const own = { ...document, id: 'did:web:api.example', alsoKnownAs: [did] }
  const told = { 'https://api.example/.well-known/did.json': own }
  expect((await check(did, proofBy(key), told)).verifiedBy).toBe('origin')
  await expect(check('did:ixo:entity:2', proofBy(key), told)).rejects.toEqual(refused)
})

it('a fingerprint that is not SHA-256 is none', () => {
  expect(() => fingerprintOf(`a=fingerprint:sha-1 ${print('AA')}\r\n`)).toThrow('unclear')
})

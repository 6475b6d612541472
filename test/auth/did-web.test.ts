import { beforeAll, afterAll, describe, expect, it } from 'vitest'
import { createWallet } from '../../core/testing/wallet.ts'
import { scriptedModel, testApp, type TestApp } from '#core/testing'

const did = 'did:web:oracle.example%3A8443:agents:one'

describe('an oracle that goes by a did:web', () => {
  let app: TestApp
  beforeAll(async () => {
    app = await testApp({ plugins: [], model: scriptedModel([]), env: { ORACLE_DID: did } })
  })
  afterAll(() => app.close())

  const askedBy = async (audience: string) => {
    const wallet = await createWallet()
    const { text } = await wallet.invoke({ audience })
    const headers = { authorization: `Bearer ${text}`, 'x-auth-type': 'ucan' }
    return (await fetch(`${app.url}/sessions`, { method: 'POST', headers })).status
  }

  /** The document that the server has at the address of the DID. */
  const served = async () => {
    const answer = await fetch(`${app.url}/.well-known/did.json`)
    return (await answer.json()) as Record<string, any> // any: a test states what it expects
  }

  it('takes tokens for it and for its key, and for no other did:web', async () => {
    expect(app.oracleDid).toBe(did)
    const [key] = (await served()).alsoKnownAs
    expect(await askedBy(did)).toBe(201)
    expect(await askedBy(key)).toBe(201)
    for (const other of [
      'did:web:oracle.example',
      `${did}:two`,
      `${did}/x`,
      'did:web:a b',
      'did:web:',
    ])
      expect(await askedBy(other)).toBe(401)
  })

  it('serves the document of that DID, whose key is its own', async () => {
    const document = await served()
    expect(document).toMatchObject({ id: did, alsoKnownAs: [expect.stringMatching(/^did:key:z/)] })
    const [key] = document.alsoKnownAs
    const id = `${did}#${key.slice('did:key:'.length)}`
    expect(document.verificationMethod).toMatchObject([
      { id, controller: did, publicKeyMultibase: key.slice('did:key:'.length) },
    ])
    expect(document.assertionMethod).toEqual([id])
    expect(document.service[0]).toMatchObject({ id: `${did}#api`, type: 'oracleService' })
  })

  it('is spoken for by its key alone: nobody acts by a did:web', async () => {
    const { ed25519 } = await import('@ucanto/principal')
    const { delegate } = await import('@ucanto/core')
    const issuer = (await ed25519.generate()).withDID(did)
    const token = await delegate({
      issuer,
      audience: { did: () => did },
      capabilities: [{ can: '*', with: 'ixo:oracle' }],
      expiration: Math.floor(Date.now() / 1000) + 60,
    })
    const { ok } = await token.archive()
    const text = Buffer.from(ok ?? []).toString('base64')
    const headers = { authorization: `Bearer ${text}`, 'x-auth-type': 'ucan' }
    expect((await fetch(`${app.url}/sessions`, { method: 'POST', headers })).status).toBe(401)
  })
})

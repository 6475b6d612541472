import { createPublicKey, verify } from 'node:crypto'
import { base58btc } from 'multiformats/bases/base58'
import { expect, it } from 'vitest'
import { definePlugin, RuntimeError } from '#core'
import { testApp } from '#core/testing'

const notary = definePlugin({
  name: 'notary',
  summary: 'Signs what it is given.',
  setup: ({ oracle }) => ({ oracle }),
  routes: {
    'GET /signed/:text': {
      auth: 'public',
      run({ text }, { self: { oracle } }) {
        const { key, did } = oracle
        if (!key) throw new RuntimeError('UNAVAILABLE', 'No signing key is loaded.')
        const signature = Buffer.from(key.sign(Buffer.from(text))).toString('hex')
        return { did, key: key.did, url: oracle.url(), signature }
      },
    },
  },
})

it('a plugin signs as the oracle, with the key of its DID document', async () => {
  await using app = await testApp({ plugins: [notary] })
  const { body } = await app.get('/signed/hello')
  expect(body).toMatchObject({ did: app.oracleDid, url: app.url })
  const [method] = (await app.get('/.well-known/did.json')).body.verificationMethod
  expect(body.key).toBe(method.controller)
  const key = createPublicKey({
    key: {
      kty: 'OKP',
      crv: 'Ed25519',
      x: Buffer.from(base58btc.decode(method.publicKeyMultibase).slice(2)).toString('base64url'),
    },
    format: 'jwk',
  })
  const signature = Buffer.from(body.signature, 'hex')
  expect(verify(null, Buffer.from('hello'), key, signature)).toBe(true)
  expect(verify(null, Buffer.from('hellp'), key, signature)).toBe(false)
})

it('a plugin finds no key where no signing key is loaded, and the rest of it serves', async () => {
  await using app = await testApp({ plugins: [notary], env: { NODE_ENV: 'production' } })
  expect(await app.get('/signed/hello')).toMatchObject({
    status: 503,
    body: { code: 'UNAVAILABLE' },
  })
})

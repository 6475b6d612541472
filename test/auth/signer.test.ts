import { ed25519 } from '@ucanto/principal'
import { describe, expect, test } from 'vitest'
import { signerFromMnemonic } from '../../core/runtime/auth/did/signer.ts'
import { oracle } from '../support/auth.ts'

describe('the signer of the oracle', () => {
  test('has the key that ucanto derives from the hash of the trimmed words', async () => {
    const words = 'elbow wheel mimic grunt tonic ridge'
    const seed = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(words))
    const theirs = await ed25519.derive(new Uint8Array(seed))
    const signer = signerFromMnemonic(`  ${words}\n`)
    expect(signer.did).toBe(theirs.did())
    const message = new TextEncoder().encode('signed')
    expect(Buffer.from(signer.sign(message))).toEqual(Buffer.from((await theirs.sign(message)).raw))
  })

  test('describes itself with its addresses', () => {
    const document = oracle.didDocument({
      apiUrl: 'https://oracle.example',
      wsUrl: 'wss://oracle.example/ws',
      alsoKnownAs: ['did:ixo:entity:abc'],
    })
    const key = `${oracle.did}#${oracle.did.slice('did:key:'.length)}`
    expect(document).toMatchObject({
      id: oracle.did,
      alsoKnownAs: ['did:ixo:entity:abc'],
      verificationMethod: [{ id: key, controller: oracle.did }],
      authentication: [key],
      service: [
        { id: `${oracle.did}#api`, serviceEndpoint: 'https://oracle.example' },
        { id: `${oracle.did}#ws`, serviceEndpoint: 'wss://oracle.example/ws' },
      ],
    })
  })

  test('refuses an empty mnemonic without a word of it', () => {
    expect(() => signerFromMnemonic('  ')).toThrow('ORACLE_MNEMONIC is set to nothing but spaces.')
  })
})

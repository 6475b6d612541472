import { createPrivateKey, sign } from 'node:crypto'
import { base58btc } from 'multiformats/bases/base58'
import { describe, expect, it } from 'vitest'
import { canonicalJson } from './canonical-json.ts'
import { proofBytes, withProof } from './data-integrity.ts'

// These are the published test vectors for eddsa-jcs-2022 of W3C's "Data Integrity EdDSA Cryptosuites", with their key pair.
const seed = base58btc.decode('z3u2en7t5LR2WtQH5PfFqMqwVHBeXouLzo6haApm8XHqvjxq').slice(2)
const multibase = 'z6MkrJVnaZkeFzdQyMZu1cgjg7k1pZZ6pvBQ7XJPt4swbTQ2'
const key = createPrivateKey({
  key: Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), seed]),
  format: 'der',
  type: 'pkcs8',
})
const theirs = {
  did: `did:key:${multibase}`,
  sign: (bytes: Uint8Array) => new Uint8Array(sign(null, bytes, key)),
}
const context = [
  'https://www.w3.org/ns/credentials/v2',
  'https://www.w3.org/ns/credentials/examples/v2',
]
const alumni = {
  '@context': context,
  id: 'urn:uuid:58172aac-d8ba-11ed-83dd-0b3aef56cc33',
  type: ['VerifiableCredential', 'AlumniCredential'],
  name: 'Alumni Credential',
  description: 'A minimum viable example of an Alumni Credential.',
  issuer: 'https://vc.example/issuers/5678',
  validFrom: '2023-01-01T00:00:00Z',
  credentialSubject: { id: 'did:example:abcdefgh', alumniOf: 'The School of Examples' },
}
const created = new Date('2023-02-24T23:36:38Z')

describe('the published vectors of eddsa-jcs-2022', () => {
  it('the canonical document is theirs', () => {
    expect(canonicalJson(alumni)).toBe(
      '{"@context":["https://www.w3.org/ns/credentials/v2",' +
        '"https://www.w3.org/ns/credentials/examples/v2"],' +
        '"credentialSubject":{"alumniOf":"The School of Examples","id":"did:example:abcdefgh"},' +
        '"description":"A minimum viable example of an Alumni Credential.",' +
        '"id":"urn:uuid:58172aac-d8ba-11ed-83dd-0b3aef56cc33",' +
        '"issuer":"https://vc.example/issuers/5678","name":"Alumni Credential",' +
        '"type":["VerifiableCredential","AlumniCredential"],"validFrom":"2023-01-01T00:00:00Z"}',
    )
  })

  it('the bytes to sign are theirs: the hash of the options, then the hash of the document', () => {
    const options = {
      type: 'DataIntegrityProof',
      cryptosuite: 'eddsa-jcs-2022',
      created: '2023-02-24T23:36:38Z',
      verificationMethod: `did:key:${multibase}#${multibase}`,
      proofPurpose: 'assertionMethod',
      '@context': context,
    }
    expect(Buffer.from(proofBytes(alumni, options)).toString('hex')).toBe(
      '66ab154f5c2890a140cb8388a22a160454f80575f6eae09e5a097cabe539a1db' +
        '59b7cb6251b8991add1ce0bc83107e3db9dbbab5bd2c28f687db1a03abc92f19',
    )
  })

  it.each([
    [
      `did:key:${multibase}#${multibase}`,
      'z2HnFSSPPBzR36zdDgK8PbEHeXbR56YF24jwMpt3R1eHXQzJDMWS93FCzpvJpwTWd3GAVFuUfjoJdcnTMuVor51aX',
    ],
    [
      `https://vc.example/issuers/5678#${multibase}`,
      'z63t83Y53KfzJ5ZosfKTnqfMcKB2dmTrfjSaQjeNNjAD5srBowQfmWqeRb8rRjmeEuCBEsddF9LsVogtuTsijJKh4',
    ],
  ])('the signature under the method %s is theirs', (method, proofValue) => {
    const signed = withProof(alumni, theirs, created, method)
    expect(signed.proof).toEqual({
      type: 'DataIntegrityProof',
      cryptosuite: 'eddsa-jcs-2022',
      created: '2023-02-24T23:36:38Z',
      verificationMethod: method,
      proofPurpose: 'assertionMethod',
      '@context': context,
      proofValue,
    })
  })
})

describe('canonical JSON', () => {
  it('sorts and escapes as RFC 8785 shows', () => {
    expect(
      canonicalJson(
        JSON.parse(
          '{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],' +
            '"string":"\\u20ac$\\u000F\\u000aA\'\\u0042\\u0022\\u005c\\\\\\"\\/",' +
            '"literals":[null,true,false]}',
        ),
      ),
    ).toBe(
      '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
    )
    const keys = JSON.parse(
      '{"\\u20ac":"Euro Sign","\\r":"Carriage Return","\\ufb33":"Hebrew Letter Dalet With Dagesh",' +
        '"1":"One","\\ud83d\\ude00":"Emoji: Grinning Face","\\u0080":"Control",' +
        '"\\u00f6":"Latin Small Letter O With Diaeresis"}',
    )
    expect(Object.values(JSON.parse(canonicalJson(keys)) as object)).toHaveLength(7)
    expect([...canonicalJson(keys).matchAll(/:"([^"]+)"/g)].map(([, name]) => name)).toEqual([
      'Carriage Return',
      'One',
      'Control',
      'Latin Small Letter O With Diaeresis',
      'Euro Sign',
      'Emoji: Grinning Face',
      'Hebrew Letter Dalet With Dagesh',
    ])
  })

  it('writes numbers as RFC 8785 lists them', () => {
    const view = new DataView(new ArrayBuffer(8))
    const number = (hex: string) => (view.setBigUint64(0, BigInt(`0x${hex}`)), view.getFloat64(0))
    for (const [hex, text] of [
      ['0000000000000000', '0'],
      ['8000000000000000', '0'],
      ['0000000000000001', '5e-324'],
      ['8000000000000001', '-5e-324'],
      ['7fefffffffffffff', '1.7976931348623157e+308'],
      ['ffefffffffffffff', '-1.7976931348623157e+308'],
      ['4340000000000000', '9007199254740992'],
      ['c340000000000000', '-9007199254740992'],
      ['4430000000000000', '295147905179352830000'],
      ['44b52d02c7e14af5', '9.999999999999997e+22'],
      ['44b52d02c7e14af6', '1e+23'],
      ['44b52d02c7e14af7', '1.0000000000000001e+23'],
      ['444b1ae4d6e2ef4e', '999999999999999700000'],
      ['444b1ae4d6e2ef4f', '999999999999999900000'],
      ['444b1ae4d6e2ef50', '1e+21'],
      ['3eb0c6f7a0b5ed8c', '9.999999999999997e-7'],
      ['3eb0c6f7a0b5ed8d', '0.000001'],
      ['41b3de4355555553', '333333333.3333332'],
      ['41b3de4355555557', '333333333.33333343'],
      ['becbf647612f3696', '-0.0000033333333333333333'],
      ['43143ff3c1cb0959', '1424953923781206.2'],
    ] as const)
      expect(canonicalJson(number(hex)), hex).toBe(text)
  })

  it('refuses what has no canonical form', () => {
    for (const value of [NaN, Infinity, '\ud800', { '\udc00': 1 }, undefined, 1n, () => 1])
      expect(() => canonicalJson(value)).toThrow('no form in JSON')
    expect(canonicalJson({ a: undefined, b: [] })).toBe('{"b":[]}')
  })
})

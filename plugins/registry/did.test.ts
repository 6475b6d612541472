import { describe, expect, it } from 'vitest'
import { random } from '../../test/support/random.ts'
import { isDid, isEntityId, longestId } from './did.ts'

/** The identifiers in W3C DID Core 1.0, and unusual identifiers of registered methods. */
const published = [
  'did:example:123456789abcdefghi',
  'did:example:123',
  'did:example:abcdefghijklmnopqrstuvwxyz',
  'did:example:pqrstuvwxyz0987654321',
  'did:web:example.com',
  'did:web:example.com%3A3000:user:alice',
  'did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK',
  'did:ethr:0xb9c5714089478a327f09197987f16f9e5d936e8a',
  'did:peer:2.Ez6LSbysY2xFMRpGMhb7tFTLMpeuPRaqaWM1yECx2AtzE3KCc.SeyJ0Ijoi',
  'did:ion:EiClkZMDxPKqC9c-umQfTkR8vvZ9JPhl_xLDI9Nfk38w5w',
  'did:3:kjzl6cwe1jw14b5pv8zucigpz0sc2lh9z5l0ztdrvqw5y1xt2tvz8cjt34bkub9',
]
const edges = [
  'did:a:b',
  'did:9:-',
  'did:a:::b',
  'did:a::b',
  'did:a:.',
  'did:a:_',
  'did:a:%20',
  'did:a:%fF',
]
const broken = [
  '',
  'did',
  'did:',
  'did:a',
  'did:a:',
  'did::b',
  'did:a:b:',
  'DID:a:b',
  'Did:a:b',
  'did:A:b',
  'did:ex-ample:b',
  'did:a_b:c',
  'did:a:b ',
  ' did:a:b',
  'did:a:b\n',
  '\ndid:a:b',
  'did:a:b\u0000',
  'did:a:é',
  'did:a:b~c',
  'did:a:b!c',
  'did:a:b@c',
  'did:a:%',
  'did:a:%2',
  'did:a:%2G',
  'did:a:%GG',
  'did:a:b%',
  'urn:did:a:b',
  'did:a:b\u2028',
]
const withPath = [
  'did:example:123/path',
  'did:ixo:entity/device-123',
  'did:example:123456/path',
  'did:a:b/',
  'did:a:b//c',
  "did:a:b/~!$&'()*+,;=:@-._",
  'did:a:b/%2F',
]

describe('the grammar of DID Core', () => {
  it('takes what the recommendation shows, and every character that it allows', () => {
    for (const text of [...published, ...edges]) expect([text, isDid(text)]).toEqual([text, true])
  })

  it('takes nothing else, at either end', () => {
    for (const text of broken) {
      expect([text, isDid(text)]).toEqual([text, false])
      expect([text, isEntityId(text)]).toEqual([text, false])
    }
  })

  it('takes a path in an id, but neither query nor fragment', () => {
    for (const text of withPath) {
      expect([text, isEntityId(text), isDid(text)]).toEqual([text, true, false])
    }
    for (const text of [
      'did:example:123456?versionId=1',
      'did:example:123#public-key-0',
      'did:example:123?service=agent&relativeRef=/credentials#degree',
      'did:a:b?c=d',
      'did:a:b/c?d',
      'did:a:b#c',
      'did:a:b/c#d',
      'did:a:b/c d',
      'did:a:b/[c]',
      'did:a:b/c\n',
    ])
      expect([text, isEntityId(text)]).toEqual([text, false])
  })

  it('agrees with a reader that follows the rules of the grammar one by one', () => {
    const alphabet = [
      'did',
      ':',
      'a',
      'Z',
      '9',
      '.',
      '-',
      '_',
      '%41',
      '%',
      '~',
      '/',
      '?',
      '#',
      ' ',
      'é',
    ]
    const { integer } = random('did')
    let accepted = 0
    for (let round = 0; round < 10_000; round++) {
      let text = integer(0, 4) === 0 ? '' : 'did:m:'
      for (let length = integer(0, 4); length > 0; length--)
        text += alphabet[integer(0, alphabet.length - 1)]
      const expected = byRules(text)
      expect([text, isDid(text)]).toEqual([text, expected])
      if (expected) accepted++
    }
    expect(accepted).toBeGreaterThan(500)
  })

  it('is quick with what was made to be slow, and bounds the length', () => {
    const long = `did:a:${'a:'.repeat(50_000)}`
    expect(isEntityId(long)).toBe(false)
    expect(isEntityId(`did:a:${'%'.repeat(100_000)}`)).toBe(false)
    expect(isDid(`did:a:${'b'.repeat(longestId - 6)}`)).toBe(true)
    expect(isDid(`did:a:${'b'.repeat(longestId - 5)}`)).toBe(false)
  })
})

/** A second parser, which follows the ABNF rule by rule without regular expressions. */
function byRules(text: string): boolean {
  if (!text.startsWith('did:')) return false
  const colon = text.indexOf(':', 4)
  if (colon < 0) return false
  const method = text.slice(4, colon)
  const isMethodChar = (c: string) => (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')
  if (method === '' || ![...method].every(isMethodChar)) return false
  const segments = text.slice(colon + 1).split(':')
  if (segments.at(-1) === '') return false
  return segments.every((segment) => {
    for (let at = 0; at < segment.length; at++) {
      const c = segment[at]!
      if (c === '%') {
        const isHex = (h = '') => h !== '' && '0123456789abcdefABCDEF'.includes(h)
        if (!isHex(segment[at + 1]) || !isHex(segment[at + 2])) return false
        at += 2
      } else if (!(isMethodChar(c) || (c >= 'A' && c <= 'Z') || '.-_'.includes(c))) return false
    }
    return true
  })
}

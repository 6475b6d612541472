import { createHmac } from 'node:crypto'
import { Webhook } from 'standardwebhooks'
import { describe, expect, it } from 'vitest'
import { verifyHmac, verifyWebhook, type HmacCheck, type WebhookCheck } from '#core/webhooks'

const body = '{"type":"invoice.paid","amount":12}'

describe('verifyHmac', () => {
  const secret = 'shared'
  const check = (change: object = {}) =>
    verifyHmac({
      algorithm: 'sha256',
      secret,
      body,
      encoding: 'hex',
      signature: createHmac('sha256', secret).update(body).digest('hex'),
      ...change,
    } as HmacCheck)

  it('knows signatures of four hashes in three encodings, with and without a prefix', () => {
    for (const algorithm of ['sha1', 'sha256', 'sha384', 'sha512'])
      for (const encoding of ['hex', 'base64', 'base64url'] as const)
        for (const prefix of [undefined, '', `${algorithm}=`]) {
          const digest = createHmac(algorithm, secret).update(body).digest(encoding)
          const signature = (prefix ?? '') + digest
          expect(check({ algorithm, encoding, prefix, signature })).toBe(true)
          expect(check({ algorithm, encoding, prefix, signature, body: Buffer.from(body) })).toBe(
            true,
          )
          expect(check({ algorithm, encoding, prefix, signature, body: `${body} ` })).toBe(false)
          expect(check({ algorithm, encoding, prefix, signature, secret: 'other' })).toBe(false)
        }
  })

  it('reads hex in either case, and base64 without what fills it up', () => {
    const digest = createHmac('sha256', secret).update(body).digest()
    expect(check({ signature: digest.toString('hex').toUpperCase() })).toBe(true)
    const signature = digest.toString('base64')
    expect(check({ encoding: 'base64', signature: signature.replace('=', '') })).toBe(true)
    expect(check({ encoding: 'base64', signature: `${signature}==` })).toBe(false)
  })

  it('finds every bit that is changed', () => {
    const digest = createHmac('sha256', secret).update(body).digest()
    for (let bit = 0; bit < digest.length * 8; bit++) {
      const changed = Buffer.from(digest)
      changed[bit >> 3]! ^= 1 << (bit & 7)
      expect(check({ signature: changed.toString('hex') })).toBe(false)
    }
  })

  it('is false for anything malformed, and never throws', () => {
    const good = createHmac('sha256', secret).update(body).digest('hex')
    const signatures = [
      undefined,
      null,
      '',
      good.slice(1),
      `${good}00`,
      ` ${good}`,
      `${good}\n`,
      `${good} `,
      good.replace(/./, 'g'),
      good.replace(/./, 'ü'),
      'sha256=',
      [good],
      [good, good],
      { length: 64 },
      64,
      Buffer.from(good),
      'x'.repeat(100_000),
    ]
    for (const signature of signatures) expect(check({ signature }), String(signature)).toBe(false)
    expect(check({ prefix: 'sha256=' })).toBe(false)
    expect(check({ prefix: 'sha256=', signature: `SHA256=${good}` })).toBe(false)
    for (const secret of ['', undefined, null, new Uint8Array(), 7]) {
      const signature = createHmac('sha256', '').update(body).digest('hex')
      expect(check({ secret, signature })).toBe(false)
    }
    for (const body of [undefined, null, {}, 5]) expect(check({ body })).toBe(false)
    for (const algorithm of ['md5', 'none', '', undefined]) expect(check({ algorithm })).toBe(false)
    for (const encoding of ['utf8', 'latin1', '', undefined])
      expect(check({ encoding })).toBe(false)
  })
})

describe('verifyWebhook', () => {
  const secret = `whsec_${Buffer.alloc(24, 'k').toString('base64')}`
  const now = Date.parse('2026-05-04T10:00:00Z')
  const signed = (secret: string, seconds = now / 1000, id = 'msg_1', content = body) => ({
    'webhook-id': id,
    'webhook-timestamp': String(seconds),
    'webhook-signature': new Webhook(secret).sign(id, new Date(seconds * 1000), content),
  })
  const check = (change: object = {}) =>
    verifyWebhook({ secret, headers: signed(secret), body, now, ...change } as WebhookCheck)

  it('reads what the published library of Standard Webhooks signs', () => {
    expect(check()).toBe(true)
    expect(check({ body: Buffer.from(body) })).toBe(true)
    expect(check({ headers: new Headers(signed(secret)) })).toBe(true)
    const upper = Object.entries(signed(secret)).map(([name, value]) => [
      name.toUpperCase(),
      [value],
    ])
    expect(check({ headers: Object.fromEntries(upper) })).toBe(true)
    const today = Math.floor(Date.now() / 1000)
    expect(check({ headers: signed(secret, today), now: undefined })).toBe(true)
    expect(check({ secret: Buffer.alloc(24, 'k') })).toBe(true)
  })

  it('reads a secret of plain words as the sender of such a secret uses it', () => {
    const [id, at] = ['msg_1', new Date(now)]
    const signature = new Webhook('plain words', { format: 'raw' }).sign(id, at, body)
    const headers = { ...signed(secret), 'webhook-signature': signature }
    expect(check({ secret: 'plain words', headers })).toBe(true)
  })

  it('takes five minutes of difference either way, and no second more', () => {
    for (const seconds of [0, 299, 300, -300])
      expect(check({ headers: signed(secret, now / 1000 + seconds) })).toBe(true)
    for (const seconds of [301, -301, 86_400, -86_400])
      expect(check({ headers: signed(secret, now / 1000 + seconds) })).toBe(false)
  })

  it('takes any of several signatures, and any of several secrets while keys change', () => {
    const older = `whsec_${Buffer.alloc(24, 'o').toString('base64')}`
    const [one, other] = [signed(secret), signed(older)]
    const both = `${other['webhook-signature']} v1a,AAAA ${one['webhook-signature']}`
    expect(check({ headers: { ...one, 'webhook-signature': both } })).toBe(true)
    expect(check({ headers: other })).toBe(false)
    expect(check({ headers: other, secret: [secret, older] })).toBe(true)
    expect(check({ headers: other, secret: [secret, '', older] })).toBe(true)
    expect(check({ headers: other, secret: [] })).toBe(false)
  })

  it('finds every character that is changed, in body, id, time and signature', () => {
    const flip = (text: string, at: number) =>
      text.slice(0, at) + String.fromCharCode(text.charCodeAt(at) ^ 1) + text.slice(at + 1)
    for (let at = 0; at < body.length; at++) expect(check({ body: flip(body, at) })).toBe(false)
    const headers = signed(secret)
    for (const [name, value] of Object.entries(headers))
      for (let at = 0; at < value.length; at++)
        expect(check({ headers: { ...headers, [name]: flip(value, at) } }), `${name} ${at}`).toBe(
          false,
        )
  })

  it('is false for anything malformed, and never throws', () => {
    const good = signed(secret)
    for (const name of Object.keys(good) as (keyof typeof good)[]) {
      for (const value of ['', undefined, null, [], [good[name], good[name]], 'x', 12, {}])
        expect(check({ headers: { ...good, [name]: value } })).toBe(false)
      expect(check({ headers: { ...good, [name.toUpperCase()]: good[name] } })).toBe(false)
    }
    const times = ['NaN', '1e9', '-1', '0x10', ` ${now / 1000}`, `${now / 1000}.0`, '9'.repeat(400)]
    for (const time of times)
      expect(check({ headers: { ...good, 'webhook-timestamp': time } })).toBe(false)
    const bare = good['webhook-signature'].slice(3)
    for (const signature of [
      bare,
      `v2,${bare}`,
      `V1,${bare}`,
      'v1,',
      ' '.repeat(9000),
      `v1,${bare},`,
    ])
      expect(check({ headers: { ...good, 'webhook-signature': signature } })).toBe(false)
    const late = `${'v1,x '.repeat(16)}${good['webhook-signature']}`
    expect(check({ headers: { ...good, 'webhook-signature': late } })).toBe(false)
    for (const headers of [undefined, null, {}, 'x', new Headers()])
      expect(check({ headers })).toBe(false)
    for (const secret of ['', 'whsec_', 'whsec_!', undefined, null, 7])
      expect(check({ secret })).toBe(false)
    for (const body of [undefined, null, {}, 5]) expect(check({ body })).toBe(false)
    expect(check({ now: NaN })).toBe(false)
  })

  it('takes no signature that was made with an empty key', () => {
    const content = `msg_1.${now / 1000}.${body}`
    const signature = `v1,${createHmac('sha256', '').update(content).digest('base64')}`
    const headers = { ...signed(secret), 'webhook-signature': signature }
    for (const empty of ['', 'whsec_', new Uint8Array()])
      expect(check({ secret: empty, headers })).toBe(false)
  })
})

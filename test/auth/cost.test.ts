import { Signature } from '@ucanto/core'
import { ed25519 } from '@ucanto/principal'
import { describe, expect, test } from 'vitest'
import { RuntimeError } from '../../core/errors.ts'
import { createWallet } from '../../core/testing/wallet.ts'
import { oracle, requestOf, testAuth } from '../support/auth.ts'
import {
  bearer,
  chain,
  fan,
  forgedInvocation,
  keyDid,
  puppet,
  smallOrder,
  token,
} from '../support/tokens.ts'

const audience = oracle.did
const user = await createWallet()
const refusal = { code: 'UNAUTHORIZED', status: 401 }

describe('what a token can cost', () => {
  test('10 kB of hostile proofs cost no decoded block and no signature', async () => {
    const { auth } = testAuth()
    const { text } = await fan(audience, { levels: 6, width: 3, grants: 8 })
    expect(text.length).toBeGreaterThan(10_000)
    await expect(auth.authenticate(requestOf(bearer(text)))).rejects.toMatchObject(refusal)
    expect(auth.stats()).toMatchObject({ blocks: 0, signatures: 0, refused: 1 })
  })

  test('hostile proofs that fit the bounds are decoded once each and never verified', async () => {
    const { auth } = testAuth()
    const { text } = await fan(audience, { levels: 4, width: 2, grants: 8 })
    await expect(auth.authenticate(requestOf(bearer(text)))).rejects.toMatchObject(refusal)
    expect(auth.stats()).toMatchObject({ blocks: 7, signatures: 0 })
  })

  test('what is cheap to see is seen before any signature is verified', async () => {
    const { auth } = testAuth()
    const signer = user.signer as Parameters<typeof token>[0]
    const stranger = await createWallet()
    for (const claims of [
      { audience: stranger.did },
      { audience, expiration: 1 },
      { audience, expiration: null },
      { audience, capabilities: [{ can: 'a/b', with: 'a:b' }] },
    ])
      await expect(
        auth.authenticate(requestOf(bearer(await token(signer, claims)))),
      ).rejects.toMatchObject(refusal)
    expect(auth.stats()).toMatchObject({ blocks: 4, signatures: 0 })
  })

  test('each signature of a chain is verified once, and none after the first that fails', async () => {
    const { auth } = testAuth()
    const { text } = await chain(user, audience, 5)
    await auth.authenticate(requestOf(bearer(text)))
    expect(auth.stats()).toMatchObject({ blocks: 5, signatures: 5 })

    const { auth: other } = testAuth()
    await expect(
      other.authenticate(requestOf(bearer(await forgedInvocation(audience)))),
    ).rejects.toMatchObject(refusal)
    expect(other.stats()).toMatchObject({ blocks: 1, signatures: 1 })
  })

  test('a token seen before costs neither, and many at once are verified once', async () => {
    const { auth } = testAuth()
    const { text } = await user.invoke({ audience })
    const all = Array.from({ length: 50 }, () => auth.authenticate(requestOf(bearer(text))))
    for (const { did } of await Promise.all(all)) expect(did).toBe(user.did)
    await auth.authenticate(requestOf(bearer(text)))
    expect(auth.stats()).toMatchObject({ blocks: 1, signatures: 1, invocations: 1 })
  })

  test('a refused token is not remembered, so bad ones push no good one out', async () => {
    const { auth } = testAuth()
    const bad = await forgedInvocation(audience)
    for (let call = 0; call < 3; call++)
      await expect(auth.authenticate(requestOf(bearer(bad)))).rejects.toMatchObject(refusal)
    expect(auth.stats()).toMatchObject({ invocations: 0, signatures: 3 })
  })
})

describe('a thousand bad signatures in flight', () => {
  test('are all refused, and everybody else is served between them', async () => {
    const { auth, lines } = testAuth()
    const known = await user.invoke({ audience })
    await auth.authenticate(requestOf(bearer(known.text)))
    const fresh = await createWallet().then((wallet) => wallet.invoke({ audience }))
    const bad = await Promise.all(Array.from({ length: 1000 }, () => forgedInvocation(audience)))

    let settled = 0
    const flood = bad.map((text) =>
      auth
        .authenticate(requestOf(bearer(text)))
        .catch((error: unknown) => error)
        .finally(() => settled++),
    )
    await auth.authenticate(requestOf(bearer(known.text)))
    const afterKnown = settled
    await new Promise((resolve) => setImmediate(resolve))
    const afterTurn = settled
    expect(auth.stats().waiting).toBeGreaterThan(0)
    const { did } = await auth.authenticate(requestOf(bearer(fresh.text)))

    expect(afterKnown).toBeLessThan(1000)
    expect(afterTurn).toBeLessThan(1000)
    expect(did).toMatch(/^did:key:/)
    for (const error of await Promise.all(flood)) expect(error).toMatchObject(refusal)
    expect(lines).toHaveLength(1000)
    expect(auth.stats().waiting).toBe(0)
  })
})

describe('keys that are not sound', () => {
  test('let one signature fit every message, if the verifier of ucanto is asked', async () => {
    const lax = ed25519.Verifier.parse(keyDid(smallOrder.key))
    const signature = Signature.create(Signature.EdDSA, smallOrder.signature)
    expect(await lax.verify(Buffer.from('one'), signature)).toBe(true)
    expect(await lax.verify(Buffer.from('another'), signature)).toBe(true)
  })

  test('are refused before they are asked', async () => {
    const { auth, lines } = testAuth()
    const signer = puppet(keyDid(smallOrder.key), smallOrder.signature)
    const text = await token(signer, { audience })
    await expect(auth.authenticate(requestOf(bearer(text)))).rejects.toMatchObject(refusal)
    expect(lines.join()).toContain('small order')
  })
})

describe('tokens with damage', () => {
  test('of one bit anywhere never authenticate and never do worse than a 401', async () => {
    const { auth, lines } = testAuth()
    const { text } = await chain(user, audience, 3)
    const bytes = Buffer.from(text, 'base64')
    for (let bit = 0; bit < bytes.length * 8; bit += 5) {
      const damaged = Buffer.from(bytes)
      damaged[bit >> 3]! ^= 1 << (bit & 7)
      const error = await auth
        .authenticate(requestOf(bearer(damaged.toString('base64'))))
        .catch((thrown: unknown) => thrown)
      expect(error, `bit ${bit}`).toBeInstanceOf(RuntimeError)
      expect(error).toMatchObject(refusal)
    }
    expect(lines.filter((line) => line.includes('unexpectedly'))).toEqual([])
  })

  test('that were cut or grew anywhere do not either', async () => {
    const { auth, lines } = testAuth()
    const { text } = await chain(user, audience, 2)
    const bytes = Buffer.from(text, 'base64')
    for (let length = 0; length < bytes.length; length += 3)
      for (const damaged of [
        bytes.subarray(0, length),
        Buffer.concat([bytes.subarray(0, length), Buffer.of(0x80), bytes.subarray(length)]),
      ])
        await expect(
          auth.authenticate(requestOf(bearer(damaged.toString('base64')))),
        ).rejects.toMatchObject(refusal)
    expect(lines.filter((line) => line.includes('unexpectedly'))).toEqual([])
  })
})

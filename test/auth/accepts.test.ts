import { describe, expect, test } from 'vitest'
import { createWallet } from '../../core/testing/wallet.ts'
import { oracle, requestOf, testAuth } from '../support/auth.ts'
import {
  bearer,
  chain,
  identityCapability,
  inTheNameOf,
  seconds,
  token,
} from '../support/tokens.ts'

const audience = oracle.did
const user = await createWallet()
const stranger = await createWallet()
const signer = inTheNameOf(user, user.did)

describe('an invocation', () => {
  test('of the published client proves its signer, as often as it is sent until it expires', async () => {
    const { auth } = testAuth()
    const { text, delegation } = await user.invoke({ audience })
    for (let call = 0; call < 3; call++) {
      const caller = await auth.authenticate(requestOf(bearer(text)))
      expect(caller).toMatchObject({
        did: user.did,
        via: 'invocation',
        expiresAt: delegation.expiration * 1000,
        delegation: undefined,
        delegationState: 'missing',
      })
    }
    expect(auth.stats()).toMatchObject({ signatures: 1, cached: 2, invocations: 1 })
  })

  test('may write its scheme and its type in any case', async () => {
    const { auth } = testAuth()
    const { text } = await user.invoke({ audience })
    const request = requestOf({ authorization: `bEARER ${text}`, 'x-auth-type': 'UCAN' })
    expect((await auth.authenticate(request)).did).toBe(user.did)
  })

  test('may be addressed to another DID of the oracle', async () => {
    const { auth } = testAuth({ oracleDid: 'did:ixo:entity:abc', aliases: [oracle.did] })
    for (const did of ['did:ixo:entity:abc', oracle.did]) {
      const { text } = await user.invoke({ audience: did })
      expect((await auth.authenticate(requestOf(bearer(text)))).did).toBe(user.did)
    }
  })

  test('may live exactly as long as is allowed, and begin a moment ahead of this clock', async () => {
    const { auth } = testAuth()
    const text = await token(signer, {
      audience,
      expiration: seconds() + 900,
      notBefore: seconds() + 3,
    })
    expect((await auth.authenticate(requestOf(bearer(text)))).did).toBe(user.did)
  })

  test.each([1, 2, 3, 4, 5])(
    'of a session key speaks for its user at the end of a chain of %i',
    async (length) => {
      const { auth } = testAuth()
      const { text } = await chain(user, audience, length)
      expect((await auth.authenticate(requestOf(bearer(text)))).did).toBe(user.did)
      expect(auth.stats()).toMatchObject({ blocks: length, signatures: length })
    },
  )

  test('ends with the first proof that ends', async () => {
    const { auth } = testAuth()
    const session = await createWallet()
    const call = { can: 'oracle/call', with: user.did }
    const proof = await user.delegate({
      audience: session.did,
      capabilities: [call],
      lifetime: 100,
    })
    const { text } = await session.invoke({ audience, capability: call, proofs: [proof] })
    const caller = await auth.authenticate(requestOf(bearer(text)))
    expect(caller.expiresAt).toBe(proof.delegation.expiration * 1000)
  })

  test('that was accepted before is refused once it has expired', async () => {
    let later = 0
    const { auth, lines } = testAuth({ now: () => Date.now() + later })
    const { text } = await user.invoke({ audience, lifetime: 60 })
    await auth.authenticate(requestOf(bearer(text)))
    later = 60_000
    await expect(auth.authenticate(requestOf(bearer(text)))).rejects.toMatchObject({
      code: 'UNAUTHORIZED',
    })
    expect(lines.join()).toContain('expired')
  })
})

describe('a delegation', () => {
  test('authenticates alone when it grants calling', async () => {
    const { auth } = testAuth()
    for (const capabilities of [
      [identityCapability],
      [{ can: 'oracle/call', with: user.did }],
      [{ can: 'oracle/*', with: user.did }],
      [{ can: '*', with: 'ucan:*' }],
      [{ can: 'memory/*', with: 'ixo:memory' }, identityCapability],
    ]) {
      const { text } = await user.delegate({ audience, capabilities })
      const caller = await auth.authenticate(requestOf({ 'x-ucan-delegation': text }))
      expect(caller).toMatchObject({ did: user.did, via: 'delegation', delegation: 'header' })
    }
  })

  test('does not authenticate alone where that is switched off', async () => {
    const { auth, lines } = testAuth({ delegationOnly: false })
    const { text } = await user.delegate({ audience })
    await expect(auth.authenticate(requestOf({ 'x-ucan-delegation': text }))).rejects.toMatchObject(
      { code: 'UNAUTHORIZED', status: 401 },
    )
    expect(lines.join()).toContain('delegations alone do not authenticate here')
    const invocation = await user.invoke({ audience })
    const caller = await auth.authenticate(requestOf(bearer(invocation.text, text)))
    expect(caller).toMatchObject({ via: 'invocation', delegation: 'header' })
  })

  test('beside an invocation need not grant calling', async () => {
    const { auth } = testAuth()
    const { text } = await user.invoke({ audience })
    const beside = await user.delegate({
      audience,
      capabilities: [{ can: 'registry/read', with: user.did }],
    })
    const caller = await auth.authenticate(requestOf(bearer(text, beside.text)))
    expect(caller.delegation).toBe('header')
    expect(caller.can('registry/read')).toBe(true)
    expect(caller.can('registry/write')).toBe(false)
    expect(caller.carries(beside.text)).toBe(true)
    expect(caller.carries(text)).toBe(false)
  })

  test.each([
    ['expired', { expiration: seconds() - 10 }, 'expired'],
    ['not valid yet', { expiration: seconds() + 900, notBefore: seconds() + 300 }, 'refused'],
    ['without an end', { expiration: null }, 'refused'],
  ])(
    'of one’s own that is %s is left out beside an invocation, so that a new one can be posted',
    async (_, claims, state) => {
      const { auth } = testAuth()
      const { text } = await user.invoke({ audience })
      const lapsed = await token(signer, { audience, ...claims })
      const caller = await auth.authenticate(requestOf(bearer(text, lapsed)))
      expect(caller).toMatchObject({ delegation: undefined, delegationState: state })
      expect(caller.can('oracle/call')).toBe(false)
    },
  )

  test('of another user is refused beside an invocation, expired or not', async () => {
    const { auth } = testAuth()
    const { text } = await user.invoke({ audience })
    for (const lifetime of [300, -10]) {
      const theirs = await stranger.delegate({ audience, lifetime })
      await expect(auth.authenticate(requestOf(bearer(text, theirs.text)))).rejects.toMatchObject({
        code: 'UNAUTHORIZED',
      })
    }
  })

  test('of another user stays refused beside an invocation after its owner has used it', async () => {
    const { auth } = testAuth()
    const theirs = await stranger.delegate({ audience })
    await auth.authenticate(requestOf({ 'x-ucan-delegation': theirs.text }))
    const own = await stranger.invoke({ audience })
    await auth.authenticate(requestOf(bearer(own.text, theirs.text)))
    const { text } = await user.invoke({ audience })
    await expect(auth.authenticate(requestOf(bearer(text, theirs.text)))).rejects.toMatchObject({
      code: 'UNAUTHORIZED',
    })
  })

  test('is not an invocation, nor the other way round, however often it was seen', async () => {
    const { auth } = testAuth()
    const long = await user.delegate({ audience })
    await auth.authenticate(requestOf({ 'x-ucan-delegation': long.text }))
    await expect(auth.authenticate(requestOf(bearer(long.text)))).rejects.toMatchObject({
      code: 'UNAUTHORIZED',
    })
  })
})

describe('the stored delegation', () => {
  const call = async (stored: string | undefined, header?: string) => {
    const { auth, lines } = testAuth({ stored: async () => stored })
    const { text } = await user.invoke({ audience })
    const caller = await auth.authenticate(requestOf(bearer(text, header)))
    return { caller: await auth.withDelegation(caller), lines }
  }
  const grant = (ability: string, lifetime = 300) =>
    user.delegate({ audience, capabilities: [{ can: ability, with: user.did }], lifetime })

  test('is in force where no header brought one', async () => {
    const { caller } = await call((await grant('registry/write')).text)
    expect(caller.delegation).toBe('stored')
    expect(caller.can('registry/write')).toBe(true)
  })

  test('gives way to the one in the header', async () => {
    const stored = await grant('registry/write')
    const { caller } = await call(stored.text, (await grant('registry/read')).text)
    expect(caller.delegation).toBe('header')
    expect(caller.can('registry/write')).toBe(false)
  })

  test('takes the place of a header that has expired', async () => {
    const { caller } = await call(
      (await grant('registry/write')).text,
      (await grant('registry/read', -10)).text,
    )
    expect(caller.delegation).toBe('stored')
  })

  test('says what is wrong with it', async () => {
    expect((await call(undefined)).caller.delegationState).toBe('missing')
    expect((await call((await grant('a/b', -10)).text)).caller.delegationState).toBe('expired')
    expect((await call('damaged')).caller.delegationState).toBe('refused')
    const theirs = await stranger.delegate({ audience })
    expect((await call(theirs.text)).caller.delegationState).toBe('refused')
  })

  test('grants nothing any more once it has expired during a turn, wherever it came from', async () => {
    let later = 0
    const { auth } = testAuth({ now: () => Date.now() + later })
    const { text } = await user.invoke({ audience })
    const header = await grant('registry/write', 100)
    const caller = await auth.authenticate(requestOf(bearer(text, header.text)))
    expect(caller.can('registry/write')).toBe(true)
    later = 100_000
    expect(caller.can('registry/write')).toBe(false)
    expect(caller.denial('registry/write')).toEqual([`The delegation of ${user.did} has expired.`])
  })

  test('never keeps a caller out, even when it cannot be read', async () => {
    const { auth, lines } = testAuth({
      stored: () => Promise.reject(new Error('the database is gone')),
    })
    const { text } = await user.invoke({ audience })
    const caller = await auth.withDelegation(await auth.authenticate(requestOf(bearer(text))))
    expect(caller).toMatchObject({ did: user.did, delegation: undefined })
    expect(lines.join()).toContain('authentication failed unexpectedly')
  })
})

describe('without a signing key', () => {
  test('nobody authenticates, and the answer says why', async () => {
    const { auth } = testAuth({ signer: undefined })
    const { text } = await user.invoke({ audience })
    for (const attempt of [
      auth.authenticate(requestOf(bearer(text))),
      auth.authenticate(requestOf({})),
      auth.verifyDelegation(text, { issuer: user.did }),
    ])
      await expect(attempt).rejects.toMatchObject({
        code: 'SIGNING_KEY_NOT_LOADED',
        status: 401,
        headers: { 'WWW-Authenticate': 'Bearer realm="oracle", error="invalid_token"' },
      })
    expect(auth.stats().blocks).toBe(0)
  })
})

describe('a fault of our own', () => {
  test('is a 401 and a line in the log, never an error of another kind', async () => {
    const { auth, lines } = testAuth({
      revocations: { isRevoked: () => Promise.reject(new TypeError('SECRET in a message')) },
    })
    const { text } = await user.invoke({ audience })
    await expect(auth.authenticate(requestOf(bearer(text)))).rejects.toMatchObject({
      code: 'UNAUTHORIZED',
      status: 401,
    })
    expect(lines).toHaveLength(1)
    expect(lines[0]).toContain('"fault":"TypeError"')
    expect(lines[0]).not.toContain('SECRET')
  })
})

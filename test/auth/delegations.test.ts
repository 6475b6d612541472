import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Auth } from '../../core/runtime/auth/authenticate.ts'
import { Delegations, delegationMigrations } from '../../core/runtime/auth/grants/delegations.ts'
import { createWallet, type Wallet } from '../../core/testing/wallet.ts'
import { oracle, requestOf, testAuth } from '../support/auth.ts'
import { postgresDatabase, sqliteDatabase, type TestDatabase } from '../support/databases.ts'
import { describeWith } from '../support/services.ts'
import { bearer, inTheNameOf, seconds, token } from '../support/tokens.ts'

const audience = oracle.did
const refusal = { code: 'UNAUTHORIZED', status: 401 }

/** A server over the database: authentication and the delegations behind it. */
interface Server {
  readonly auth: Auth
  readonly delegations: Delegations
  stop(): Promise<void>
}

async function start(shared: TestDatabase, now = Date.now): Promise<Server> {
  const store = await shared.open()
  const { db } = store
  await store.migrate('test', delegationMigrations)
  const delegations = new Delegations({ db, kind: shared.kind, now })
  const { auth } = testAuth({
    revocations: delegations,
    replays: delegations,
    stored: async (user) => (await delegations.current(user, audience))?.raw,
    now,
  })
  return { auth, delegations, stop: () => store.close() }
}

/** What `POST /delegation` does. */
async function post({ auth, delegations }: Server, issuer: string, raw: string) {
  const verified = await auth.verifyDelegation(raw, { issuer })
  await delegations.store(issuer, audience, raw, verified)
  return verified
}

function suite(make: () => Promise<TestDatabase>) {
  let shared: TestDatabase
  let server: Server
  let user: Wallet
  beforeAll(async () => {
    shared = await make()
    server = await start(shared)
  })
  afterAll(async () => {
    await server.stop()
    await shared.drop()
  })
  beforeEach(async () => {
    user = await createWallet()
  })

  async function restart() {
    await server.stop()
    server = await start(shared)
  }
  const alone = (raw: string) => server.auth.authenticate(requestOf({ 'x-ucan-delegation': raw }))
  async function calling() {
    const { text } = await user.invoke({ audience })
    return server.auth.withDelegation(await server.auth.authenticate(requestOf(bearer(text))))
  }

  describe('a delegation that was handed in', () => {
    test('is verified, kept, and in force for its user, also after a restart', async () => {
      const made = await user.delegate({
        audience,
        capabilities: [{ can: 'registry/write', with: user.did }],
      })
      const verified = await post(server, user.did, made.text)
      expect(verified).toEqual({
        issuer: user.did,
        expiration: made.delegation.expiration,
        cids: [made.delegation.cid.toString()],
        revocable: [
          { cid: made.delegation.cid.toString(), expiration: made.delegation.expiration },
        ],
        capabilities: [{ can: 'registry/write', with: user.did }],
      })
      for (const again of [false, true]) {
        if (again) await restart()
        expect(await server.delegations.current(user.did, audience)).toEqual({
          raw: made.text,
          expiration: made.delegation.expiration,
        })
        const caller = await calling()
        expect(caller.delegation).toBe('stored')
        expect(caller.can('registry/write')).toBe(true)
      }
    })

    test('takes the place of an earlier one, which is not revoked by that', async () => {
      const first = await user.delegate({ audience })
      const second = await user.delegate({ audience, nonce: '2' })
      await post(server, user.did, first.text)
      await post(server, user.did, second.text)
      expect((await server.delegations.current(user.did, audience))?.raw).toBe(second.text)
      expect((await alone(first.text)).did).toBe(user.did)
    })

    test('is revoked with the earlier ones that it took the place of, and with the proofs that the user signed', async () => {
      const session = await createWallet()
      const capabilities = [{ can: 'oracle/call', with: user.did }]
      const proof = await user.delegate({ audience: session.did, capabilities })
      const back = await session.delegate({ audience: user.did, capabilities, proofs: [proof] })
      const first = await user.delegate({ audience, proofs: [back] })
      const call = async () => {
        const invocation = { audience, capability: capabilities[0]!, proofs: [proof] }
        const { text } = await session.invoke(invocation)
        return server.auth.authenticate(requestOf(bearer(text)))
      }
      await post(server, user.did, first.text)
      for (let other = 0; other < 5; other++)
        await post(server, user.did, (await user.delegate({ audience, nonce: `${other}` })).text)
      expect((await call()).did).toBe(user.did)
      await server.delegations.revoke(user.did, audience)
      await expect(call()).rejects.toMatchObject(refusal)
      await expect(alone(first.text)).rejects.toMatchObject(refusal)
    })

    test('belongs to one user and one oracle', async () => {
      await post(server, user.did, (await user.delegate({ audience })).text)
      const other = await createWallet()
      expect(await server.delegations.current(other.did, audience)).toBeUndefined()
      expect(await server.delegations.current(user.did, other.did)).toBeUndefined()
      expect(await server.delegations.revoke(other.did, audience)).toBe(false)
      expect((await calling()).delegation).toBe('stored')
    })

    test('is refused when it is another user’s, for another oracle, over, endless or damaged', async () => {
      const other = await createWallet()
      const signer = inTheNameOf(user, user.did)
      const cases: [string, string][] = [
        ['of another user', (await other.delegate({ audience })).text],
        ['for another audience', (await user.delegate({ audience: other.did })).text],
        ['expired', (await user.delegate({ audience, lifetime: -1 })).text],
        ['never expires', await token(signer, { audience, expiration: null })],
        ['lives too long', await token(signer, { audience, expiration: Date.now() })],
        ['a signature does not hold', await token(inTheNameOf(other, user.did), { audience })],
        ['not standard padded base64', 'garbage'],
        ['too long', 'A'.repeat(8_000)],
      ]
      for (const [reason, raw] of cases)
        await expect(
          server.auth.verifyDelegation(raw, { issuer: user.did }),
          reason,
        ).rejects.toMatchObject({
          code: 'BAD_REQUEST',
          status: 400,
          message: `The delegation is refused: ${reason}.`,
        })
      expect(await server.delegations.current(user.did, audience)).toBeUndefined()
    })
  })

  describe('a delegation that was revoked', () => {
    test('no longer authenticates, is no longer in force, and cannot be handed in again', async () => {
      const { text } = await user.delegate({ audience })
      await post(server, user.did, text)
      expect((await alone(text)).did).toBe(user.did)
      expect(await server.delegations.revoke(user.did, audience)).toBe(true)

      for (const again of [false, true]) {
        if (again) await restart()
        await expect(alone(text)).rejects.toMatchObject(refusal)
        expect(await server.delegations.current(user.did, audience)).toBeUndefined()
        expect((await calling()).delegationState).toBe('missing')
        const invocation = await user.invoke({ audience })
        const beside = await server.auth.authenticate(requestOf(bearer(invocation.text, text)))
        expect(beside).toMatchObject({ delegation: undefined, delegationState: 'revoked' })
        await expect(
          server.auth.verifyDelegation(text, { issuer: user.did }),
        ).rejects.toMatchObject({ details: { reason: 'revoked' } })
      }
    })

    test('is revoked on every replica at once, and a new one is welcome', async () => {
      const replica = shared.kind === 'postgres' ? await start(shared) : server
      const { text } = await user.delegate({ audience })
      await post(server, user.did, text)
      const headers = requestOf({ 'x-ucan-delegation': text })
      expect((await replica.auth.authenticate(headers)).did).toBe(user.did)
      await server.delegations.revoke(user.did, audience)
      await expect(replica.auth.authenticate(headers)).rejects.toMatchObject(refusal)

      const next = await user.delegate({ audience, nonce: 'next' })
      await post(replica, user.did, next.text)
      expect((await alone(next.text)).did).toBe(user.did)
      if (replica !== server) await replica.stop()
    })

    test('may be one that was only ever in a header', async () => {
      const { text } = await user.delegate({ audience })
      const verified = await server.auth.verifyDelegation(text, { issuer: user.did })
      await server.delegations.revokeToken(verified)
      await server.delegations.revokeToken(verified)
      await expect(alone(text)).rejects.toMatchObject(refusal)
    })

    test('takes along what rests on it, and leaves alone what others have signed', async () => {
      const owner = await createWallet()
      const shares = { can: 'registry/*', with: owner.did }
      const proof = await owner.delegate({ audience: user.did, capabilities: [shares] })
      const made = await user.delegate({ audience, capabilities: [shares], proofs: [proof] })
      await post(server, user.did, made.text)
      await server.delegations.revoke(user.did, audience)
      const cid = (minted: typeof made) => [minted.delegation.cid.toString()]
      expect(await server.delegations.isRevoked(cid(made))).toBe(true)
      expect(await server.delegations.isRevoked(cid(proof))).toBe(false)
      const another = await user.delegate({
        audience,
        capabilities: [shares],
        proofs: [proof],
        nonce: 'another',
      })
      await post(server, user.did, another.text)
      expect((await calling()).can('registry/write', owner.did)).toBe(true)
    })

    test('is never taken for a good one because both happened at the same moment', async () => {
      const { text, delegation } = await user.delegate({ audience })
      await post(server, user.did, text)
      const cids = [delegation.cid.toString()]
      await Promise.all([
        server.delegations.isRevoked(cids),
        server.delegations.revoke(user.did, audience),
        server.delegations.isRevoked(cids),
      ])
      expect(await server.delegations.isRevoked(cids)).toBe(true)
    })

    test('is forgotten once it has expired, since its expiry refuses it', async () => {
      let later = 0
      const clocked = await start(shared, () => Date.now() + later)
      const signer = inTheNameOf(user, user.did)
      const raw = await token(signer, { audience, expiration: seconds() + 100 })
      await post(clocked, user.did, raw)
      await clocked.delegations.revoke(user.did, audience)
      await clocked.delegations.sweep()
      const fresh = await start(shared)
      const headers = requestOf({ 'x-ucan-delegation': raw })
      await expect(fresh.auth.authenticate(headers)).rejects.toMatchObject(refusal)
      later = 200_000
      await clocked.delegations.sweep()
      await expect(clocked.auth.authenticate(headers)).rejects.toMatchObject(refusal)
      await clocked.stop()
      await fresh.stop()
    })
  })

  describe('a bound invocation', () => {
    test('serves once, also across a restart', async () => {
      const facts = [{ htm: 'GET', htu: '/user-preferences' }]
      const headers = bearer((await user.invoke({ audience, facts })).text)
      expect((await server.auth.authenticate(requestOf(headers))).did).toBe(user.did)
      await restart()
      await expect(server.auth.authenticate(requestOf(headers))).rejects.toMatchObject(refusal)
    })
  })
}

describe('delegations on SQLite', () => suite(sqliteDatabase))
await describeWith('postgres', 'delegations on PostgreSQL', (url) =>
  suite(() => postgresDatabase(url)),
)

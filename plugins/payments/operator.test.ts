import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { onEachDatabase } from '../../test/support/each-database.ts'
import { paidApp, pay, session, settledAccount } from '../../test/support/paid-app.ts'

const env = { OPERATOR_TOKEN: 'the-operator-of-this-test', TRUST_PROXY_ENABLED: 'true' }
const operator = { authorization: `Bearer ${env.OPERATOR_TOKEN}` }

await onEachDatabase('what an operator sees of payments', (where) => {
  async function shop() {
    const app = await paidApp({ where, env })
    const get = async (path: string) => app.get(path, { headers: operator })
    /** A user who has taken two turns on credit, and the claim of the third message. */
    const customer = async () => {
      const user = await app.user(randomBytes(8).toString('hex'))
      const sessionId = await session(user)
      // Each comes from an address of their own, for an address gives its first credit to three users a day.
      const from = { 'x-forwarded-for': `10.${[...randomBytes(3)].join('.')}` }
      const message = { message: 'Hello', stream: false }
      const say = () => user.post(`/messages/${sessionId}`, message, from)
      for (let i = 0; i < 2; i++) {
        await say()
        await settledAccount(user)
      }
      const [claim] = (await say()).body.claims as string[]
      return { user, say, claim }
    }
    const decide = (id: string | undefined, action: string) =>
      app.post(`/payments/admin/claims/${id}`, { action, reason: 'Looked at it' }, operator)
    return { app, get, customer, decide }
  }

  test('the claims of everybody by status and in pages, with whose they are and what is said against them', async () => {
    const { get, customer } = await shop()
    const [ann, ben, cay] = [await customer(), await customer(), await customer()]
    await pay(ben.user, [String(ben.claim)])
    await cay.user.post(`/payments/claims/${cay.claim}/dispute`, { reason: 'I never asked' })
    const ours = [ann, ben, cay].map(({ claim }) => claim)
    const listed = async (query: string) =>
      (await get(`/payments/admin/claims${query}`)).body.claims.filter(({ id }: { id: string }) =>
        ours.includes(id),
      )
    const seen = async (query: string) =>
      (await listed(query)).map(({ id, did, status }: Record<string, unknown>) => [id, did, status])
    const rows = {
      open: [ann.claim, ann.user.did, 'open'],
      paid: [ben.claim, ben.user.did, 'paid'],
      disputed: [cay.claim, cay.user.did, 'disputed'],
    }
    for (const [status, row] of Object.entries(rows))
      expect(await seen(`?status=${status}`)).toEqual([row])
    expect(await seen('')).toEqual([rows.disputed, rows.paid, rows.open])
    const [disputed, paid] = await listed('')
    expect(disputed).toMatchObject({
      dispute: 'I never asked',
      amount: '10000',
      charges: [{ status: 'due' }, { status: 'due' }],
    })
    expect(paid).not.toHaveProperty('dispute')
    expect(paid).toMatchObject({ method: 'transfer', charges: [{ status: 'paid' }, {}] })

    const first = (await get('/payments/admin/claims?limit=2')).body
    expect(first.claims).toHaveLength(2)
    expect(await seen(`?limit=2&cursor=${first.nextCursor}`)).toEqual([rows.open])
    for (const query of ['?cursor=nonsense', '?status=lost', '?limit=101', '?limit=0'])
      expect((await get(`/payments/admin/claims${query}`)).status).toBe(400)
  })

  test('accounts, those that changed last first, or one by its DID', async () => {
    const { app, get, customer } = await shop()
    const [ann, ben] = [await customer(), await customer()]
    const dids = async (limit: number) =>
      (await get(`/payments/admin/accounts?limit=${limit}`)).body.accounts.map(
        ({ did }: { did: string }) => did,
      )
    expect(await dids(2)).toEqual([ben.user.did, ann.user.did])
    await pay(ann.user)
    expect(await dids(2)).toEqual([ann.user.did, ben.user.did])
    expect(await dids(1)).toEqual([ann.user.did])
    const of = async (did: string) =>
      (await get(`/payments/admin/accounts?did=${encodeURIComponent(did)}`)).body.accounts
    expect(await of(ben.user.did)).toEqual([(await ben.user.get('/payments/account')).body])
    expect(await of(ben.user.did)).toMatchObject([{ owed: '10000', claims: [ben.claim] }])
    // Looking at somebody who was never there makes no account.
    expect(await of('did:key:nobody')).toMatchObject([{ owed: '0', balance: '0', claims: [] }])
    expect(await dids(100)).not.toContain('did:key:nobody')

    const gift = { did: ben.user.did, amount: '12000', reason: 'For the trouble' }
    const given = await app.post('/payments/admin/credit', gift, operator)
    // A gift pays what is due, and the rest stays in the balance.
    expect(given).toMatchObject({ status: 200, body: { balance: '2000', owed: '0', claims: [] } })
    expect((await ben.user.get(`/payments/claims/${ben.claim}`)).body.status).toBe('paid')
    expect((await ben.say()).status).toBe(200)
  })

  test('void, reopen and refund do what they say, once, and to no other claim', async () => {
    const { customer, decide } = await shop()
    const { user, claim } = await customer()
    const account = async () => (await user.get('/payments/account')).body
    expect((await decide(claim, 'reopen')).status).toBe(409)
    expect((await decide(claim, 'refund')).status).toBe(409)
    await user.post(`/payments/claims/${claim}/dispute`, { reason: 'Twice?' })
    expect((await decide(claim, 'reopen')).body).toMatchObject({ status: 'open' })
    expect(await account()).toMatchObject({ owed: '10000', claims: [claim] })
    await pay(user)
    expect((await decide(claim, 'void')).status).toBe(409)
    expect((await decide(claim, 'refund')).body).toMatchObject({ status: 'void' })
    expect(await account()).toMatchObject({ owed: '0', balance: '10000', claims: [] })
    expect((await decide(claim, 'refund')).status).toBe(409)
    expect(await account()).toMatchObject({ balance: '10000' })
    expect((await decide('00000000-0000-4000-8000-000000000000', 'void')).status).toBe(404)
    expect((await decide(claim, 'burn')).status).toBe(400)
  })

  test('nobody else sees or decides any of it', async () => {
    const { app, customer } = await shop()
    const { user, claim } = await customer()
    for (const path of ['/payments/admin/accounts', '/payments/admin/claims']) {
      expect((await user.get(path)).status).toBe(403)
      expect((await app.get(path)).status).toBe(401)
    }
    const body = { action: 'void', reason: 'Mine', did: user.did, amount: '1' }
    for (const path of ['/payments/admin/credit', `/payments/admin/claims/${claim}`])
      expect((await user.post(path, body)).status).toBe(403)
    expect((await user.get('/payments/account')).body).toMatchObject({ owed: '10000' })
  })
})

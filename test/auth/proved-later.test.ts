import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { expect, it, onTestFinished, vi } from 'vitest'
import { scriptedModel, testApp } from '#core/testing'
import { createWallet } from '../../core/testing/wallet.ts'
import { Client } from '../../core/runtime/store/postgres.ts'
import { onPostgres } from '../support/each-database.ts'

const env = { ORACLE_MNEMONIC: 'a mnemonic that only this test of revoked devices knows' }

const known = randomUUID()

/** A message that a device may send, and what comes of it when its user has taken the device away a moment before. */
const sent: readonly (readonly [string, (session: string) => [string, object, object?]])[] = [
  ['a message', (session) => [session, { message: 'Hello' }]],
  ['a stream', (session) => [session, { message: 'Hello', stream: true }]],
  ['nothing that is a message', (session) => [session, { words: 'Hello' }]],
  ['a message into no session', () => ['none', { message: 'Hello' }]],
  ['the first message of a session', () => [randomUUID(), { message: 'Hi', newSession: true }]],
  ['a message again', (session) => [session, { message: 'Hello', requestId: known }]],
  ['a message under a key', (session) => [session, { message: 'A' }, { 'idempotency-key': 'k' }]],
]

/** Whether a statement makes a session, looks for revoked tokens, or tells the pages of a user. */
const tellsOrProves = (text: string): boolean =>
  /kernel_(user_|revocations|begin_run)|insert into kernel_sessions/.test(text)

/** The statements that a request asks the database, with their values. */
async function statementsOf(
  request: () => Promise<{ readonly status: number }>,
  status: number,
): Promise<string[]> {
  const query = vi.spyOn(Client.prototype, 'query')
  try {
    expect((await request()).status).toBe(status)
    return query.mock.calls.map(([text, values]) => `${text} ${JSON.stringify(values)}`)
  } finally {
    vi.restoreAllMocks()
  }
}

await onPostgres('a token that another server has revoked', (where) => {
  it('begins no turn and leaves nothing, though it was good a moment ago and nothing asks before the turn', async () => {
    const database = new pg.Pool({ connectionString: where.databaseUrl, max: 1 })
    onTestFinished(() => database.end())
    await using app = await testApp({
      plugins: [],
      model: scriptedModel([{ text: 'Hello.' }, { text: 'Hello again.' }, { text: 'Hi.' }]),
      env: { ...env, DATABASE_URL: where.databaseUrl ?? '' },
    })
    const owner = await createWallet()
    const device = async () => {
      const wallet = await createWallet()
      const capability = { can: 'oracle/call', with: owner.did }
      const lent = await owner.delegate({ audience: wallet.did, capabilities: [capability] })
      const call = await wallet.invoke({ audience: app.oracleDid, capability, proofs: [lent] })
      const headers = { authorization: `Bearer ${call.text}`, 'x-auth-type': 'ucan' }
      expect((await app.get('/sessions', { headers })).status).toBe(200)
      return { headers, cid: lent.delegation.cid.toString() }
    }
    const first = await device()
    const session: string = (await app.post('/sessions', {}, first.headers)).body.sessionId
    const said = (body: object, headers: object) =>
      app.post(`/messages/${session}`, { stream: false, ...body }, { ...headers })
    expect((await said({ message: 'Hello', requestId: known }, first.headers)).status).toBe(200)

    const asked = await statementsOf(() => said({ message: 'Hello again' }, first.headers), 200)
    expect(asked.filter((text) => text.includes('kernel_revocations'))).toEqual([])
    expect(asked.filter((text) => text.includes('kernel_begin_run_2'))).toHaveLength(1)

    const inserted = expect.stringMatching(
      /insert into kernel_sessions.*kernel_revocations.*pg_notify/s,
    )
    const begun = expect.stringContaining('kernel_begin_run_2')
    const created = await statementsOf(() => app.post('/sessions', {}, first.headers), 201)
    expect(created.filter(tellsOrProves)).toEqual([inserted])
    const opening = { message: 'Hi', newSession: true, stream: false }
    const opened = await statementsOf(
      () => app.post(`/messages/${randomUUID()}`, opening, { ...first.headers }),
      200,
    )
    const atFirst = opened.filter(tellsOrProves).slice(0, 2)
    expect(atFirst).toEqual([inserted, begun])

    const kept = async () => {
      const { rows } = await database.query(`select
        (select json_agg(array[id, turns::text]) from kernel_sessions) as sessions,
        (select count(*) from kernel_runs) as runs, (select count(*) from kernel_steps) as steps,
        (select sum(turns) from kernel_turn_counts) as counted`)
      return rows
    }
    const before = await kept()
    for (const [what, request] of sent) {
      const { headers, cid } = await device()
      await database.query('insert into kernel_revocations values ($1, 9999999999)', [cid])
      const [to, body, more] = request(session)
      for (let times = 0; times < 2; times++) {
        const all = { stream: false, ...body }
        const answer = await app.post(`/messages/${to}`, all, { ...headers, ...more })
        expect([what, answer.status, answer.body.code]).toEqual([what, 401, 'UNAUTHORIZED'])
      }
    }
    const withAndWithoutKey: Record<string, string>[] = [{}, { 'idempotency-key': 'k' }]
    for (const more of withAndWithoutKey) {
      const { headers, cid } = await device()
      await database.query('insert into kernel_revocations values ($1, 9999999999)', [cid])
      for (let times = 0; times < 2; times++) {
        const answer = await app.post('/sessions', {}, { ...headers, ...more })
        expect([answer.status, answer.body.code]).toEqual([401, 'UNAUTHORIZED'])
      }
    }
    expect(await kept()).toEqual(before)
  })
})

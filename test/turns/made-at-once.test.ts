import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { expect, it, onTestFinished, vi } from 'vitest'
import { Client } from '../../core/runtime/store/postgres.ts'
import { onPostgres } from '../support/each-database.ts'
import { sayingEngine } from '../support/fake-engines.ts'
import { replica } from '../support/replica.ts'

await onPostgres('sessions that are made at once', (where) => {
  /** Asks for sessions while the table is locked, so that they come together, and gives their answers and their statements. */
  async function atOnce(dids: readonly string[], { url = where.databaseUrl, isHeld = false } = {}) {
    const database = new pg.Client(where.databaseUrl)
    await database.connect()
    onTestFinished(() => database.end())
    const here = await replica({ engine: sayingEngine(['Hello.']), ...where, databaseUrl: url })
    await here.call('POST', '/sessions', undefined, dids[0])
    const query = vi.spyOn(Client.prototype, 'query')
    onTestFinished(() => void query.mockRestore())
    const statements = () =>
      query.mock.calls.filter(([text]) => String(text).includes('insert into kernel_sessions'))
    await database.query('begin; lock table kernel_sessions in access exclusive mode')
    const asked = dids.map((did) => here.call('POST', '/sessions', undefined, did))
    await vi.waitFor(() => {
      const made = statements().flatMap(([, values]) => (values as unknown[][])[0])
      expect(made).toHaveLength(dids.length)
    }, 20_000)
    // Held, the lock outlives the statements.
    if (isHeld) await Promise.all(asked)
    const count = statements().length
    await database.query('commit')
    return { answers: await Promise.all(asked), count, here }
  }

  it('share a statement, and those of one that is stuck do not wait for it for long', async () => {
    const dids = Array.from({ length: 40 }, () => `did:key:z${randomUUID()}`)
    const { answers, count, here } = await atOnce(dids)
    expect(answers.map(({ status }) => status)).toEqual(dids.map(() => 201))
    expect(count).toBeLessThan(10)
    for (const [nth, did] of dids.entries()) {
      const { body } = await here.call('GET', '/sessions', undefined, did)
      expect(body.sessions[0].sessionId).toBe(answers[nth]?.body.sessionId)
    }
    expect(new Set(answers.map(({ body }) => body.sessionId)).size).toBe(dids.length)
  })

  it('are made without one that the database refuses', async () => {
    const bad = `did:key:zBad${randomUUID()}`
    const good = Array.from({ length: 8 }, () => `did:key:z${randomUUID()}`)
    const database = new pg.Client(where.databaseUrl)
    await database.connect()
    onTestFinished(() => database.end())
    await replica({ engine: sayingEngine(['Hello.']), ...where })
    await database.query(
      `alter table kernel_sessions add constraint no_bad check (did not like 'did:key:zBad%')`,
    )
    const dids = [...good.slice(0, 4), bad, ...good.slice(4)]
    const { answers } = await atOnce(dids)
    expect(answers.map(({ status }) => status)).toEqual(
      dids.map((did) => (did === bad ? 500 : 201)),
    )
  })

  it('fail together where their statement takes too long, each after one try', async () => {
    const dids = Array.from({ length: 6 }, () => `did:key:z${randomUUID()}`)
    const url = new URL(where.databaseUrl ?? '')
    url.searchParams.set('statement_timeout', '1500')
    const { answers, count } = await atOnce(dids, { url: url.href, isHeld: true })
    expect(answers.map(({ status }) => status)).toEqual(dids.map(() => 500))
    expect(count).toBeLessThan(4)
  })
})

import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { definePlugin, type Turns } from '#core'
import { scriptedModel, testApp } from '#core/testing'
import { onEachDatabase, onPostgres } from '../support/each-database.ts'
import { holdingEngine } from '../support/fake-engines.ts'
import { replica, type Replica, someone } from '../support/replica.ts'

const generous = { atOnce: 1000, perDay: 1000, addressFactor: 25, atOnceTotal: 1000 }
const other = 'did:key:zSomebodyElse'

const send = async (server: Replica, message = 'hold', did = someone, more: object = {}) => {
  const sessionId = await server.session(did)
  return server.call('POST', `/messages/${sessionId}`, { message, stream: false, ...more }, did)
}
/** Begins a turn and answers its status, without waiting for the turn. */
async function begin(
  server: Replica,
  did = someone,
  message = 'hold',
  session?: string,
  address = '192.0.2.1',
) {
  const sessionId = session ?? (await server.session(did))
  const turn = await server.stream(
    `/messages/${sessionId}`,
    { message },
    { Authorization: `Bearer ${did}`, 'X-Forwarded-For': address },
  )
  return { sessionId, turn, status: turn.status }
}
const refusal = (limit: string, of: string) => ({
  status: 429,
  body: { statusCode: 429, code: 'TURNS_LIMIT', details: { limit, of } },
})
const many = <T>(count: number, make: () => Promise<T>) =>
  Promise.all(Array.from({ length: count }, make))

await onEachDatabase('turns at once', (where) => {
  const start = async (limits: Partial<typeof generous>) => {
    const { engine, letGo } = holdingEngine()
    const server = await replica({
      engine,
      limits: { ...generous, ...limits },
      trustProxy: true,
      ...where,
    })
    onTestFinished(letGo)
    return { server, letGo }
  }
  const mine = () => `did:key:z${randomUUID()}`

  test('of one DID are as many as may be, however many come in one moment', async () => {
    const { server, letGo } = await start({ atOnce: 4 })
    const did = mine()
    const turns = await many(12, () => begin(server, did))
    const statuses = turns.map(({ status }) => status).sort()
    expect(statuses).toEqual([...Array(4).fill(200), ...Array(8).fill(429)])
    const refused = await send(server, 'hold', did)
    expect(refused).toMatchObject(refusal('TURNS_AT_ONCE', 'did'))
    expect(refused.body.message).toContain('4 turns under way')
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    expect((await begin(server, mine())).status).toBe(200)
    letGo()
    for (const { turn, status } of turns) if (status === 200) await turn.rest()
    expect((await begin(server, did)).status).toBe(200)
  })

  test('that are refused leave nothing behind', async () => {
    const { server } = await start({ atOnce: 1 })
    const did = mine()
    await begin(server, did)
    const sessionId = await server.session(did)
    const before = (await server.call('GET', '/sessions', undefined, did)).body
    expect((await begin(server, did, 'Hide and seek', sessionId)).status).toBe(429)
    expect((await server.call('GET', '/sessions', undefined, did)).body).toEqual(before)
    expect((await server.call('GET', `/messages/${sessionId}`, undefined, did)).body).toEqual({
      messages: [],
    })
    expect((await server.call('GET', `/sessions/${sessionId}/run`, undefined, did)).body).toEqual({
      run: null,
      waitingTurns: 0,
    })
  })

  test.each(['finished', 'failed', 'aborted', 'superseded', 'deleted'])(
    'make room when one is %s',
    async (how) => {
      const { server, letGo } = await start({ atOnce: 1, addressFactor: 1, atOnceTotal: 1 })
      const did = mine()
      for (let round = 0; round < 3; round++) {
        if (how === 'failed') {
          expect((await send(server, 'fail', did)).status).toBe(500)
          continue
        }
        const { sessionId, turn, status } = await begin(server, did)
        expect(status).toBe(200)
        if (how === 'finished') letGo()
        if (how === 'aborted') await server.call('POST', '/messages/abort', { sessionId }, did)
        if (how === 'deleted') await server.call('DELETE', `/sessions/${sessionId}`, undefined, did)
        if (how === 'superseded') {
          expect((await begin(server, did, 'quick', sessionId)).status).toBe(200)
        }
        await turn.rest()
        await expect.poll(async () => (await send(server, 'quick', did)).status).toBe(200)
      }
    },
  )

  test('never keep a user from the message that supersedes his own', async () => {
    const { server } = await start({ atOnce: 1, addressFactor: 1, atOnceTotal: 1 })
    const did = mine()
    const { sessionId } = await begin(server, did)
    for (let i = 0; i < 5; i++)
      expect((await begin(server, did, 'hold', sessionId)).status).toBe(200)
    expect((await begin(server, did)).status).toBe(429)
  })

  test('a turn that its user has stopped does not count for him while it ends', async () => {
    const { server } = await start({ atOnce: 1, addressFactor: 1 })
    const did = mine()
    const { sessionId } = await begin(server, did)
    await server.call('POST', '/messages/abort', { sessionId }, did)
    expect((await begin(server, did)).status).toBe(200)
  })

  test('a run that waits for a person does not count, nor does its continuation', async () => {
    const { server } = await start({ atOnce: 1, addressFactor: 1, atOnceTotal: 1 })
    const did = mine()
    const waiting: string[] = []
    for (let i = 0; i < 3; i++) {
      const { turn, status } = await begin(server, did, 'ask')
      expect(status).toBe(200)
      waiting.push((await turn.rest())[0]?.data.runId)
    }
    const held = await begin(server, did)
    expect(held.status).toBe(200)
    const auth = { Authorization: `Bearer ${did}` }
    for (const runId of waiting) {
      const on = await server.stream(`/runs/${runId}/resume`, { decision: 'approve' }, auth)
      expect(on.status).toBe(200)
    }
    // They hold on now, three of them beside the one that counts.
    expect((await begin(server, did)).status).toBe(429)
  })

  test('a message that is sent again finds its run and is no new turn', async () => {
    const { server, letGo } = await start({
      atOnce: 1,
      addressFactor: 1000,
      atOnceTotal: 1,
      perDay: 1,
    })
    const did = mine()
    const sessionId = await server.session(did)
    const body = { message: 'hold', requestId: randomUUID() }
    const auth = { Authorization: `Bearer ${did}` }
    const first = await server.stream(`/messages/${sessionId}`, body, auth)
    const again = await many(3, () => server.stream(`/messages/${sessionId}`, body, auth))
    for (const each of [first, ...again]) expect(each.status).toBe(200)
    letGo()
    const runs = new Set(
      (await Promise.all([first, ...again].map((each) => each.rest()))).map(
        ([event]) => event?.data.runId,
      ),
    )
    expect(runs.size).toBe(1)
    expect((await server.stream(`/messages/${sessionId}`, body, auth)).status).toBe(200)
    expect(await send(server, 'quick', did)).toMatchObject(refusal('TURNS_PER_DAY', 'did'))
  })

  test('of one address are so many times as many, whoever asks', async () => {
    const { server } = await start({ atOnce: 2, addressFactor: 2 })
    for (let i = 0; i < 4; i++) expect((await begin(server, mine())).status).toBe(200)
    const { turn, status } = await begin(server, mine())
    const body = await turn.json()
    expect({ status, body }).toMatchObject(refusal('TURNS_AT_ONCE * ADDRESS_FACTOR', 'address'))
    expect(body.message).toContain('4 turns are under way from this address')
    expect((await begin(server, mine(), 'hold', undefined, '192.0.2.2')).status).toBe(200)
  })

  test('of the server are as many as it takes', async () => {
    const { server } = await start({ atOnceTotal: 3 })
    for (let i = 0; i < 3; i++) expect((await begin(server, mine())).status).toBe(200)
    const refused = await send(server, 'hold', mine())
    expect(refused).toMatchObject(refusal('TURNS_AT_ONCE_TOTAL', 'server'))
    expect(refused.body.message).toContain('3 turns are under way on this server')
  })

  test('that a plugin starts count for the DID and the server, and for no address', async () => {
    const { server } = await start({ atOnce: 2, addressFactor: 1 })
    const dids = [mine(), mine(), mine(), mine()]
    const started = dids.map((did) =>
      server.runs.turnsOf('post').start({ user: { did }, message: 'hold' }),
    )
    for (const turn of started) await turn[Symbol.asyncIterator]().next()
    const [did = ''] = dids
    await server.runs
      .turnsOf('post')
      .start({ user: { did }, message: 'hold' })
      [Symbol.asyncIterator]()
      .next()
    const third = server.runs.turnsOf('post').start({ user: { did }, message: 'hold' })
    await expect(third[Symbol.asyncIterator]().next()).rejects.toMatchObject({
      code: 'TURNS_LIMIT',
      details: { of: 'did' },
    })
  })
})

await onEachDatabase('turns of a day', (where) => {
  const limited = (perDay: number, addressFactor = 25) =>
    replica({
      engine: holdingEngine().engine,
      limits: { ...generous, perDay, addressFactor },
      trustProxy: true,
      ...where,
    })

  test('are counted for the DID, over all its sessions and also those it has deleted', async () => {
    const server = await limited(3)
    const did = `did:key:z${randomUUID()}`
    for (let i = 0; i < 3; i++) {
      const { sessionId, turn, status } = await begin(server, did, 'quick')
      expect(status).toBe(200)
      await turn.rest()
      await server.call('DELETE', `/sessions/${sessionId}`, undefined, did)
    }
    const refused = await send(server, 'quick', did)
    expect(refused).toMatchObject(refusal('TURNS_PER_DAY', 'did'))
    const wait = Number(refused.headers.get('retry-after'))
    expect(wait).toBeGreaterThan(0)
    expect(wait).toBeLessThanOrEqual(86_401)
    for (let i = 0; i < 3; i++) await send(server, 'quick', did) // what is refused is not counted
    expect((await send(server, 'quick', `did:key:z${randomUUID()}`)).status).toBe(200)
    const { rows } = await server.store.db
      .withTables<{ kernel_turn_counts: { who: string; turns: number } }>()
      .selectFrom('kernel_turn_counts')
      .select('turns')
      .where('who', '=', did)
      .execute()
      .then((found) => ({ rows: found }))
    expect(rows).toEqual([{ turns: 3 }])
  })

  test('are counted for the address, whoever asks', async () => {
    const server = await limited(2, 2)
    const address = `2001:db8:${randomUUID().slice(0, 4)}:${randomUUID().slice(0, 4)}::`
    const turn = async (host: number) => {
      const did = `did:key:z${randomUUID()}`
      const { turn, status } = await begin(server, did, 'quick', undefined, `${address}${host}`)
      return status === 200 ? 'begun' : `${status} ${(await turn.json()).details.of}`
    }
    const outcomes: string[] = []
    for (let i = 0; i < 6; i++) outcomes.push(await turn(i + 1))
    expect(outcomes).toEqual([...Array(4).fill('begun'), ...Array(2).fill('429 address')])
  })
})

await onPostgres('replicas', (where) => {
  const two = (limits: Partial<typeof generous>) => {
    const { engine, letGo } = holdingEngine()
    onTestFinished(letGo)
    const options = { engine, limits: { ...generous, ...limits }, ...where }
    return Promise.all([replica(options), replica(options)])
  }

  test('let one DID have no more turns at once than one server would', async () => {
    const [one, two_] = await two({ atOnce: 4 })
    const did = `did:key:z${randomUUID()}`
    const turns = await Promise.all([
      many(8, () => begin(one, did)),
      many(8, () => begin(two_, did)),
    ])
    const begun = turns.flat().filter(({ status }) => status === 200)
    expect(begun).toHaveLength(4)
    expect((await send(one, 'quick', did)).status).toBe(429)
    expect((await send(two_, 'quick', did)).status).toBe(429)
  })

  test('count the turns of a day together, and a new one goes on counting', async () => {
    const [one, two_] = await two({ perDay: 3 })
    const did = `did:key:z${randomUUID()}`
    expect((await send(one, 'quick', did)).status).toBe(200)
    expect((await send(two_, 'quick', did)).status).toBe(200)
    await one.close()
    expect((await send(two_, 'quick', did)).status).toBe(200)
    const [third] = await two({ perDay: 3 })
    expect(await send(third, 'quick', did)).toMatchObject(refusal('TURNS_PER_DAY', 'did'))
  })

  test('give the place back when a turn is taken over and ends elsewhere', async () => {
    const { engine, letGo } = holdingEngine()
    onTestFinished(letGo)
    const options = { engine, limits: { ...generous, atOnce: 1 }, leaseMs: 600, ...where }
    const first = await replica(options)
    const did = `did:key:z${randomUUID()}`
    await begin(first, did)
    const second = await replica(options)
    await first.close()
    expect((await send(second, 'quick', did)).status).toBe(429)
    await sleep(300)
    await expect
      .poll(
        async () => {
          letGo()
          return (await send(second, 'quick', did)).status
        },
        { timeout: 10_000 },
      )
      .toBe(200)
  }, 20_000)
})

describe('a server', () => {
  test('takes the limits from its environment, and refuses before anything is streamed', async () => {
    let turns: Turns | undefined
    const starter = definePlugin({
      name: 'starter',
      summary: 'Starts turns.',
      setup: (boot) => void (turns = boot.turns),
    })
    const model = scriptedModel(['One.', 'Two.', 'Three.'])
    await using app = await testApp({ plugins: [starter], model, env: { TURNS_PER_DAY: '2' } })
    const user = await app.user()
    const { sessionId } = (await user.post('/sessions')).body
    for (let i = 0; i < 2; i++)
      expect((await user.post(`/messages/${sessionId}`, { message: 'Hi' })).status).toBe(200)
    const refused = await user.post(`/messages/${sessionId}`, { message: 'Hi' })
    expect(refused).toMatchObject(refusal('TURNS_PER_DAY', 'did'))
    expect(refused.headers.get('content-type')).toContain('application/json')
    const started = turns?.start({ user: { did: user.did }, message: 'Hi' })
    await expect(started?.[Symbol.asyncIterator]().next()).rejects.toMatchObject({
      code: 'TURNS_LIMIT',
    })
    expect((await (await app.user(other)).say('Hi')).status).toBe('finished')
  })
})

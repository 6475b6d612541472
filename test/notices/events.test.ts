import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { scriptedModel, testApp, type TestApp, type TestUser } from '#core/testing'
import { onEachDatabase, onPostgres } from '../support/each-database.ts'
import { type EventStream, openStream, type Seen } from '../support/event-stream.ts'
import { connect, tokensOf } from '../support/sockets.ts'

const mnemonic = 'words that these replicas share'

/** A plugin whose jobs fail: the user of a dead job is told so. */
const helper = definePlugin({
  name: 'helper',
  summary: 'Fails at what it is asked for.',
  jobs: {
    fail: {
      input: z.object({ n: z.number() }),
      attempts: 1,
      run: (_, { job }) => job.giveUp('This cannot be done.'),
    },
  },
  routes: {
    'POST /fail': {
      auth: 'public',
      input: z.object({ did: z.string(), from: z.number(), to: z.number() }),
      async run({ did, from, to }, { jobs }) {
        for (let n = from; n < to; n++) await jobs.later('fail', { n }, { user: did })
        return { asked: to - from }
      },
    },
  },
})

async function server(where: { databaseUrl?: string }, env: Record<string, string> = {}) {
  const app = await testApp({
    plugins: [helper],
    model: scriptedModel(['Hello.']),
    env: {
      ...(where.databaseUrl !== undefined && { DATABASE_URL: where.databaseUrl }),
      ORACLE_MNEMONIC: mnemonic,
      ...env,
    },
  })
  onTestFinished(() => app.close())
  return app
}

const fail = async (app: TestApp, { did }: TestUser, from: number, to: number) =>
  expect((await app.post('/fail', { did, from, to })).status).toBe(200)

async function events(
  app: TestApp,
  user: TestUser,
  last?: number | string,
  query = '',
): Promise<EventStream> {
  const headers = await user.wallet.headers(app.oracleDid)
  if (last !== undefined) headers['Last-Event-ID'] = String(last)
  const stream = await openStream(`${app.url}/events${query}`, headers)
  onTestFinished(() => stream.cut())
  return stream
}

/** Reads events until so many notices have come; returns the numbers of the notices. */
async function notices(stream: EventStream, many: number): Promise<number[]> {
  const ids: number[] = []
  while (ids.length < many) {
    const seen = await stream.next()
    if (!seen) throw new Error(`The stream ended after ${ids.length} notices.`)
    if (seen.event !== 'notice') continue
    expect(seen.data.id).toBe(seen.id)
    ids.push(seen.data.id)
  }
  return ids
}

/** Every notice of the user by the list, the oldest first. */
async function listed(user: TestUser): Promise<number[]> {
  const ids: number[] = []
  for (let before = ''; ;) {
    const { status, body } = await user.get(`/notices?limit=3${before}`)
    expect(status).toBe(200)
    if (body.notices.length === 0) return ids.reverse()
    for (const { id } of body.notices) ids.push(id)
    before = `&before=${ids.at(-1)}`
  }
}

async function userSocket(app: TestApp, user: TestUser, more: object = {}) {
  const socket = connect(`${app.url}/ws`)
  await socket.opened
  socket.send({ type: 'auth', auth: await tokensOf(user, app.oracleDid), user: true, ...more })
  const payloads = () =>
    socket.heard.flatMap((text) => {
      const { eventName, payload } = JSON.parse(text)
      return eventName === 'notice' ? [payload.id as number] : []
    })
  return { ...socket, payloads }
}

await onEachDatabase('the events of a user', (where) => {
  it('bring a notice of a dead job, which the list has too, to nobody else', async () => {
    const app = await server(where)
    const [user, other] = [await app.user(), await app.user()]
    const mine = await events(app, user)
    const theirs = await events(app, other)
    expect((await mine.next())?.event).toBe('connected')
    await fail(app, user, 0, 1)
    const seen = await mine.next()
    const { body } = await user.get('/notices')
    expect(body).toEqual({
      unread: 1,
      notices: [
        {
          id: seen?.id,
          kind: 'job',
          plugin: 'helper',
          title: 'helper',
          text: 'A task of helper could not be done: fail.',
          createdAt: expect.stringMatching(/^\d{4}-/),
        },
      ],
    })
    expect(seen).toMatchObject({ event: 'notice', data: body.notices[0] })
    expect((await other.get('/notices')).body).toEqual({ notices: [], unread: 0 })
    // What the other user hears first is his own.
    await fail(app, other, 0, 1)
    const heard = await theirs.until(({ event }) => event === 'notice')
    expect(heard.map(({ event }) => event)).toEqual(['connected', 'notice'])
    expect((await other.get('/notices')).body.notices[0].id).toBe(heard.at(-1)?.id)
  })

  it('tell what goes on in all sessions, with titles and without words', async () => {
    const app = await server(where)
    const user = await app.user()
    const stream = await events(app, user)
    await stream.next()
    const { sessionId } = (await user.post('/sessions')).body
    await user.say('Good morning', { sessionId })
    const seen = await stream.until(({ event, data }) => event === 'run' && data.state === 'ended')
    expect(seen.map(({ event, data }) => [event, data.change ?? data.state])).toEqual([
      ['session', 'made'],
      ['session', 'renamed'],
      ['run', 'began'],
      ['run', 'ended'],
    ])
    for (const { id, data } of seen) {
      expect(id).toBeUndefined()
      expect(data.sessionId).toBe(sessionId)
      expect(JSON.stringify(data)).not.toContain('Hello')
    }
    expect(seen.at(-1)?.data).toMatchObject({ title: 'Good morning', status: 'finished' })
    await user.delete(`/sessions/${sessionId}`)
    expect(await stream.next()).toMatchObject({ data: { sessionId, change: 'deleted' } })
  })

  it('reach two browsers and a socket once each, in order, however often they are cut', async () => {
    const app = await server(where)
    const user = await app.user()
    const many = 24
    const socket = await userSocket(app, user)
    const whole = await events(app, user)
    const first = await events(app, user)
    expect((await first.next())?.event).toBe('connected')
    await whole.next()
    await socket.find((text) => (text.includes('"connected"') ? true : undefined))
    await fail(app, user, 0, many / 2)
    const cut = await notices(first, 5)
    first.cut()
    await fail(app, user, many / 2, many)
    for (const step of [7, 6, 6]) {
      const again = await events(app, user, cut.at(-1))
      cut.push(...(await notices(again, step)))
      again.cut()
    }
    const all = await listed(user)
    expect(all).toHaveLength(many)
    expect(new Set(all).size).toBe(many)
    expect([...all].sort((a, b) => a - b)).toEqual(all)
    expect(cut).toEqual(all)
    expect(await notices(whole, many)).toEqual(all)
    await expect.poll(() => socket.payloads().length).toBe(many)
    expect(socket.payloads()).toEqual(all)
    const back = await userSocket(app, user, { after: all[9] })
    await expect.poll(() => back.payloads().length).toBe(many - 10)
    expect(back.payloads()).toEqual(all.slice(10))
  })

  it('go on from any number: one of the future, of another user, none, and what is no number', async () => {
    const app = await server(where)
    const user = await app.user()
    await fail(app, user, 0, 3)
    await expect.poll(async () => (await listed(user)).length).toBe(3)
    const all = await listed(user)
    const newest = all.at(-1)!
    // A number of the future hides nothing that is still to come.
    const future = await events(app, user, Number.MAX_SAFE_INTEGER)
    expect(await future.next()).toMatchObject({ event: 'connected', id: newest })
    expect(await notices(await events(app, user, 0), 3)).toEqual(all)
    expect(await notices(await events(app, user, all[0]), 2)).toEqual(all.slice(1))
    expect(await notices(await events(app, user, undefined, `?after=${all[1]}`), 1)).toEqual([
      newest,
    ])
    // Another user's number brings that user nothing of these notices.
    const other = await app.user()
    const theirs = await events(app, other, all[0])
    expect(await theirs.next()).toMatchObject({ event: 'connected', id: 0 })
    await fail(app, other, 0, 1)
    await fail(app, user, 3, 4)
    const [own] = await notices(theirs, 1)
    expect((await listed(other))[0]).toBe(own)
    await notices(future, 1)
    for (const bad of ['-1', 'x', '1e3', '99999999999999999999']) {
      const refused = await events(app, user, bad)
      expect([refused.status, (await refused.json()).code]).toEqual([400, 'BAD_REQUEST'])
    }
    expect((await user.get('/events?after=-1')).status).toBe(400)
    expect((await app.get('/events')).status).toBe(401)
    const socket = await userSocket(app, user, { after: 'x' })
    expect((await socket.closed).code).toBe(1007)
  })

  it('come with those of a session, on a socket that asks for both', async () => {
    const app = await server(where)
    const user = await app.user()
    const { sessionId } = (await user.post('/sessions')).body
    const both = await userSocket(app, user, { sessionId })
    await both.find((text) => (text.includes('"connected"') ? true : undefined))
    await user.say('Hi', { sessionId })
    const named = (name: string) => (text: string) => {
      const { eventName, payload } = JSON.parse(text)
      return eventName === name ? payload : undefined
    }
    expect(await both.find(named('message'))).toMatchObject({ sessionId, content: 'Hello.' })
    await fail(app, user, 0, 1)
    expect(await both.find(named('notice'))).toMatchObject({ kind: 'job' })
    // Neither a session nor the user: there is nothing to hear of.
    const neither = connect(`${app.url}/ws`)
    await neither.opened
    neither.send({ type: 'auth', auth: await tokensOf(user, app.oracleDid) })
    expect((await neither.closed).code).toBe(4403)
    const foreign = await userSocket(app, await app.user(), { sessionId })
    expect((await foreign.closed).code).toBe(4403)
  })

  it('end with the token that opened them', async () => {
    const app = await server(where)
    const user = await app.user()
    const { text } = await user.wallet.invoke({ audience: app.oracleDid, lifetime: 3 })
    const stream = await openStream(`${app.url}/events`, {
      Authorization: `Bearer ${text}`,
      'X-Auth-Type': 'ucan',
    })
    const seen: Seen[] = await stream.rest()
    expect(seen.map(({ event }) => event)).toEqual(['connected'])
  })

  it('count as streams of their address', async () => {
    const app = await server(where, { STREAMS_PER_ADDRESS: '2' })
    const user = await app.user()
    const open = [await events(app, user), await events(app, user)]
    for (const stream of open) await stream.next()
    const third = await events(app, user)
    expect([third.status, (await third.json()).code]).toEqual([429, 'TOO_MANY_CONNECTIONS'])
    open[0]?.cut()
    await expect.poll(async () => (await events(app, user)).status).toBe(200)
  })
})

await onPostgres('two servers with one database', (where) => {
  it('bring every notice to every reader once, whichever server made it and whichever is read', async () => {
    const [here, there] = [await server(where), await server(where)]
    const user = await here.user()
    const many = 30
    const near = await events(here, user)
    let far = await events(there, user)
    await near.next()
    const begun = await far.next()
    const socket = await userSocket(there, user)
    await socket.find((text) => (text.includes('"connected"') ? true : undefined))
    const asking = (async () => {
      for (let n = 0; n < many; n += 2) {
        await Promise.all([fail(here, user, n, n + 1), fail(there, user, n + 1, n + 2)])
        await sleep(5)
      }
    })()
    const moving: number[] = []
    for (let last = begun?.id, at = there; moving.length < many; at = at === here ? there : here) {
      moving.push(...(await notices(far, Math.min(7, many - moving.length))))
      last = moving.at(-1)
      far.cut()
      far = await events(at, user, last)
    }
    await asking
    const all = await listed(user)
    expect(all).toHaveLength(many)
    expect(moving).toEqual(all)
    expect(await notices(near, many)).toEqual(all)
    await expect.poll(() => socket.payloads().length).toBe(many)
    expect(socket.payloads()).toEqual(all)
  })
})

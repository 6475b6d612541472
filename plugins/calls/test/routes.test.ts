import { sql } from 'kysely'
import { expect, onTestFinished, test } from 'vitest'
import { definePlugin, type Database } from '#core'
import { scriptedModel, testApp } from '#core/testing'
import { callApp } from '../../../test/support/call-app.ts'
import { call, Page } from '../../../test/support/call-page.ts'
import { onPostgres } from '../../../test/support/each-database.ts'
import { root } from '../../../test/support/process.ts'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import calls from '../index.ts'

const patient = { timeout: 45_000, interval: 50 }
const mnemonic = 'legal winner thank year wave sausage worth useful legal winner thank yellow'
const captionsAlone = { CALLS_VOICE: 'none', CALLS_HEARING: 'typed' }
const aTime = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/)

test('GET /calls says everything that a page needs before it calls, and what was never met', async () => {
  const { user } = await callApp([], {
    env: {
      ...{ CALLS_HEARING: 'typed', CALLS_VOICE: 'none', CALLS_VIDEO: 'off' },
      ...{ CALLS_MINUTES: '7', CALLS_MINUTES_PER_DAY: '11', CALLS_IDLE_SECONDS: '33' },
    },
  })
  const { status, body } = await user.get('/calls')
  expect(status).toBe(200)
  expect(body).toEqual({
    hearing: { by: 'typed', where: 'device', name: 'typed' },
    voice: { by: 'none', where: 'device', name: 'none', voices: [] },
    video: false,
    iceServers: [],
    limits: { minutes: 7, minutesPerDay: 11, idleSeconds: 33 },
    minutesLeft: 11,
    transports: [{ name: 'direct', tested: true }],
    met: ['Chromium'],
    notMet: expect.arrayContaining(['other browsers', 'real NATs', 'a LiveKit server']),
    calls: [],
  })
  // The pages for people say the same, name by name.
  for (const page of ['docs/calls.md', 'plugins/calls/README.md']) {
    const text = readFileSync(join(root, page), 'utf8').replace(/\s+/g, ' ')
    for (const name of [...body.met, ...body.notMet]) expect(text, page).toContain(name)
  }
  const readme = readFileSync(join(root, 'README.md'), 'utf8').replace(/\s+/g, ' ')
  for (const name of ['Chromium', 'other browsers', 'real NATs', 'a LiveKit server'])
    expect(readme).toContain(name)
  expect((await user.get('/calls', { headers: { authorization: '' } })).status).toBe(401)
})

test('a call from POST to DELETE, with every field, as a row without a word of it', async () => {
  let db: Database | undefined
  const insider = definePlugin({
    name: 'insider',
    summary: 'Reads every table.',
    visibility: 'silent',
    setup: (boot) => void (db = boot.db),
  })
  const { user, sessionId } = await callApp(['It is sunny.'], {
    plugins: [insider],
    env: captionsAlone,
  })
  const before = Date.now()
  const { page, callId, answer } = await call(user, sessionId, { language: 'en', agentVoice: 'en' })
  expect(answer).toEqual({
    callId: expect.stringMatching(/^[0-9a-f-]{36}$/),
    sdp: expect.stringMatching(/^v=0\r\n/),
    proof: { did: expect.any(String), key: expect.any(String), signature: expect.any(String) },
    expiresAt: aTime,
  })
  const waitsMs = Date.parse(answer.expiresAt) - before
  expect(waitsMs).toBeGreaterThan(15_000)
  expect(waitsMs).toBeLessThan(60_000)
  const view = async () => (await user.get(`/calls/${callId}`)).body
  await expect.poll(async () => (await view()).callStatus, patient).toBe('active')
  const active = {
    ...{ callId, sessionId, callType: 'audio', callStatus: 'active' },
    ...{ callStartedAt: aTime, seconds: expect.any(Number) },
  }
  expect(await view()).toEqual(active)
  expect((await user.get('/calls')).body.calls).toEqual([active])
  page.send({ type: 'say', id: 'a', text: 'How is the weather?' })
  await expect.poll(() => page.said, patient).toBe('It is sunny.')
  await expect.poll(() => page.of('state').at(-1)?.state, patient).toBe('listening')
  const told = await user.patch(`/calls/${callId}/update`, {
    callStatus: 'active',
    callStartedAt: '2099-01-01T00:00:00.000Z',
  })
  expect(told.body).toEqual(active)
  const ended = await user.delete(`/calls/${callId}`)
  expect(ended).toMatchObject({ status: 200 })
  expect(ended.body).toEqual({
    ...active,
    ...{ callStatus: 'ended', callEndedAt: aTime, endedBy: 'user' },
  })
  // Whatever is said of it afterwards: it is over, and it was the person.
  expect(await user.delete(`/calls/${callId}`)).toMatchObject({ status: 200, body: ended.body })
  const again = await user.patch(`/calls/${callId}/update`, { callStatus: 'active' })
  expect(again).toMatchObject({ status: 200, body: ended.body })
  expect(await view()).toEqual(ended.body)
  await expect
    .poll(async () => {
      const { rows } = await sql<object>`select * from calls_calls`.execute(db!)
      return rows
    }, patient)
    .toEqual([
      {
        ...{ id: callId, did: user.did, session_id: sessionId, type: 'audio', state: 'ended' },
        ...{ owner: expect.any(String), lease_until: expect.any(Number), slot: 1, consent: null },
        seen_at: expect.any(Number),
        ...{ created_at: expect.any(Number), started_at: expect.any(Number) },
        ...{ ended_at: expect.any(Number), ended_by: 'user', seconds_before: 0 },
        ...{ minutes_charged: 0, utterances: 1, interruptions: 0 },
        // One more than there are: all of it was said.
        ...{ spoken_run: expect.any(String), spoken_chars: 'It is sunny.'.length + 1 },
      },
    ])
})

test('an offer whose page never comes is lost after 20 seconds', async () => {
  const { user, sessionId } = await callApp([], { env: captionsAlone })
  const sdp = await new Page().offer()
  const { body } = await user.post('/calls', { sessionId, callType: 'audio', sdp })
  const view = async () => (await user.get(`/calls/${body.callId}`)).body
  expect(await view()).toMatchObject({ callStatus: 'pending', seconds: 0 })
  await expect
    .poll(view, patient)
    .toMatchObject({ callStatus: 'ended', endedBy: 'lost', seconds: 0 })
  expect((await user.get('/calls')).body.calls).toEqual([])
})

test('ten calls a minute come from one address, and the eleventh is told when to come again', async () => {
  const { user, sessionId } = await callApp([], { env: captionsAlone })
  const statuses: number[] = []
  const post = () => user.post('/calls', { sessionId, callType: 'audio', sdp: 'no offer' })
  for (let i = 0; i < 10; i++) statuses.push((await post()).status)
  expect(statuses).toEqual(Array.from({ length: 10 }, () => 400))
  const refused = await post()
  expect(refused.status).toBe(429)
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
})

test('what calls are not there for, a call of video without a camera section too, is refused by name', async () => {
  const { user, sessionId } = await callApp([], { env: { ...captionsAlone, CALLS_VIDEO: 'off' } })
  const sdp = await new Page().offer()
  const post = (body: object) => user.post('/calls', { sessionId, sdp, ...body })
  expect(await post({ callType: 'video' })).toMatchObject({
    ...{ status: 403, body: { code: 'CALLS_VIDEO_OFF', hint: expect.any(String) } },
  })
  const other = await callApp([], { env: captionsAlone })
  const wanted = { sessionId: other.sessionId, callType: 'video', sdp }
  expect(await other.user.post('/calls', wanted)).toMatchObject({
    ...{ status: 400, body: { code: 'SDP_INVALID' } },
  })
})

await onPostgres('two replicas', ({ databaseUrl = '' }) => {
  test('a call is ended from the one that does not carry it', async () => {
    const replica = async () => {
      const app = await testApp({
        plugins: [calls],
        model: scriptedModel([]),
        env: {
          ...{ NODE_ENV: 'test', DATABASE_URL: databaseUrl, ORACLE_MNEMONIC: mnemonic },
          ...captionsAlone,
        },
      })
      onTestFinished(() => app.close())
      return app
    }
    const [one, two] = [await replica(), await replica()]
    const user = await one.user('amina')
    const elsewhere = await two.user('amina')
    const { sessionId } = (await user.post('/sessions', {})).body
    const { page, callId } = await call(user, sessionId)
    await expect.poll(() => page.of('ready').length, patient).toBe(1)
    const from = performance.now()
    const ended = await elsewhere.delete(`/calls/${callId}`)
    expect(ended).toMatchObject({ status: 200, body: { callStatus: 'ended', endedBy: 'user' } })
    await expect.poll(() => page.of('ended'), patient).toEqual([{ type: 'ended', by: 'user' }])
    console.log(`told at the other replica after ${Math.round(performance.now() - from)} ms`)
    expect((await user.delete(`/calls/${callId}`)).body).toEqual(ended.body)
    expect(
      (await two.user('another').then((other) => other.delete(`/calls/${callId}`))).status,
    ).toBe(404)
  })
})

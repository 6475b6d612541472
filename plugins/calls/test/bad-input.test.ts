import { randomUUID } from 'node:crypto'
import { RTCPeerConnection } from 'werift'
import { expect, onTestFinished, test } from 'vitest'
import { testApp, type TestResponse } from '#core/testing'
import { callApp } from '../../../test/support/call-app.ts'
import { call, Page } from '../../../test/support/call-page.ts'
import calls from '../index.ts'

const proxied = { TRUST_PROXY_ENABLED: 'true' }
/** Each caller comes from another address: the limit of calls a minute is no part of these tests. */
let callers = 0
const from = () => ({ 'x-forwarded-for': `198.51.100.${++callers % 250}` })

/** A section of an offer, from its first line on. */
const sectionOf = (sdp: string, kind: string) =>
  `m=${sdp.split(/^m=/m).find((part) => part.startsWith(kind)) ?? ''}`
const video = (codec: string) =>
  `m=video 9 UDP/TLS/RTP/SAVPF 96\r\na=rtpmap:96 ${codec}/90000\r\na=sendonly\r\na=setup:actpass\r\n`

/** What another end answers to an offer. */
async function answerOf(offer: string): Promise<string> {
  const other = new RTCPeerConnection({ iceServers: [], iceUseIpv6: false })
  onTestFinished(() => other.close())
  await other.setRemoteDescription({ type: 'offer', sdp: offer })
  await other.setLocalDescription(await other.createAnswer())
  return other.localDescription?.sdp ?? ''
}

test('what is no offer is refused with its reason, and a call is possible after all of them', async () => {
  const { app, user, sessionId } = await callApp([], { env: proxied })
  const offer = await new Page().offer()
  const own = (await (await app.user()).post('/sessions', {})).body.sessionId
  const deleted = (await user.post('/sessions', {})).body.sessionId
  await user.delete(`/sessions/${deleted}`)
  const post = (more: Record<string, unknown>) =>
    user.post('/calls', { sessionId, callType: 'audio', sdp: offer, ...more }, from())
  const refused: [Record<string, unknown>, number, string][] = [
    [{ sdp: '' }, 400, 'INVALID_INPUT'],
    [{ sdp: 'a'.repeat(65_537) }, 400, 'INVALID_INPUT'],
    [{ sdp: 'not an offer' }, 400, 'SDP_INVALID'],
    [{ sdp: offer.replaceAll('actpass', 'active') }, 400, 'SDP_INVALID'],
    [{ sdp: offer.replace('m=audio', 'm=text') }, 400, 'SDP_INVALID'],
    [{ sdp: 'v=0\r\n\u0000' }, 400, 'UNSAFE_TEXT'],
    [{ agentVoice: '\u0000' }, 400, 'UNSAFE_TEXT'],
    [{ callType: 'hologram' }, 400, 'INVALID_INPUT'],
    [{ sessionId: 'no session' }, 404, 'NOT_FOUND'],
    [{ sessionId: randomUUID() }, 404, 'NOT_FOUND'],
    [{ sessionId: '' }, 400, 'INVALID_INPUT'],
    [{ replaces: randomUUID() }, 404, 'NOT_FOUND'],
    [{ sdp: offer.replace(/^m=application(?:.|\n)*/m, '') }, 400, 'SDP_INVALID'],
    [{ sdp: offer.replace(/^a=fingerprint:.*\r\n/gm, '') }, 400, 'SDP_INVALID'],
    [{ sdp: offer.replace(/^a=fingerprint:sha-256/gm, 'a=fingerprint:sha-1') }, 400, 'SDP_INVALID'],
    [{ sdp: offer.replaceAll('actpass', 'passive') }, 400, 'SDP_INVALID'],
    [{ sdp: offer.replace(/^a=mid:0/m, 'a=ice-lite\r\na=mid:0') }, 400, 'SDP_INVALID'],
    [{ sdp: offer.replace('opus/48000/2', 'PCMU/8000') }, 400, 'SDP_INVALID'],
    [{ sdp: offer + sectionOf(offer, 'audio') }, 400, 'SDP_INVALID'],
    [{ sdp: offer + video('VP8').repeat(3), callType: 'video' }, 400, 'SDP_INVALID'],
    [{ sdp: offer + video('H264'), callType: 'video' }, 400, 'SDP_INVALID'],
    [{ sdp: await answerOf(offer) }, 400, 'SDP_INVALID'],
    [{ sessionId: own }, 404, 'NOT_FOUND'],
    [{ sessionId: deleted }, 404, 'NOT_FOUND'],
    ...['a b', '--help', 'x;y', '../x', 'x'.repeat(200), ''].flatMap(
      (word): [Record<string, unknown>, number, string][] => [
        [{ agentVoice: word }, 400, 'INVALID_INPUT'],
        [{ language: word }, 400, 'INVALID_INPUT'],
      ],
    ),
  ]
  for (const [more, status, code] of refused) {
    const answer = await post(more)
    expect([answer.status, answer.body.code], JSON.stringify(more).slice(0, 100)).toEqual([
      status,
      code,
    ])
  }
  const candidates = Array.from(
    { length: 1_000 },
    (_, i) => `a=candidate:${i} 1 udp 1 127.0.0.1 5432 typ host`,
  )
  const many = offer.replace(/^a=mid:0.*$/m, (line) => `${line}\r\n${candidates.join('\r\n')}`)
  expect(many.length).toBeLessThan(65_536)
  const stands = await post({ sdp: many })
  expect(stands.status).toBe(201)
  await user.delete(`/calls/${stands.body.callId}`)
  const begun = await post({})
  expect(begun.status).toBe(201)
  // The same offer again: a call of this person is under way, and the first one stands.
  expect(await post({})).toMatchObject({ status: 409, body: { code: 'CALL_ACTIVE' } })
  expect((await user.get(`/calls/${begun.body.callId}`)).body.callStatus).toBe('pending')
})

test('the calls and sessions of others are not there', async () => {
  const { app, user, sessionId } = await callApp([], { env: proxied })
  const { callId } = await call(user, sessionId)
  const stranger = await app.user()
  const own = (await stranger.post('/sessions', {})).body.sessionId
  const sdp = await new Page().offer()
  const post = (more: Record<string, unknown>) =>
    stranger.post('/calls', { sessionId: own, callType: 'audio', sdp, ...more }, from())
  const told = ({ status, body: { code, message } }: TestResponse) => ({ status, code, message })
  const unknown = told(await post({ replaces: randomUUID() }))
  expect(unknown.status).toBe(404)
  expect(told(await post({ replaces: callId }))).toEqual(unknown)
  expect((await post({ sessionId })).status).toBe(404)
  const end = { callStatus: 'ended' }
  const ids = ['$event:room@!x:example.org', `${callId}/`, '../calls', '..', 'a/b', '.']
  const faulty = ['%00', 'a'.repeat(101), '%E0%A4%A']
  for (const id of [callId, randomUUID(), ...ids, ...ids.map(encodeURIComponent), ...faulty])
    for (const asked of [
      () => stranger.get(`/calls/${id}`),
      () => stranger.delete(`/calls/${id}`),
      () => stranger.patch(`/calls/${id}/update`, end),
    ]) {
      const { status, body } = await asked()
      // `fetch` takes dots out of a path: `/calls/..` asks for `/`, and `/calls/.` for the list of the caller.
      if (status === 200) expect(JSON.stringify(body), id).not.toContain(callId)
      else expect(status, id).toBeOneOf(faulty.includes(id) ? [400, 404] : [404, 405])
    }
  expect((await user.get(`/calls/${callId}`)).body.callStatus).toBe('active')
  const nobodys = await stranger.delete(`/calls/${randomUUID()}`)
  expect(told(await stranger.delete(`/calls/${callId}`))).toEqual(told(nobodys))
  expect((await user.get(`/calls/${callId}`)).body.callStatus).toBe('active')
})

test('the times of a call are the server’s; what has ended does not come back', async () => {
  const { user, sessionId } = await callApp([], { env: proxied })
  const { callId } = await call(user, sessionId)
  const active = async () => (await user.get(`/calls/${callId}`)).body.callStatus
  await expect.poll(active, { timeout: 20_000 }).toBe('active')
  const update = (body: Record<string, unknown>) => user.patch(`/calls/${callId}/update`, body)
  expect((await update({ callStatus: 'pending' })).status).toBe(400)
  expect((await update({ callStatus: 'active', callStartedAt: 'yesterday' })).status).toBe(400)
  const told = await update({ callStatus: 'active', callStartedAt: '1970-01-01T00:00:00.000Z' })
  expect(told.body.callStartedAt).toMatch(/^2(?!099)/)
  const ended = await update({ callStatus: 'ended', callEndedAt: '2099-01-01T00:00:00.000Z' })
  expect(ended.body).toMatchObject({ callStatus: 'ended', endedBy: 'user' })
  expect(ended.body.callEndedAt).not.toContain('2099')
  expect((await update({ callStatus: 'active' })).body).toEqual(ended.body)
  const sdp = await new Page().offer()
  const again = await user.post(
    '/calls',
    { sessionId, callType: 'audio', sdp, replaces: callId },
    from(),
  )
  expect(again).toMatchObject({ status: 409, body: { code: 'CONFLICT' } })
})

test.each([
  [{ CALLS_PORTS: '9-8' }, 'CALLS_PORTS'],
  [{ CALLS_PORTS: '1-70000' }, 'CALLS_PORTS'],
  [{ CALLS_PORTS: '40000' }, 'CALLS_PORTS'],
  [{ CALLS_PORTS: '40000-40000' }, 'CALLS_PORTS'],
  [{ CALLS_ADDRESS: 'oracle.example' }, 'CALLS_ADDRESS'],
  [{ CALLS_ADDRESS: '2001:db8::1' }, 'CALLS_ADDRESS'],
  [{ CALLS_ADDRESS: '192.168.1.10' }, 'lan:192.168.1.10'],
  [{ CALLS_ADDRESS: '10.0.0.7' }, 'CALLS_ADDRESS'],
  [{ CALLS_ADDRESS: '100.64.0.1' }, 'CALLS_ADDRESS'],
  [{ CALLS_ADDRESS: '127.0.0.1' }, 'CALLS_ADDRESS'],
  [{ CALLS_ADDRESS: '0.0.0.0' }, 'CALLS_ADDRESS'],
  [{ CALLS_ADDRESS: 'lan:oracle.local' }, 'CALLS_ADDRESS'],
  [{ CALLS_TURN_URLS: 'turn:relay.example.org' }, 'CALLS_TURN_SECRET'],
  [
    { CALLS_TURN_URLS: 'http://relay.example.org', CALLS_TURN_SECRET: 'a-secret' },
    'CALLS_TURN_URLS',
  ],
  [{ CALLS_HEARING: 'openai', OPENAI_API_KEY: 'sk-of-the-model' }, 'CALLS_SPEECH_KEY'],
  [{ CALLS_HEARING: 'openai', CALLS_SPEECH_KEY: '' }, 'CALLS_SPEECH_KEY'],
  [{ CALLS_VOICE: 'command' }, 'CALLS_VOICE_COMMAND'],
  [{ CALLS_VOICE: 'command', CALLS_VOICE_COMMAND: 'espeak-ng --stdout' }, 'CALLS_VOICE_COMMAND'],
  [{ CALLS_VOICE: 'command', CALLS_VOICE_COMMAND: '[]' }, 'CALLS_VOICE_COMMAND'],
  [{ CALLS_VOICE: 'command', CALLS_VOICE_COMMAND: '["no-such-program"]' }, 'CALLS_VOICE_COMMAND'],
  [{ CALLS_HEARING: 'command', CALLS_HEARING_COMMAND: '["/no/such"]' }, 'CALLS_HEARING_COMMAND'],
  [{ CALLS_HEARING: 'command' }, 'CALLS_HEARING_COMMAND'],
])('%j is told at boot, with the name of the variable and what helps', async (env, name) => {
  const booted = testApp({ plugins: [calls], env: { NODE_ENV: 'test', ...env } })
  onTestFinished(() => booted.then((app) => app.close()).catch(() => undefined))
  const app = await booted.catch((error: Error) => error)
  const told =
    app instanceof Error
      ? JSON.stringify([app.message, app])
      : JSON.stringify([app.report, app.log])
  expect(told).toContain(name)
  // And what helps.
  expect(told).toMatch(
    /Correct CALLS_\w+ or unset it|needs CALLS_\w+|Install it, or name another one/,
  )
  if (!(app instanceof Error)) expect((await (await app.user()).get('/calls')).status).toBe(404)
})

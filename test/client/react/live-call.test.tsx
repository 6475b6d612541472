import { expect, it, onTestFinished } from 'vitest'
import type { LiveAgent } from '../../../client/live-agent.ts'
import { deviceError, fakeBrowser } from '../call/browser.ts'
import { openCaller, patient } from '../call/open-caller.ts'
import { until } from '../page.ts'

it('calls in strict mode once, by way of all published fields, and hangs up with its component', async () => {
  const devices = fakeBrowser()
  const { used, wanted, known, underWay } = await openCaller(['It is sunny.'])
  const { now } = used
  // The fields as a page of the published hook reads them.
  const before: [boolean, boolean, boolean, boolean, boolean] = [
    ...([now.isCalling, now.isConnecting, now.isReady] as const),
    ...([now.sessionStarted, now.sessionViewVisible] as const),
  ]
  expect(before).toEqual([false, false, false, false, false])
  const calling: Promise<{ callId: string; encryptionKey: string }> = now.callAgent(wanted)
  await until(() => used.now.isConnecting)
  expect(used.now).toMatchObject({ isCalling: true, isReady: false, sessionStarted: true })
  expect(used.now.room.state).toBe('connecting')
  const { callId, encryptionKey } = await calling
  await until(() => used.now.isReady, patient)
  expect(used.now).toMatchObject({
    ...{ isCalling: false, isConnecting: false, isReady: true, isConfigReady: true },
    ...{ sessionStarted: true, sessionViewVisible: true, state: 'listening', error: null },
    ...{ isMuted: false, isCameraOn: false, approval: null, callId },
    security: { verifiedBy: 'did', fingerprint: encryptionKey },
  })
  expect(encryptionKey).toMatch(/^([0-9A-F]{2}:){31}[0-9A-F]{2}$/)
  expect(used.now.levels()).toEqual({ you: 0.25, agent: 0.25 })
  const { room } = used.now
  expect(room.name).toBe(callId)
  expect(room.state).toBe('connected')
  expect(room.localParticipant.isMicrophoneEnabled).toBe(true)
  expect(room.localParticipant.isCameraEnabled).toBe(false)
  await room.localParticipant.setMicrophoneEnabled(false)
  expect(devices.tracks.map(({ enabled }) => enabled)).toEqual([false])
  expect([used.now.isMuted, room.localParticipant.isMicrophoneEnabled]).toEqual([true, false])
  await room.localParticipant.setMicrophoneEnabled(true)
  expect(devices.tracks.map(({ enabled }) => enabled)).toEqual([true])
  await expect(room.localParticipant.setCameraEnabled(true)).rejects.toMatchObject({
    code: 'media_unavailable',
  })
  used.now.say('How is the weather?')
  const said = () => used.now.captions.map(({ who, text, isFinal }) => ({ who, text, isFinal }))
  await until(() => said().length === 2, patient)
  expect(said()).toEqual([
    { who: 'you', text: 'How is the weather?', isFinal: true },
    { who: 'agent', text: 'It is sunny.', isFinal: true },
  ])
  // Strict mode runs everything twice: one call was made, and one microphone opened.
  expect(await underWay()).toMatchObject([{ callId, callStatus: 'active' }])
  expect(devices.tracks).toHaveLength(1)
  await expect(used.now.callAgent(wanted)).rejects.toMatchObject({ code: 'invalid_request' })
  used.unmount()
  await expect.poll(() => known(callId), { timeout: patient }).toMatchObject({ endedBy: 'user' })
  expect(devices.tracks.map(({ readyState }) => readyState)).toEqual(['ended'])
}, 120_000)

it.each([
  ['its own', 'did:web:oracle.example', 'document'],
  ['that of another', 'did:web:oracle.example:other', undefined],
] as const)(
  'an oracle that goes by a did:web is proven by the document of that DID: %s',
  async (_, id, verifiedBy) => {
    fakeBrowser()
    const ORACLE_DID = 'did:web:oracle.example'
    const { oracle, used, wanted } = await openCaller(['It is sunny.'], { ORACLE_DID })
    const real = globalThis.fetch
    onTestFinished(() => void (globalThis.fetch = real))
    // A fake of the name system and of TLS: the address of the DID leads to the oracle.
    globalThis.fetch = async (...asked) => {
      if (String(asked[0]) !== 'https://oracle.example/.well-known/did.json') return real(...asked)
      const found = await real(`${oracle.overrides.baseUrl}/.well-known/did.json`)
      return Response.json({ ...(await found.json()), id })
    }
    const calling = used.now.callAgent({ ...wanted, microphone: false })
    if (verifiedBy === undefined) {
      await expect(calling).rejects.toMatchObject({ code: 'call_not_verified' })
      expect(used.now.security).toBeNull()
      return
    }
    await calling
    await until(() => used.now.isReady, patient)
    expect(used.now.security).toMatchObject({ verifiedBy })
    await used.now.endCall()
  },
  120_000,
)

it('room.disconnect hangs up, and the next call is another one', async () => {
  fakeBrowser()
  const { used, wanted, known } = await openCaller()
  const first = await used.now.callAgent(wanted)
  await until(() => used.now.isReady, patient)
  await until(() => used.now.seconds > 0, patient)
  await used.now.room.disconnect()
  expect(used.now).toMatchObject({ state: 'ended', endedBy: 'user', sessionStarted: false })
  expect(used.now.room.state).toBe('disconnected')
  await expect
    .poll(() => known(first.callId), { timeout: patient })
    .toMatchObject({ endedBy: 'user' })
  const second = await used.now.callAgent(wanted)
  expect(second.callId).not.toBe(first.callId)
  await until(() => used.now.isReady, patient)
  expect(used.now.captions).toEqual([])
  await used.now.endCall()
}, 120_000)

it.each([
  ['NotAllowedError', 'media_denied', 'The microphone was not allowed.'],
  ['NotFoundError', 'media_unavailable', 'There is no microphone.'],
  ['NotReadableError', 'media_unavailable', 'There is no microphone.'],
] as const)(
  'a microphone that answers %s makes no call, and says why',
  async (name, code, message) => {
    fakeBrowser(() => {
      throw deviceError(name)
    })
    const { used, wanted, underWay, toasts } = await openCaller()
    const error = await used.now.callAgent(wanted).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code, message })
    expect(toasts).toEqual([`Connection Error: Failed to start call: ${message}`])
    expect(used.now).toMatchObject({
      ...{ isCalling: false, isConnecting: false, sessionStarted: false, state: 'ended' },
      error: { code, message },
    })
    expect(await underWay()).toEqual([])
  },
)

it('without a microphone nobody is asked for one: words are typed', async () => {
  const devices = fakeBrowser(() => {
    throw deviceError('NotAllowedError')
  })
  const { used, wanted } = await openCaller(['Hello.'])
  await used.now.callAgent({ ...wanted, microphone: false })
  await until(() => used.now.isReady, patient)
  expect(used.now).toMatchObject({ isMuted: true, error: null })
  used.now.say('Hello?')
  await until(() => used.now.captions.some(({ text }) => text === 'Hello.'), patient)
  expect(devices.tracks).toEqual([])
  // Who wants to be heard after all is asked then.
  await expect(used.now.setMuted(false)).rejects.toMatchObject({ code: 'media_denied' })
  expect(used.now).toMatchObject({ isMuted: true, sessionStarted: true })
  await used.now.endCall()
}, 120_000)

it('a microphone that is taken away is followed by the next one, and without one the call goes on in writing', async () => {
  let device = 'a headset'
  const devices = fakeBrowser(() => {
    if (device === '') throw deviceError('NotFoundError')
    return device
  })
  const { used, wanted } = await openCaller(['Still here.'])
  await used.now.callAgent(wanted)
  await until(() => used.now.isReady, patient)
  expect(devices.sent.at(-1)?.device).toBe('a headset')
  await used.now.setMuted(true)
  device = 'the machine’s own'
  devices.tracks.at(-1)?.takeAway()
  await until(() => devices.sent.at(-1)?.device === 'the machine’s own')
  // Who was muted stays so with another device.
  await until(() => devices.tracks.at(-1)?.enabled === false)
  expect(used.now).toMatchObject({ isMuted: true, error: null })
  await used.now.setMuted(false)
  device = ''
  devices.tracks.at(-1)?.takeAway()
  await until(() => used.now.error)
  expect(used.now).toMatchObject({
    ...{ isMuted: true, sessionStarted: true, isReady: true },
    error: { code: 'media_unavailable', message: 'There is no microphone.' },
  })
  expect(devices.sent.at(-1)).toBeUndefined()
  used.now.say('And now?')
  await until(() => used.now.captions.some(({ text }) => text === 'Still here.'), patient)
  await used.now.endCall()
}, 120_000)

it('captions come in one go, and how loud the ends are renders nothing', async () => {
  fakeBrowser()
  const { used, wanted } = await openCaller([
    { text: Array.from({ length: 200 }, (_, i) => `Word ${i}. `) },
  ])
  await used.now.callAgent({ ...wanted, microphone: false })
  await until(() => used.now.isReady, patient)
  const before = used.renders
  used.now.say('Much, please.')
  await until(() => used.now.captions.length === 200, patient)
  // 201 captions: 50 ms apart they are shown, and not one by one. Strict mode renders twice.
  expect(used.renders - before).toBeLessThan(300)
  await until(() => used.now.state === 'listening', patient)
  const quiet = used.renders
  for (let i = 0; i < 1_000; i++) used.now.levels()
  expect(used.renders - quiet).toBeLessThan(10)
  await used.now.endCall()
}, 120_000)

it('has the types that pages of the published hook use', () => {
  const typed = (agent: LiveAgent) => {
    const flags: boolean[] = [
      ...[agent.isCalling, agent.isConnecting, agent.isReady, agent.isConfigReady],
      ...[agent.sessionStarted, agent.sessionViewVisible],
    ]
    const over: Promise<void> = agent.endCall()
    const made: Promise<{ callId: string; encryptionKey: string }> = agent.callAgent({
      ...{ callType: 'video', sessionId: 's', userDid: 'did:key:z', agentVoice: 'en' },
    })
    const left: Promise<void> = agent.room.disconnect()
    // @ts-expect-error: there are no other kinds of calls.
    const other = agent.callAgent({ callType: 'hologram', sessionId: 's', userDid: 'did:key:z' })
    return { flags, over, made, left, other }
  }
  expect(typed).toBeTypeOf('function')
})

import { createEncoder } from 'libopus-wasm'
import { expect, onTestFinished, test } from 'vitest'
import { call as callTool, resultOf, scriptedModel, testApp } from '#core/testing'
import { callApp } from '../../../test/support/call-app.ts'
import { call, type Page } from '../../../test/support/call-page.ts'
import { recorder, speechOf } from '../../../test/support/recorder.ts'
import { describeWith } from '../../../test/support/services.ts'
import calls from '../index.ts'
import { Utterances } from '../media/utterances.ts'
import { voiceDetector } from '../media/voice-detector.ts'

const patient = { timeout: 60_000, interval: 20 }
const question = 'How is the weather in Nairobi today?'
const quietly = { CALLS_HEARING: 'recorder', CALLS_VOICE: 'none', CALLS_IDLE_SECONDS: '3600' }
const rest = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, Math.max(ms, 0)))

/** Sound as packets of so many samples each, of one or two channels. */
async function packetsOf(sound: Int16Array, frameSize = 960, channels: 1 | 2 = 1) {
  const encoder = await createEncoder({ sampleRate: 48_000, channels, frameSize })
  const packets: Uint8Array[] = []
  for (let at = 0; at < sound.length; at += frameSize) {
    const mono = new Int16Array(frameSize)
    mono.set(sound.subarray(at, at + frameSize))
    const frame =
      channels === 1
        ? mono
        : Int16Array.from({ length: frameSize * 2 }, (_, i) => mono[i >> 1] ?? 0)
    packets.push(Uint8Array.from(encoder.encode(frame)))
  }
  encoder.free()
  return packets
}

/** The number of the last packet that was sent. */
let number = 0
/** Sends packets one after the other, so many milliseconds apart. */
async function send(
  page: Page,
  packets: readonly Uint8Array[],
  everyMs: number,
  numbers?: readonly number[],
) {
  const began = performance.now()
  for (const [i, packet] of packets.entries()) {
    await page.packet(packet, numbers?.[i] ?? ++number)
    await rest(began + (i + 1) * everyMs - performance.now())
  }
}

async function start(answers = 20, env: Record<string, string> = {}) {
  const { plugin, heard } = recorder()
  const steps = Array.from({ length: answers }, () => 'I am here.')
  const { user, sessionId, history } = await callApp(steps, {
    plugins: [plugin],
    env: { ...quietly, ...env },
  })
  const { page, callId } = await call(user, sessionId)
  number = 1_000
  const isAlive = async () =>
    expect((await user.get(`/calls/${callId}`)).body.callStatus).toBe('active')
  return { user, page, callId, heard, history, isAlive }
}

await describeWith('espeak', 'sound that browsers do not send, but others may', () => {
  test('speech in frames of 10 and 60 ms, of two channels, by a wrong clock, over a jump of the numbers: it is heard whole', async () => {
    const { page, heard, isAlive } = await start()
    const words = await speechOf(question)
    const silence = new Int16Array(48_000)
    const sound = Int16Array.from([...words, ...silence])
    const plain = await packetsOf(sound)
    const around = plain.map((_, i) => (60_000 + i + (i > 40 ? 30_000 : 0)) % 65_536)
    // Every three packets come in the order 3, 2, 1.
    const turned = plain.map((_, i) => 20_000 + (i - (i % 3)) + (2 - (i % 3)))
    const inOrder = turned.map((_, i) => plain[turned[i]! - 20_000] ?? plain.at(-1)!)
    const kinds: [string, readonly Uint8Array[], number, (readonly number[])?][] = [
      ['as browsers send it', plain, 20],
      ['frames of 10 ms', await packetsOf(sound, 480), 10],
      ['frames of 60 ms', await packetsOf(sound, 2_880), 60],
      ['two channels', await packetsOf(sound, 960, 2), 20],
      ['a clock that is 1 % fast', plain, 19.8],
      ['a clock that is 1 % slow', plain, 20.2],
      ['a jump of the numbers by 30,000', plain, 20, around],
      ['each three packets in reverse order', inOrder, 20, turned],
    ]
    let whole = 0
    for (const [i, [kind, packets, everyMs, numbers]] of kinds.entries()) {
      await send(page, packets, everyMs, numbers)
      if (numbers) number = numbers.at(-1)!
      await expect.poll(() => heard.length, { ...patient, message: kind }).toBe(i + 1)
      const { samples, peak } = heard[i]!
      whole ||= samples
      expect(Math.abs(samples - whole) / 16, kind).toBeLessThan(300)
      expect(peak, kind).toBeGreaterThan(3_000)
    }
    // The spoken part, 200 ms from before it, and the silence that ends it.
    const isLoud = (sample: number) => Math.abs(sample) > 300
    const spoken = words.findLastIndex(isLoud) - words.findIndex(isLoud)
    expect(Math.abs(whole / 16 - spoken / 48 - 800)).toBeLessThan(300)
    await isAlive()
  }, 180_000)

  test('who leaves out packets while it is quiet, or sends none, has said what was said, and is there after a minute', async () => {
    const { page, heard, history, isAlive } = await start()
    const words = await packetsOf(await speechOf(question))
    const until = performance.now() + 60_000
    await send(page, words, 20)
    // A packet of one byte for 400 ms of silence, as Opus sends it (DTX).
    for (let i = 0; i < 10; i++) {
      await page.packet(Uint8Array.of(0x78), ++number, 19_200)
      await rest(400)
    }
    const told = () => JSON.stringify(page.frames)
    await expect.poll(() => heard.length, { ...patient, message: told() }).toBe(1)
    await send(page, words, 20)
    // A microphone that is off sends nothing.
    await expect.poll(() => heard.length, { ...patient, message: told() }).toBe(2)
    await rest(until - performance.now())
    await isAlive()
    expect(heard).toHaveLength(2)
    await send(page, words, 20)
    await expect.poll(() => heard.length, patient).toBe(3)
    const [one, ...others] = heard.map(({ samples }) => samples / 16)
    for (const other of others) expect(Math.abs(other - one!)).toBeLessThan(300)
    const asked = async () => (await history()).filter(({ type }) => type === 'human').length
    await expect.poll(asked, patient).toBe(3)
  }, 180_000)

  test('packets that claim a minute of silence each cost no more than the time in which they come', async () => {
    const { page, heard, isAlive } = await start()
    const [silence = new Uint8Array(0)] = await packetsOf(new Int16Array(960))
    for (let i = 0; i < 300; i++) await page.packet(silence, ++number, 2_880_000)
    // Had each been a minute to listen to, the next words would wait for five hours of silence.
    await send(page, await packetsOf(await speechOf(question)), 20)
    await expect.poll(() => heard.length, patient).toBe(1)
    await expect.poll(() => page.said, patient).toBe('I am here.')
    await isAlive()
  })

  test('300 utterances in a row are heard, and the last one is answered', async () => {
    const many = 300
    const { user, page, callId, heard, history } = await start(many * 2, {
      CALLS_SILENCE_MS: '300',
    })
    // Nothing in what is said waits for a time of day, so it is said six times as fast as a person speaks, with short pauses.
    const said = await speechOf('Hello.')
    const words = said.subarray(
      0,
      said.findLastIndex((sample) => Math.abs(sample) > 300),
    )
    const one = await packetsOf(Int16Array.from([...words, ...new Int16Array(19_200)]))
    for (let i = 0; i < many; i++) await send(page, one, 20 / 6)
    await expect.poll(() => heard.length, patient).toBeGreaterThanOrEqual(many)
    expect((await user.get(`/calls/${callId}`)).body.callStatus).toBe('active')
    const last = async () => (await history()).at(-1)
    await expect.poll(last, patient).toMatchObject({ type: 'ai', content: 'I am here.' })
    await expect.poll(() => page.of('state').at(-1)?.state, patient).toBe('listening')
    expect((await user.delete(`/calls/${callId}`)).status).toBe(200)
  }, 400_000)

  test('an utterance of more than a minute is two, and nothing of it is lost', async () => {
    const detector = await voiceDetector()
    const ended: number[] = []
    let [samples, given] = [0, 0]
    const nothing = { paused() {}, resumed() {}, over() {}, sure() {}, passed() {} }
    const utterances = new Utterances(detector, 600, {
      ...nothing,
      begun: () => void (samples = 0),
      sound: ({ length }) => void (samples += length),
      ended: () => void ended.push(samples / 16_000),
    })
    const words = await speechOf('and then we went on and on and on, over the hills and far away,')
    // Every third sample: 16 kHz.
    const heard = words.filter((_, i) => i % 3 === 0)
    const said = heard.subarray(
      0,
      heard.findLastIndex((sample) => Math.abs(sample) > 300),
    )
    for (; given < 16_000 * 70; given += said.length) utterances.push(said)
    utterances.push(new Int16Array(16_000))
    detector.free()
    expect(ended).toHaveLength(2)
    expect(ended[0]).toBeGreaterThan(59.9)
    expect(ended[0]).toBeLessThan(60.5)
    expect(ended[0]! + ended[1]!).toBeGreaterThan(given / 16_000 - 0.3)
  })
})

/** A frame of VP8 that says that it stands for itself. */
const keyFrame = Uint8Array.from({ length: 3_000 }, (_, i) => i % 251)
keyFrame.set([0x10, 0x02, 0x00, 0x9d, 0x01, 0x2a])

test.each([
  ['a model that reads no images', { reads: {} }],
  ['a model of which nobody knows', {}],
])('in a call with a camera, to %s nothing is shown', async (_, options) => {
  const model = scriptedModel([callTool('look_at_camera'), 'I cannot see.'], options)
  const app = await testApp({
    plugins: [calls],
    model,
    env: { NODE_ENV: 'test', CALLS_HEARING: 'typed', CALLS_VOICE: 'none' },
  })
  onTestFinished(() => app.close())
  const user = await app.user()
  const { sessionId } = (await user.post('/sessions', {})).body
  const { page } = await call(user, sessionId, { callType: 'video' })
  page.picture(Uint8Array.of(0x10, ...keyFrame.subarray(0, 1_000)), 1, 1, true)
  page.send({ type: 'say', id: 'a', text: 'What do you see?' })
  await expect.poll(() => page.said, patient).toBe('I cannot see.')
  const offered = model.requests[0]!.tools.map(({ name }) => name)
  if ('reads' in options) expect(offered).not.toContain('look_at_camera')
  else expect(String(resultOf(model.requests[1]!, 'look_at_camera'))).toContain('You cannot see')
  expect(JSON.stringify(model.requests)).not.toContain('image/webp')
})

test('a picture that is garbage is none, and five megabits of it a second end the call', async () => {
  const model = scriptedModel([callTool('look_at_camera'), 'Nothing.', 'I am here.'], {
    reads: { image: ['image/*'] },
  })
  const app = await testApp({
    plugins: [calls],
    model,
    env: { NODE_ENV: 'test', CALLS_HEARING: 'typed', CALLS_VOICE: 'none' },
  })
  onTestFinished(() => app.close())
  const user = await app.user()
  const { sessionId } = (await user.post('/sessions', {})).body
  const { page, callId } = await call(user, sessionId, { callType: 'video' })
  let sent = 0
  const garbage = setInterval(() => {
    const bytes = crypto.getRandomValues(new Uint8Array(900))
    page.picture(bytes, ++sent % 65_536, sent * 9_000, sent % 3 === 0)
  }, 20)
  onTestFinished(() => clearInterval(garbage))
  page.send({ type: 'say', id: 'a', text: 'What do you see?' })
  await expect.poll(() => page.said, patient).toMatch(/Nothing\.$/)
  expect(String(resultOf(model.requests[1]!, 'look_at_camera'))).toContain('No picture came')
  page.send({ type: 'say', id: 'b', text: 'Are you there?' })
  await expect.poll(() => page.said, patient).toContain('I am here.')
  expect((await user.get(`/calls/${callId}`)).body.callStatus).toBe('active')
  clearInterval(garbage)
  const flood = setInterval(() => {
    for (let i = 0; i < 6; i++)
      page.picture(new Uint8Array(1_100), ++sent % 65_536, sent * 90, false)
  }, 10)
  onTestFinished(() => clearInterval(flood))
  const ended = async () => (await user.get(`/calls/${callId}`)).body.endedBy
  await expect.poll(ended, patient).toBe('server')
})

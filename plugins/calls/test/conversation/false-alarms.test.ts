import { createDecoder, createEncoder } from 'libopus-wasm'
import { expect, it } from 'vitest'
import { describeWith } from '../../../../test/support/services.ts'
import { Echo } from '../../media/echo.ts'
import { Utterances } from '../../media/utterances.ts'
import { voiceDetector } from '../../media/voice-detector.ts'
import { joined, voiceByCommand } from '../../speech/command.ts'
import { Resampler } from '../../speech/resample.ts'

const second = 16_000
const story =
  'Once upon a time there was a fisherman who lived with his wife in a small hut by the sea. Every day he went out ' +
  'and cast his line, and waited, and looked into the clear water. One day the line went deep down, and when he pulled ' +
  'it up he had caught a large fish, which spoke to him and asked for its life.'

/** What a voice says, at 48 kHz. */
async function said(text: string, voice: string): Promise<Int16Array> {
  const espeak = voiceByCommand('espeak-ng', ['espeak-ng', '--stdin', '--stdout', '-v', voice])
  const resampler = new Resampler()
  const pieces: Int16Array[] = []
  for await (const spoken of espeak.speak(text, { signal: AbortSignal.timeout(30_000) }))
    pieces.push(resampler.push(spoken))
  return joined(pieces)
}

/** Sound of 48 kHz as it comes out of a call: by Opus, at 16 kHz. */
async function called(sound: Int16Array): Promise<Int16Array> {
  const encoder = await createEncoder({ sampleRate: 48_000, channels: 1, bitrate: 32_000 })
  const decoder = await createDecoder({ sampleRate: 16_000, channels: 1 })
  const pieces: Int16Array[] = []
  for (let at = 0; at + 960 <= sound.length; at += 960)
    pieces.push(decoder.decode(encoder.encode(sound.slice(at, at + 960))))
  encoder.free()
  decoder.free()
  return joined(pieces)
}

/** Sound as a page plays it whose packets come early and late: now and then some milliseconds of it are missing, or come twice. */
function wandering(sound: Int16Array, everyMs: number): Int16Array {
  let seed = 3
  const random = () => (seed = (seed * 16_807) % 2_147_483_647) / 2_147_483_647
  const played: number[] = []
  for (let at = 0; at < sound.length;) {
    const until = Math.min(sound.length, at + Math.round(48 * everyMs * (0.5 + random())))
    for (; at < until; at++) played.push(sound[at] ?? 0)
    const moved = Math.round(48 * (5 + 10 * random())) * (random() < 0.5 ? -1 : 1)
    const fade = 48 * 3
    for (let i = 0; i < fade; i++) {
      const share = i / fade
      played.push(
        Math.round((sound[at + i] ?? 0) * (1 - share) + (sound[at + moved + i] ?? 0) * share),
      )
    }
    at = Math.max(0, at + moved) + fade
  }
  return Int16Array.from(played)
}

/** Sound as a busy page plays it: every few seconds it stops for up to half a second, so it is later and later. */
function stopping(sound: Int16Array): Int16Array {
  const pieces: Int16Array[] = []
  for (let at = 0, nth = 0; at < sound.length; nth++) {
    const until = at + 48_000 * (2 + (nth % 3))
    pieces.push(sound.subarray(at, until), new Int16Array(4_800 * (1 + (nth % 5))))
    // What it was late by is left out again after a while.
    at = nth % 4 === 3 ? until + 48_000 : until
  }
  return joined(pieces)
}

/** Sound as a room gives it back, and a sound card whose second is a little long: four walls, and a fiftieth of a percent. */
function roomy(sound: Int16Array): Int16Array {
  const walls = [
    [0, 0.6],
    [390, 0.4],
    [1_130, -0.3],
    [2_900, 0.2],
    [5_300, -0.1],
  ] as const
  return Int16Array.from({ length: sound.length }, (_, i) => {
    const at = Math.round(i * 0.9998)
    return Math.round(walls.reduce((sum, [late, loud]) => sum + (sound[at - late] ?? 0) * loud, 0))
  })
}

const louder = (sound: Int16Array, by: number) => sound.map((sample) => Math.round(sample * by))
const silence = (seconds: number) => new Int16Array(Math.round(second * seconds))

/** What is made of sound at the microphone, while the agent says something, or nothing. */
async function heardOf(microphone: Int16Array, agent: Int16Array = new Int16Array(0)) {
  const detector = await voiceDetector()
  const echo = new Echo()
  const isVoice = (frame: Int16Array) => {
    echo.heard(frame)
    return detector.isVoice(frame) && !echo.isOwn()
  }
  const heard = {
    over: 0,
    sure: 0,
    utterances: [] as number[],
    firstOverMs: 0,
    heldMs: [] as number[],
  }
  let [atMs, overMs] = [0, 0]
  const events = {
    begun: () => {},
    sound: () => {},
    paused: () => {},
    resumed: () => {},
    ended: (voicedMs: number) => voicedMs > 0 && heard.utterances.push(voicedMs),
    over: () => {
      heard.over++
      heard.firstOverMs ||= atMs
      overMs = atMs
    },
    sure: () => heard.sure++,
    passed: () => heard.heldMs.push(atMs - overMs),
  }
  const utterances = new Utterances({ isVoice }, 600, events)
  for (let at = 0; at + 320 <= microphone.length; at += 320) {
    const sent = agent.subarray(at * 3, at * 3 + 960)
    const isSaid = sent.length === 960
    echo.sent(isSaid ? sent : undefined)
    utterances.isSpoken = isSaid
    utterances.push(microphone.slice(at, at + 320))
    atMs += 20
  }
  detector.free()
  return heard
}

await describeWith('espeak', 'what is no voice of a person', () => {
  it('the agent’s own voice, coming back 140 ms later at -20 dB for a minute, interrupts nobody', async () => {
    const once = await said(story, 'en')
    const agent = joined([once, once, once, once]).subarray(0, 48_000 * 60)
    const back = joined([silence(0.14), await called(louder(agent, 0.1))])
    expect(await heardOf(back, agent)).toMatchObject({ over: 0, sure: 0, utterances: [] })
  })

  it.each([1_000, 300, 150])(
    'nor does it where the page makes up every %i ms for packets that come early or late',
    async (everyMs) => {
      const once = await said(story, 'en')
      const agent = joined([once, once, once, once]).subarray(0, 48_000 * 60)
      const back = joined([silence(0.14), await called(louder(wandering(agent, everyMs), 0.1))])
      const { over, sure, utterances } = await heardOf(back, agent)
      expect([over, sure, utterances]).toEqual([0, 0, []])
    },
  )

  it.each([
    ['a busy page that stops now and then', stopping],
    ['a room with walls, and a sound card that is slow', roomy],
  ])('nor does it out of %s', async (_, played) => {
    const once = await said(story, 'en')
    const agent = joined([once, once, once, once]).subarray(0, 48_000 * 60)
    const back = joined([silence(0.14), await called(louder(played(agent), 0.1))])
    const { over, sure, utterances } = await heardOf(back, agent)
    expect([over, sure, utterances]).toEqual([0, 0, []])
  })

  it.each(['en+f3', 'en', 'fr'])(
    'a person (%s) who speaks over that echo is heard',
    async (voice) => {
      const agent = await said(story, 'en')
      const back = joined([silence(0.14), await called(louder(agent, 0.1))])
      const person = await called(
        await said('Excuse me, I have another question about fish.', voice),
      )
      const from = 4 * second
      const both = back.map((sample, at) => sample + Math.round((person[at - from] ?? 0) * 0.5))
      const heard = await heardOf(both, agent)
      // The pause after the first words may make two of it.
      expect([1, 2]).toContain(heard.sure)
      expect(heard.firstOverMs).toBeGreaterThan(4_000)
      expect(heard.firstOverMs).toBeLessThan(4_400)
    },
  )

  it('steady noise for a minute is no utterance and no interruption, and a question after it is heard', async () => {
    let seed = 1
    const random = () => (seed = (seed * 16_807) % 2_147_483_647) / 2_147_483_647 - 0.5
    const noise = await called(Int16Array.from({ length: 48_000 * 60 }, () => random() * 12_000))
    const hum = await called(
      Int16Array.from({ length: 48_000 * 60 }, (_, i) => 8_000 * Math.sin(i / 60) + random() * 800),
    )
    // Noise begins at any moment of a frame of 20 ms, which is then softer than those behind it.
    for (let ms = 0; ms < 20; ms += 2) {
      const beginning = joined([silence(1 + ms / 1_000), noise.subarray(0, second * 3)])
      expect((await heardOf(beginning)).utterances, `${ms} ms`).toEqual([])
    }
    const question = await called(await said('How is the weather in Nairobi today?', 'en'))
    for (const steady of [noise, hum]) {
      const agent = new Int16Array(48_000 * 30)
      expect(await heardOf(joined([silence(1), steady]), agent)).toMatchObject({
        sure: 0,
        utterances: [],
      })
      const after = joined([silence(1), steady, silence(2), question, silence(2)])
      expect((await heardOf(after)).utterances).toHaveLength(1)
    }
  }, 240_000)

  // By the clock of the sound: what a page hears of it is later by the way there and back, on a machine that is busy by more.
  it.each([
    ['a cough of 300 ms', 600, 'ha', 0.3],
    ['a nod', 700, "[[m@'hm]]", 1],
    // With a pause between them; the call waits for 800 ms at most, whatever follows.
    ['two nods', 1_400, "[[m@'hm]]. [[m@'hm]]", 2],
  ])(
    'twenty times %s: nothing is cut, and it has passed after %i ms at most',
    async (_, mostMs, text, seconds) => {
      const one = (await called(await said(text, 'en'))).subarray(0, Math.round(second * seconds))
      const all = joined(Array.from({ length: 20 }, () => joined([silence(2), one])))
      const microphone = joined([all, silence(1)])
      const { over, sure, heldMs } = await heardOf(
        microphone,
        new Int16Array(microphone.length * 3),
      )
      console.log(
        `${text}: it has passed ${[...new Set(heldMs)].join(', ')} ms after the agent was held`,
      )
      expect([over, sure]).toEqual([heldMs.length, 0])
      expect(heldMs.length).toBeGreaterThanOrEqual(20)
      expect(Math.max(...heldMs)).toBeLessThanOrEqual(mostMs)
    },
  )
})

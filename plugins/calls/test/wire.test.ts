import { KeyObject, randomBytes } from 'node:crypto'
import { createDecoder, createEncoder } from 'libopus-wasm'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { RtpHeader, SrtpSession } from 'werift'
import { HeardSound } from '../media/wire/heard-sound.ts'
import { keepKeys } from '../media/wire/keys.ts'
import { Pace } from '../media/wire/pace.ts'
import { SoundPackets } from '../media/wire/sound-packets.ts'

describe('keys', () => {
  const config = (profile: number) => ({
    keys: {
      localMasterKey: randomBytes(16),
      localMasterSalt: randomBytes(profile === 7 ? 12 : 14),
      remoteMasterKey: randomBytes(16),
      remoteMasterSalt: randomBytes(profile === 7 ? 12 : 14),
    },
    profile,
  })

  test.each([
    ['AES-128-GCM', 7],
    ['AES-128-CM with HMAC-SHA1-80', 1],
  ])('%s encrypts the same whether a key is kept as bytes or as one of Node', (_, profile) => {
    const shared = config(profile)
    const [plain, kept] = [new SrtpSession(shared), new SrtpSession(shared)]
    keepKeys({ dtlsTransports: [{ srtp: kept }] } as never)
    expect(kept.localContext.cipher.srtpSessionKey).toBeInstanceOf(KeyObject)
    expect(kept.remoteContext.cipher.srtpSessionKey).toBeInstanceOf(KeyObject)
    const payload = randomBytes(80)
    const header = new RtpHeader({ payloadType: 111, sequenceNumber: 7, timestamp: 960, ssrc: 5 })
    expect(kept.encrypt(payload, header)).toEqual(plain.encrypt(payload, header))
    const [localMasterKey, localMasterSalt] = [
      shared.keys.remoteMasterKey,
      shared.keys.remoteMasterSalt,
    ]
    const other = new SrtpSession({
      profile,
      keys: { ...shared.keys, localMasterKey, localMasterSalt },
    })
    expect(kept.decrypt(other.encrypt(payload, header)).subarray(-80)).toEqual(payload)
  })

  test('a transport that is not secure yet has no keys', () => {
    expect(() => keepKeys({ dtlsTransports: [{}] } as never)).not.toThrow()
  })
})

describe('packets of sound', () => {
  const encoder = () =>
    createEncoder({
      ...{ sampleRate: 48_000, channels: 1, bitrate: 32_000, fec: true, complexity: 5 },
      packetLossPercent: 5,
    })
  const tone = (frame: number) =>
    Int16Array.from({ length: 960 }, (_, i) => 9_000 * Math.sin((frame * 960 + i) / 20))
  /** Half a second of sound, two of silence, half a second of sound. */
  const said = Array.from({ length: 150 }, (_, i) => (i < 25 || i >= 125 ? tone(i) : undefined))

  test('silence is encoded until it is the same, and what follows sounds as it would have', async () => {
    const [whole, ours] = [await encoder(), await encoder()]
    let asked = 0
    const packets = new SoundPackets({
      encode(pcm) {
        asked++
        return ours.encode(pcm)
      },
    })
    const [one, other] = await Promise.all(
      [0, 1].map(() => createDecoder({ sampleRate: 16_000, channels: 1 })),
    )
    let [energy, difference] = [0, 0]
    for (const [i, pcm] of said.entries()) {
      const expected = one!
        .decode(Uint8Array.from(whole.encode(pcm ?? new Int16Array(960))))
        .slice()
      const heard = other!.decode(packets.next(pcm).payload)
      if (i < 125) continue
      for (const [at, sample] of expected.entries()) {
        energy += sample ** 2
        difference += (sample - heard[at]!) ** 2
      }
    }
    expect(asked).toBe(65)
    expect(energy / Math.max(difference, 1)).toBeGreaterThan(100)
    for (const handle of [whole, ours, one!, other!]) handle.free()
  })

  test('their numbers and times go on through silence', async () => {
    const made = await encoder()
    const packets = new SoundPackets(made)
    const headers = said.map((pcm) => packets.next(pcm).header)
    for (const [i, { sequenceNumber, timestamp }] of headers.entries()) {
      const before = headers[i - 1]
      if (!before) continue
      expect(sequenceNumber).toBe((before.sequenceNumber + 1) % 65_536)
      expect(timestamp).toBe((before.timestamp + 960) % 2 ** 32)
    }
    made.free()
  })
})

describe('the clock of what is sent', () => {
  afterEach(() => void vi.useRealTimers())

  function paced() {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
    const seen = { sent: [] as number[], wakes: 0, late: 0, isHeard: false }
    const pace = new Pace({
      send: () => void seen.sent.push(performance.now()),
      isHeard: () => seen.isHeard,
      looked: () => void seen.wakes++,
      late: (frames) => void (seen.late += frames),
    })
    pace.start()
    /** So long a page whose packets come each 20 ms, or none. */
    const pass = (ms: number, isThere: boolean) => {
      seen.sent = []
      seen.wakes = 0
      for (let at = 0; at < ms; at++) {
        vi.advanceTimersByTime(1)
        if (isThere && at % 20 === 13) pace.came(performance.now())
      }
    }
    const widest = () => Math.max(...seen.sent.slice(1).map((at, i) => at - (seen.sent[i] ?? at)))
    return { seen, pace, pass, widest }
  }

  test('sends 50 frames a second, whoever wakes it', () => {
    const { seen, pass, widest } = paced()
    for (const isThere of [false, true, true, false, true]) {
      pass(4_000, isThere)
      expect(Math.abs(seen.sent.length - 200)).toBeLessThanOrEqual(4)
      expect(widest()).toBeLessThanOrEqual(80)
    }
    expect(seen.late).toBe(0)
  })

  test('in silence the packets of the page wake it, and hardly a timer does', () => {
    const { seen, pass, widest } = paced()
    pass(2_000, true)
    pass(4_000, true)
    expect(seen.wakes).toBeLessThan(80)
    expect(widest()).toBeLessThanOrEqual(21)
  })

  test('a sound, and the silence behind it, wait for no packet', () => {
    const { seen, pace, pass, widest } = paced()
    pass(3_000, true)
    seen.isHeard = true
    seen.sent = []
    pace.hurry()
    vi.advanceTimersByTime(25)
    expect(seen.sent.length).toBeGreaterThan(0)
    pass(2_000, false)
    expect(widest()).toBeLessThanOrEqual(21)
    seen.isHeard = false
    pass(400, true)
    expect(seen.wakes).toBeGreaterThanOrEqual(19)
    expect(widest()).toBeLessThanOrEqual(21)
  })

  test('packets that stop, or come unevenly, are not waited for', () => {
    const { seen, pace, pass, widest } = paced()
    pass(3_000, true)
    pass(100, false)
    pass(2_000, false)
    expect(seen.wakes).toBeGreaterThanOrEqual(99)
    expect(widest()).toBeLessThanOrEqual(21)
    pace.came(performance.now())
    pass(500, true)
    expect(seen.wakes).toBeGreaterThanOrEqual(24)
  })

  test('who has stopped sends nothing more', () => {
    const { seen, pace, pass } = paced()
    pace.stop()
    pass(200, true)
    pace.hurry()
    pass(200, false)
    expect(seen.sent).toEqual([])
  })
})

test('sound is given by 100 ms, and whole before what happens to it', () => {
  const told: (number | string)[] = []
  const sound = new HeardSound((pcm) => void told.push(pcm.length))
  for (let i = 0; i < 7; i++) sound.push(new Int16Array(320))
  told.push(sound.give('paused'), sound.give('ended'))
  expect(told).toEqual([1_600, 'paused', 'ended'].toSpliced(1, 0, 640))
})

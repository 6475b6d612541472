import { expect, onTestFinished, test, vi } from 'vitest'
import { Camera } from '../media/camera.ts'
import { KeyFrames, webpOf } from '../media/key-frames.ts'

/** A frame that stands for itself, of so many bytes. */
const keyFrame = (length: number) => {
  const frame = new Uint8Array(length).map((_, i) => i % 251)
  frame.set([0x10, 0x02, 0x00, 0x9d, 0x01, 0x2a])
  return frame
}

/** The packets of a frame, with the longest descriptor. */
function packetsOf(frame: Uint8Array, first: number, timestamp: number, size = 1_000) {
  const count = Math.ceil(frame.length / size)
  return Array.from({ length: count }, (_, i) => ({
    number: (first + i) % 65_536,
    timestamp,
    isLast: i === count - 1,
    payload: Uint8Array.from([
      ...[0x80 | (i === 0 ? 0x10 : 0), 0xf0, 0x81, 0x02, 7, 0x40],
      ...frame.subarray(i * size, (i + 1) * size),
    ]),
  }))
}

const pushAll = (frames: KeyFrames, packets: readonly ReturnType<typeof packetsOf>[number][]) =>
  packets.map((packet) => frames.push(packet)).find((frame) => frame !== undefined)

test('a key frame is put together, over the end of the numbers and in any order behind its first packet', () => {
  const frame = keyFrame(4_321)
  const [first, second, third, ...rest] = packetsOf(frame, 65_534, 90_000)
  expect(pushAll(new KeyFrames(), [first!, ...rest, third!, second!])).toEqual(Buffer.from(frame))
  expect(pushAll(new KeyFrames(), [first!, first!, third!, ...rest])).toBeUndefined()
})

test('frames that need others are passed over, and so is garbage', () => {
  const frames = new KeyFrames()
  const delta = keyFrame(2_000)
  delta[0] = 0x11
  expect(pushAll(frames, packetsOf(delta, 1, 1_000))).toBeUndefined()
  for (const payload of [[], [0xff], [0x90, 0xff, 0xff], [0x10, 1, 2, 3]])
    expect(
      frames.push({ number: 9, timestamp: 9, isLast: true, payload: Uint8Array.from(payload) }),
    ).toBeUndefined()
  const [first, ...rest] = packetsOf(keyFrame(3_000), 10, 2_000)
  expect(pushAll(frames, [first!, ...packetsOf(delta, 20, 3_000), ...rest])).toHaveLength(3_000)
  expect(pushAll(new KeyFrames(), packetsOf(keyFrame((1 << 20) + 1), 0, 1, 2_000))).toBeUndefined()
})

test.each([3_000, 3_001])('a frame of %i bytes becomes a WebP file', (length) => {
  const file = Buffer.from(webpOf(keyFrame(length)))
  expect(file.toString('latin1', 0, 4) + file.toString('latin1', 8, 16)).toBe('RIFFWEBPVP8 ')
  expect(file.readUInt32LE(4)).toBe(file.length - 8)
  expect(file.readUInt32LE(16)).toBe(length)
  expect(file.length % 2).toBe(0)
})

/** A camera whose time a test moves, with what it asked the page for and what it answered. */
function looking() {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const seen = { asked: 0, looked: [] as (readonly [number, number | undefined])[] }
  const camera = new Camera({
    askFor: () => void seen.asked++,
    looked: (number, webp) => seen.looked.push([number, webp?.length]),
  })
  let first = 0
  const push = (frame: Uint8Array, timestamp: number) => {
    const packets = packetsOf(frame, first, timestamp)
    first += packets.length
    for (const packet of packets) camera.push(7, packet)
  }
  return { camera, seen, push, packets: (timestamp: number) => push(keyFrame(3_000), timestamp) }
}

test('a camera is asked for nothing without a question, and until the picture is there with one', () => {
  const { camera, seen, packets } = looking()
  packets(1)
  vi.advanceTimersByTime(1_000)
  expect(seen).toEqual({ asked: 0, looked: [] })
  camera.look(1)
  expect(seen.asked).toBe(1)
  // A page may pass over a question, so it is asked again; what comes without being whole is no picture.
  vi.advanceTimersByTime(310)
  expect(seen.asked).toBe(7)
  packets(2)
  expect(seen.looked).toEqual([[1, 3_020]])
  vi.advanceTimersByTime(5_000)
  expect(seen.asked).toBe(7)
})

test('who looks again at once has the same picture, who looks later a new one', () => {
  const { camera, seen, packets, push } = looking()
  packets(1)
  camera.look(1)
  camera.look(2)
  push(keyFrame(2_000), 2)
  camera.look(3)
  expect(seen).toEqual({ asked: 1, looked: [1, 2, 3].map((number) => [number, 2_020]) })
  vi.advanceTimersByTime(200)
  camera.look(4)
  expect(seen.looked).toHaveLength(3)
  packets(3)
  expect(seen.looked.at(-1)).toEqual([4, 3_020])
})

test('a camera that is off, or that answers no question, is no picture', () => {
  const { camera, seen, packets } = looking()
  camera.look(1)
  expect(seen).toEqual({ asked: 0, looked: [[1, undefined]] })
  packets(1)
  camera.look(2)
  vi.advanceTimersByTime(2_100)
  expect(seen).toEqual({
    asked: 40,
    looked: [
      [1, undefined],
      [2, undefined],
    ],
  })
  packets(2)
  camera.look(3)
  camera.close()
  expect(seen.looked.at(-1)).toEqual([3, undefined])
})

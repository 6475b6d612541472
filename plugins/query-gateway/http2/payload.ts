import { errorCode } from './frames.ts'
import { ProtocolError } from './stream.ts'

/** The first 32 bits of a payload as a number; throws if the payload is shorter than `least`. */
export function numberIn(payload: Buffer, least: number): number {
  if (payload.length < least) throw new ProtocolError('a frame is too short', errorCode.frameSize)
  return payload.readUInt32BE(0)
}

/** A payload without its padding. */
export function unpadded(payload: Buffer): Buffer {
  const padding = payload[0] ?? 0
  if (padding >= payload.length) throw new ProtocolError('there is more padding than frame')
  return payload.subarray(1, payload.length - padding)
}

import { frameType, numberFrame, preface, setting, settingsFrame } from './frames.ts'

/** What may wait in our memory for one slow reader. */
export const streamWindow = 256 * 1024
/** What may wait in our memory for all readers together. */
export const connectionWindow = 16 * streamWindow
/** The window of a stream and of a connection before either side changes it (RFC 9113). */
export const initialWindow = 65_535
/** The largest window, and the largest id of a stream (RFC 9113). */
export const maxWindow = 2 ** 31 - 1
/** Until the other side says how many streams it takes at once. */
export const cautiousStreams = 100
/** Larger headers are refused. */
export const maxHeaderBytes = 64 * 1024
/** Answers to pings that the other side does not read are not piled up for ever. */
export const maxUnread = 8 * 1024 * 1024
/** A connection that has opened this stream is not asked again. */
export const lastStreamId = maxWindow - 2

/** What a client says first: how much it takes of each stream and of all together. */
export const greeting = (): Buffer =>
  Buffer.concat([
    preface,
    settingsFrame([
      [setting.enablePush, 0],
      [setting.initialWindowSize, streamWindow],
      [setting.maxHeaderListSize, maxHeaderBytes],
    ]),
    numberFrame(frameType.windowUpdate, 0, connectionWindow - initialWindow),
  ])

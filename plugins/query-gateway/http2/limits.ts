import { frameType, numberFrame, preface, setting, settingsFrame } from './frames.ts'

/** How many bytes may wait in memory for one slow reader. */
export const streamWindow = 256 * 1024
/** How many bytes may wait in memory for all readers together. */
export const connectionWindow = 16 * streamWindow
/** The window of a stream and of a connection before either side changes it (RFC 9113). */
export const initialWindow = 65_535
/** The largest window, and the largest id of a stream (RFC 9113). */
export const maxWindow = 2 ** 31 - 1
/** How many streams this side opens before the other side has sent its own limit. */
export const cautiousStreams = 100
/** The largest header block that this side accepts, in bytes. */
export const maxHeaderBytes = 64 * 1024
/** How many bytes may wait for the other side to read, such as answers to pings, before this side closes the connection. */
export const maxUnread = 8 * 1024 * 1024
/** The last stream id that a connection may open. */
export const lastStreamId = maxWindow - 2

/** The first bytes of a client: the preface, its settings, and the window of the connection. */
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

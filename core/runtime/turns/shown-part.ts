import type { EventPart, MessagePart } from '../../plugin.ts'

/** A part of a result as clients see it: with the id by which its owner reads its bytes. */
export const shownPart = ({ type, mediaType, name, bytes, file }: MessagePart): EventPart => ({
  type,
  mediaType,
  ...(name !== undefined && { name }),
  bytes,
  fileId: file,
})

import type { ServerResponse } from 'node:http'
import { nodeHttp } from '../../base/node-http.ts'

const plain = nodeHttp.ServerResponse.prototype.write

/**
 * Writes a piece of an answer whose length is not known, as its chunk in one piece. `res.write` hands the
 * socket three pieces a chunk, a tick later: for a stream of words that is a good part of what a word costs.
 * False when the reader does not keep up; then the socket emits `drain`, or the answer itself does.
 */
export function writeChunk(res: ServerResponse, text: string): boolean {
  const { socket } = res
  // The first piece brings the headers, behind another answer of its connection this one has no socket yet, and
  // whoever put a `write` of their own in place, to compress for instance, is to see every piece.
  const isOurs = res.headersSent && res.chunkedEncoding && socket !== null && res.write === plain
  if (!isOurs) return res.write(text)
  const bytes = Buffer.byteLength(text)
  const chunk = `${bytes.toString(16)}\r\n${text}\r\n`
  return socket.write(chunk, bytes === text.length ? 'latin1' : 'utf8')
}

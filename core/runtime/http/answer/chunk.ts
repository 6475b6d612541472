import type { ServerResponse } from 'node:http'
import { nodeHttp } from '../../base/node-http.ts'

const plain = nodeHttp.ServerResponse.prototype.write

/**
 * Hands the socket one chunk of an answer of unknown length, in one piece. `res.write` hands over three pieces for a
 * chunk, a tick later: for a stream of words that is a good part of what a word costs. Returns false when the reader does
 * not keep up; then the socket emits `drain`, or the answer itself does.
 */
export function writeChunk(res: ServerResponse, text: string): boolean {
  const { socket } = res
  // What the client sent behind its request was no request: it has been refused, and the socket takes no more bytes.
  if (socket?.writableEnded) {
    res.destroy()
    return false
  }
  // `res.write` takes the text while the headers wait to go out with it, while an earlier answer still has the socket, and
  // where somebody put another `write` in its place, to compress for instance.
  const isOurs = res.headersSent && res.chunkedEncoding && socket !== null && res.write === plain
  if (!isOurs) return res.write(text)
  const bytes = Buffer.byteLength(text)
  const chunk = `${bytes.toString(16)}\r\n${text}\r\n`
  return socket.write(chunk, bytes === text.length ? 'latin1' : 'utf8')
}

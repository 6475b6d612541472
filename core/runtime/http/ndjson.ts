import type { IncomingMessage } from 'node:http'
import { RuntimeError } from '../../errors.ts'
import type { BodyLine } from '../../plugin.ts'
import { bodyKind, decodeText, hasBody, tooLarge } from './body.ts'
import { parseJson } from './safe-json.ts'

/** How long one line of NDJSON may be: as long as a JSON body. */
export const maxLineBytes = 1024 * 1024

const newline = 0x0a

/**
 * The lines of an NDJSON body as they arrive. A line that cannot be read carries its fault and the
 * rest goes on; only a body over `maxBytes` throws. Reads no further than its reader, so a slow
 * handler slows the sender down. The body stays readable when the handler stops early.
 */
export async function* readLines(req: IncomingMessage, maxBytes: number): AsyncGenerator<BodyLine> {
  if (!hasBody(req)) return
  bodyKind(req, ['ndjson'])
  let number = 0
  let size = 0
  const partial = new PartialLine()
  for await (const chunk of req.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > maxBytes) throw tooLarge(maxBytes)
    let start = 0
    for (let end = chunk.indexOf(newline); end >= 0; end = chunk.indexOf(newline, start)) {
      const line = readLine(partial.finish(chunk.subarray(start, end)), ++number)
      start = end + 1
      if (line !== undefined) yield line
    }
    partial.add(chunk.subarray(start))
  }
  const last = readLine(partial.finish(Buffer.alloc(0)), ++number)
  if (last !== undefined) yield last
}

/** The beginning of a line whose end has not arrived. Past the limit it only counts. */
class PartialLine {
  #parts: Buffer[] = []
  #size = 0

  add(part: Buffer): void {
    this.#size += part.length
    if (this.#size > maxLineBytes) this.#parts = []
    else if (part.length > 0) this.#parts.push(part)
  }

  /** The whole line, or undefined when it is too long. */
  finish(end: Buffer): Buffer | undefined {
    if (this.#size === 0 && end.length <= maxLineBytes) return end
    this.add(end)
    const line = this.#size > maxLineBytes ? undefined : Buffer.concat(this.#parts, this.#size)
    this.#parts = []
    this.#size = 0
    return line
  }
}

function readLine(bytes: Buffer | undefined, number: number): BodyLine | undefined {
  const fault = (message: string) => ({ number, fault: { path: '', message } })
  if (bytes === undefined) return fault(`The line is longer than ${maxLineBytes} bytes.`)
  try {
    // JSON ignores the carriage return of a CRLF by itself; a line of nothing but blanks is skipped.
    const text = decodeText(bytes)
    return text.trim() === '' ? undefined : { number, value: parseJson(text) }
  } catch (error) {
    if (error instanceof RuntimeError) return fault(error.message)
    throw error
  }
}

import { isUtf8 } from 'node:buffer'
import type { IncomingMessage } from 'node:http'
import { RuntimeError } from '../../../errors.ts'
import { giveWay } from '../../../manifest/loop-time.ts'
import type { BodyLine } from '../../../plugin.ts'
import type { BodyPrint } from './body-print.ts'
import { bodyKind, decodeText, hasBody, tooLarge, withoutMark } from './body.ts'
import { isPlain, parseJson } from '../../base/safe-json.ts'

/** How long one line of NDJSON may be: as long as a JSON body. */
const maxLineBytes = 1024 * 1024

const newline = 0x0a

/**
 * The lines of an NDJSON body as they arrive. A line that cannot be read carries its fault and the rest goes on; only a
 * body over `maxBytes` throws. The iterator reads no further than the handler asks, so a slow handler slows the sender
 * down; between two lines the iterator gives way to other requests when the work has taken long. The body stays readable
 * when the handler stops early. `print` gets all bytes that are read.
 */
export function readLines(
  req: IncomingMessage,
  maxBytes: number,
  print?: BodyPrint,
): AsyncIterable<BodyLine> {
  const blocks = readBlocks(req, maxBytes, print)
  let number = 0
  let ready: Iterator<BodyLine, undefined> = noLines

  function* linesIn(block: Buffer | undefined): Generator<BodyLine, undefined> {
    // A block that is UTF-8 as a whole is decoded and checked as a whole, any other line by line.
    const text = block && block.length <= maxLineBytes && isUtf8(block) && block.toString('utf8')
    const plain = typeof text === 'string' && isPlain(text)
    for (const line of typeof text === 'string' ? text.split('\n') : linesOf(block)) {
      const read = readLine(line, ++number, plain)
      if (read !== undefined) yield read
    }
  }

  async function refill(): Promise<IteratorResult<BodyLine, undefined>> {
    for (;;) {
      const block = await blocks.next()
      if (block.done) return { done: true, value: undefined }
      ready = linesIn(block.value)
      const line = ready.next()
      if (!line.done) return line
    }
  }

  function next(): Promise<IteratorResult<BodyLine, undefined>> {
    const line = ready.next()
    return line.done ? refill() : Promise.resolve(line)
  }

  // Written by hand: an async generator costs three times as much a line, and most lines are there already.
  const lines: AsyncIterableIterator<BodyLine, undefined> = {
    // `giveWay` counts the reading of a line together with the handler's work on the line before.
    next: () => giveWay()?.then(next) ?? next(),
    async return() {
      ready = noLines
      await blocks.return(undefined)
      return { done: true, value: undefined }
    },
    [Symbol.asyncIterator]: () => lines,
  }
  return lines
}

const noLines: Iterator<BodyLine, undefined> = { next: () => ({ done: true, value: undefined }) }

/** The body as blocks of whole lines, without their last line feed; undefined is a line that is too long. */
async function* readBlocks(
  req: IncomingMessage,
  maxBytes: number,
  print: BodyPrint | undefined,
): AsyncGenerator<Buffer | undefined, undefined> {
  if (!hasBody(req)) return
  bodyKind(req, ['ndjson'])
  let size = 0
  const partial = new PartialLine()
  for await (const chunk of req.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > maxBytes) throw tooLarge(maxBytes)
    print?.add(chunk)
    const first = chunk.indexOf(newline)
    const last = chunk.lastIndexOf(newline)
    if (first >= 0) yield partial.finish(chunk.subarray(0, first))
    if (last > first) yield chunk.subarray(first + 1, last)
    partial.add(chunk.subarray(last + 1))
  }
  print?.end()
  yield partial.finish(Buffer.alloc(0))
}

/** The beginning of a line whose end has not arrived. Past the limit the line only counts its bytes. */
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

function* linesOf(block: Buffer | undefined): Generator<Buffer | undefined> {
  let start = 0
  for (let end = 0; block && end >= 0; start = end + 1) {
    end = block.indexOf(newline, start)
    yield block.subarray(start, end < 0 ? undefined : end)
  }
  if (!block) yield undefined
}

function readLine(
  line: string | Buffer | undefined,
  number: number,
  plain: boolean,
): BodyLine | undefined {
  const fault = (message: string) => ({ number, fault: { path: '', message } })
  if (line === undefined || line.length > maxLineBytes)
    return fault(`The line is longer than ${maxLineBytes} bytes.`)
  try {
    const text = typeof line === 'string' ? withoutMark(line) : decodeText(line)
    // JSON ignores the carriage return of a CRLF by itself; a line of nothing but blanks is skipped.
    return text.trim() === '' ? undefined : { number, value: parseJson(text, plain), text }
  } catch (error) {
    if (error instanceof RuntimeError) return fault(error.message)
    throw error
  }
}

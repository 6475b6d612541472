import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'

/**
 * What a request has read of a body that streams in: how much, whether that was all, and its hash. A
 * repeat is the same request when its body begins with the same bytes; bytes that no handler read are not compared.
 */
export class BodyPrint {
  readonly #hash = createHash('sha256')
  #size = 0
  #isWhole = false

  add(bytes: Buffer): void {
    this.#size += bytes.length
    this.#hash.update(bytes)
  }

  /** Notes that the body had no more bytes. */
  end(): void {
    this.#isWhole = true
  }

  toString(): string {
    const end = this.#isWhole ? 'all' : 'first'
    return `${end} ${this.#size} ${this.#hash.copy().digest('base64')}`
  }
}

/** Whether a body is, or begins with, what a print was taken of. Reads as much of the body as the print covers. */
export async function matchesPrint(req: IncomingMessage, print: string): Promise<boolean> {
  const [end, size] = print.split(' ')
  const wanted = Number(size)
  const read = new BodyPrint()
  let left = wanted
  for await (const chunk of req.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    if (end === 'all' && chunk.length > left) return false
    read.add(chunk.subarray(0, left))
    left -= Math.min(left, chunk.length)
    if (end === 'first' && left === 0) break
  }
  if (end === 'all') read.end()
  return left === 0 && read.toString() === print
}

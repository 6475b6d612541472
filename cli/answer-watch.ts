/** The longest head of an answer that is read; Node's own servers send less. */
const longestHead = 64 * 1024
const lastChunk = '0\r\n\r\n'

/**
 * Follows one answer after another on a connection, as far as it takes to know whether the last one is complete. A server
 * that closes a connection then owes its client nothing, and the next request may go to another server.
 */
export class AnswerWatch {
  #head = ''
  /** How the body ends: after so many bytes, with the last chunk, or in a way that only the end of the connection tells. */
  #body: number | 'chunks' | 'unknown' | undefined
  #tail = ''
  #isWithoutBody = false
  #isComplete = true

  /** Whether every answer so far came to its end on a connection that may be used again. */
  get isComplete(): boolean {
    return this.#isComplete
  }

  /** A request begins. The first bytes say whether its answer has a body. */
  ask(bytes: Buffer): void {
    this.#head = ''
    this.#body = undefined
    this.#tail = ''
    this.#isWithoutBody = bytes.subarray(0, 5).toString('latin1') === 'HEAD '
    this.#isComplete = false
  }

  /** More of the answer came. */
  hear(bytes: Buffer): void {
    if (this.#isComplete || this.#body === 'unknown') {
      // More than was announced: nobody knows what that is.
      this.#body = 'unknown'
      this.#isComplete = false
      return
    }
    const text = bytes.toString('latin1')
    if (this.#body !== undefined) return this.#take(text)
    this.#head += text
    const end = this.#head.indexOf('\r\n\r\n')
    if (end < 0) {
      if (this.#head.length > longestHead) this.#body = 'unknown'
      return
    }
    const rest = this.#head.slice(end + 4)
    this.#head = this.#head.slice(0, end)
    const status = Number(this.#head.slice(9, 12))
    // What comes after "100 Continue" and its like is the answer itself.
    if (status >= 100 && status < 200 && status !== 101) {
      this.#head = ''
      if (rest !== '') this.hear(Buffer.from(rest, 'latin1'))
      return
    }
    this.#body = this.#bodyOf(status)
    this.#take(rest)
  }

  #bodyOf(status: number): number | 'chunks' | 'unknown' {
    const field = (name: string) =>
      new RegExp(`^${name}:[ \\t]*([^\\r\\n]*)$`, 'im').exec(this.#head)?.[1]
    if (status === 101 || /\bclose\b/i.test(field('connection') ?? '')) return 'unknown'
    if (this.#isWithoutBody || status === 204 || status === 304) return 0
    if (/\bchunked\b/i.test(field('transfer-encoding') ?? '')) return 'chunks'
    const length = field('content-length')
    return length === undefined ? 'unknown' : Number(length)
  }

  #take(text: string): void {
    if (this.#body === 'chunks') {
      this.#tail = (this.#tail + text).slice(-lastChunk.length - 2)
      // The last chunk stands behind the line that ends the one before, or begins the body.
      this.#isComplete = this.#tail === `\r\n${lastChunk}` || this.#tail === lastChunk
    } else if (typeof this.#body === 'number') {
      this.#body -= text.length
      if (this.#body < 0) this.#body = 'unknown'
      this.#isComplete = this.#body === 0
    }
  }
}

import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { fieldsIn, parsed, textOf } from './read.ts'

/** What a signature says of itself. */
export interface Signature {
  /** The answer that it was made for. */
  readonly answer: string
  /** Its place among the blocks of that answer. */
  readonly place: number
}

/** Makes signatures that hold for one content at one place of one answer, and tells them from all others. */
export class Signer {
  readonly #secret = randomBytes(32)

  /** Signs a content; the signature is at least so many bytes long. */
  sign({ answer, place }: Signature, content: string, bytes = 0): string {
    const proof = this.#proof(answer, place, content)
    const body = JSON.stringify({ answer, place, proof, pad: 'x'.repeat(Math.ceil(bytes * 0.75)) })
    return Buffer.from(body).toString('base64')
  }

  /** Reads a signature; undefined where it was changed, or was made for another content. */
  read(signature: string, content: string): Signature | undefined {
    const { answer, place, proof } = fieldsIn(
      parsed(Buffer.from(signature, 'base64').toString('utf8')),
    )
    if (typeof answer !== 'string' || typeof place !== 'number') return undefined
    const right = Buffer.from(this.#proof(answer, place, content))
    const given = Buffer.from(textOf(proof))
    const isRight = given.length === right.length && timingSafeEqual(given, right)
    return isRight ? { answer, place } : undefined
  }

  #proof(answer: string, place: number, content: string): string {
    return createHmac('sha256', this.#secret)
      .update(JSON.stringify([answer, place, content]))
      .digest('base64url')
  }
}

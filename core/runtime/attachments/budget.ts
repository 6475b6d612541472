import { fileTooLarge, filesTooLarge, mostBytesTogether, mostFileBytes } from '../files/limits.ts'

/** Counts the bytes of a message's files while they arrive: none is read further than it may be long. */
export class Budget {
  #bytes = 0

  /** Counts a piece of a file that has so many bytes with it. Throws ATTACHMENT_TOO_LARGE. */
  take(name: string, piece: number, soFar: number): void {
    this.#bytes += piece
    if (soFar > mostFileBytes) throw fileTooLarge(name)
    if (this.#bytes > mostBytesTogether) throw filesTooLarge(name)
  }
}

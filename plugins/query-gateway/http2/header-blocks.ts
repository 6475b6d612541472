import { errorCode, flag, frameType, headBytes } from './frames.ts'
import { HeaderDecoder, type Headers } from './hpack.ts'
import { unpadded } from './payload.ts'
import { ProtocolError } from './stream.ts'

/** A complete header block. */
export interface HeaderBlock {
  readonly id: number
  /** Undefined where the headers are larger than allowed. */
  readonly headers: Headers | undefined
  /** Whether the stream ends with this block. */
  readonly ends: boolean
}

/** A header block that is not complete yet. */
interface Block {
  readonly id: number
  readonly flags: number
  readonly pieces: Buffer[]
  bytes: number
}

/** Joins the frames of header blocks, and decodes the blocks. */
export class HeaderBlocks {
  readonly #mostBytes: number
  readonly #decoder: HeaderDecoder
  #open: Block | undefined

  constructor(mostBytes: number) {
    this.#mostBytes = mostBytes
    this.#decoder = new HeaderDecoder(mostBytes)
  }

  /** Refuses a frame that comes in the middle of a block and is not the block's continuation. */
  mustGoOn(type: number, id: number): void {
    const block = this.#open
    if (block !== undefined && (type !== frameType.continuation || id !== block.id))
      throw new ProtocolError('another frame comes in the middle of a header block')
  }

  /** Takes a HEADERS frame; undefined while more of its block is to come. */
  begin(flags: number, id: number, payload: Buffer): HeaderBlock | undefined {
    let piece = flags & flag.padded ? unpadded(payload) : payload
    if (flags & flag.priority) {
      if (piece.length < 5) throw new ProtocolError('a priority is too short', errorCode.frameSize)
      piece = piece.subarray(5)
    }
    return this.#add({ id, flags, pieces: [], bytes: 0 }, flags, piece)
  }

  /** Takes a CONTINUATION frame; undefined while more of its block is to come. */
  goOn(flags: number, payload: Buffer): HeaderBlock | undefined {
    const block = this.#open
    if (block === undefined)
      throw new ProtocolError('a CONTINUATION frame comes without a header block')
    return this.#add(block, flags, payload)
  }

  #add(block: Block, flags: number, piece: Buffer): HeaderBlock | undefined {
    block.bytes += piece.length + headBytes
    if (block.bytes > this.#mostBytes)
      throw new ProtocolError('a header block is larger than allowed', errorCode.enhanceYourCalm)
    if ((flags & flag.endHeaders) === 0) {
      // The piece is copied, because a view would keep its whole chunk in memory.
      block.pieces.push(Buffer.from(piece))
      this.#open = block
      return undefined
    }
    this.#open = undefined
    const whole = block.pieces.length === 0 ? piece : Buffer.concat([...block.pieces, piece])
    // All streams share the table of the decoder, so blocks of ended streams must be decoded too.
    const headers = this.#decoder.decode(whole)
    return { id: block.id, headers, ends: (block.flags & flag.endStream) !== 0 }
  }
}

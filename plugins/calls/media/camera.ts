import { KeyFrames, type PicturePacket, webpOf } from './key-frames.ts'

/**
 * A key frame is asked for again after so long, so often: a browser passes over a question that follows another one within 300 ms,
 * and takes the first one after that. Without a packet for so long the camera is off. A frame that was asked for is the newest for
 * so long: the page sends five in a second.
 */
const asking = { againMs: 50, tries: 40, offMs: 1_500, newestMs: 200 }

/** What a camera's picture is looked at with. */
export interface CameraOptions {
  /** Asks the page for a frame that stands for itself. */
  askFor(source: number): void
  looked(number: number, webp: Uint8Array | undefined): void
}

/** The picture of a page's camera. Packets are dropped as they come, but for those of a frame that was asked for. */
export class Camera {
  readonly #options: CameraOptions
  #source: number | undefined
  #seenAt = -asking.offMs
  #frames: KeyFrames | undefined
  #waiting: number[] = []
  #timer: NodeJS.Timeout | undefined
  #tries = 0
  /** The picture that was asked for last, while it is the newest. */
  #newest: Uint8Array | undefined
  #forgetting: NodeJS.Timeout | undefined

  constructor(options: CameraOptions) {
    this.#options = options
  }

  /** One picture, for the question of this number. */
  look(number: number): void {
    if (performance.now() - this.#seenAt > asking.offMs)
      return this.#options.looked(number, undefined)
    if (this.#newest) return this.#options.looked(number, this.#newest)
    this.#waiting.push(number)
    if (this.#waiting.length > 1) return
    this.#frames = new KeyFrames()
    this.#tries = 0
    this.#ask()
  }

  push(source: number, packet: PicturePacket): void {
    this.#source = source
    this.#seenAt = performance.now()
    const frame = this.#frames?.push(packet)
    if (!frame) return
    this.#newest = webpOf(frame)
    clearTimeout(this.#forgetting)
    this.#forgetting = setTimeout(() => (this.#newest = undefined), asking.newestMs)
    this.#tell(this.#newest)
  }

  close(): void {
    clearTimeout(this.#forgetting)
    this.#newest = undefined
    if (this.#waiting.length > 0) this.#tell(undefined)
  }

  #ask(): void {
    if (this.#source === undefined || ++this.#tries > asking.tries) return this.#tell(undefined)
    this.#options.askFor(this.#source)
    this.#timer = setTimeout(() => this.#ask(), asking.againMs)
  }

  #tell(webp: Uint8Array | undefined): void {
    clearTimeout(this.#timer)
    this.#frames = undefined
    const numbers = this.#waiting
    this.#waiting = []
    for (const number of numbers) this.#options.looked(number, webp)
  }
}

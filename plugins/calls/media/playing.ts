/** How many samples are sent at once: 20 ms at 48 kHz. */
export const sentSamples = 960

/** A part of what the agent says, as sound that is kept until it was sent. */
interface Part {
  readonly id: number
  pieces: Int16Array[]
  samples: number
  sent: number
  isWhole: boolean
}

/** What became of a part. */
export interface Played {
  readonly part: number
  /** The samples that were sent. */
  readonly sent: number
  readonly samples: number
  /** Whether `samples` is all of it: no more sound of the part will come. */
  readonly isWhole: boolean
  readonly isEnd: boolean
  /** A page has told that it hears this: nothing of `sent` is still on its way. */
  readonly isHeard?: boolean
}

/** Sound of a part that was sent without a gap, in the time of the packets: `from` is where the part begins, or would have begun. */
interface Stretch {
  readonly part: Part
  readonly from: number
  readonly begins: number
  /** The samples of the part that were sent up to its end. */
  sent: number
}

/** How much sound may wait: three minutes. */
const mostSamples = 48_000 * 180
/** A page is behind by a second or two: that many stretches, of sentences and of gaps in one, are enough to find where it is. */
const mostStretches = 64

/** What the agent says, frame by frame. It can be held, go on from the beginning of a part, and be dropped. */
export class Playing {
  #parts: Part[] = []
  #stretches: Stretch[] = []
  isHeld = false

  /** Whether something is there to be heard. */
  get isSpeaking(): boolean {
    return !this.isHeld && this.#parts.some(({ sent, samples }) => sent < samples)
  }

  /** More sound of a part; the last piece says that the part is whole. */
  add(id: number, pcm: Int16Array, isLast: boolean): void {
    let part = this.#parts.find((one) => one.id === id)
    if (!part) this.#parts.push((part = { id, pieces: [], samples: 0, sent: 0, isWhole: false }))
    const waiting = this.#parts.reduce((sum, { samples, sent }) => sum + samples - sent, 0)
    if (pcm.length > 0 && waiting < mostSamples) {
      part.pieces.push(pcm)
      part.samples += pcm.length
    }
    part.isWhole ||= isLast
  }

  /** The next 20 ms, or undefined for silence, for the packet of that time; and the part that came to its end with them. */
  next(time: number): { readonly pcm?: Int16Array; readonly ended?: Played } {
    const [part] = this.#parts
    if (!part || this.isHeld) return {}
    const left = part.samples - part.sent
    if (left === 0 && !part.isWhole) return {}
    if (left < sentSamples && !part.isWhole) return {}
    const pcm = left === 0 ? undefined : this.#read(part, Math.min(left, sentSamples), time)
    if (part.sent < part.samples || !part.isWhole) return { ...(pcm && { pcm }) }
    this.#parts.shift()
    part.pieces = []
    return { ...(pcm && { pcm }), ended: played(part, true) }
  }

  /** Where the agent stands: the part that is being said; or the part that a page hears which plays the packet of that time. */
  place(heardTime?: number): Played | undefined {
    if (heardTime !== undefined) return this.#heardAt(heardTime)
    const [part] = this.#parts
    return part && played(part, false)
  }

  #heardAt(time: number): Played | undefined {
    const heard = this.#stretches.findLast(({ begins }) => between(begins, time) >= 0)
    if (!heard) return undefined
    const sent = Math.min(between(heard.from, time), heard.sent)
    return { ...played(heard.part, false), sent, isHeard: true }
  }

  /** Goes on from the beginning of the part that was held. */
  goOn(): void {
    this.isHeld = false
    const [part] = this.#parts
    if (part) part.sent = 0
  }

  /** Forgets what was not sent yet. */
  drop(): void {
    this.#parts = []
    this.#stretches = []
    this.isHeld = false
  }

  #read(part: Part, count: number, time: number): Int16Array {
    const frame = new Int16Array(sentSamples) // the last frame of a part ends in silence
    let skipped = part.sent
    let filled = 0
    for (const piece of part.pieces) {
      if (skipped >= piece.length) {
        skipped -= piece.length
        continue
      }
      const taken = piece.subarray(skipped, skipped + count - filled)
      frame.set(taken, filled)
      filled += taken.length
      skipped = 0
      if (filled === count) break
    }
    this.#remember(part, time, part.sent + count)
    part.sent += count
    return frame
  }

  #remember(part: Part, begins: number, sent: number): void {
    const from = (begins - part.sent) >>> 0
    const last = this.#stretches.at(-1)
    if (last?.part === part && last.from === from) last.sent = sent
    else this.#stretches = [...this.#stretches, { part, from, begins, sent }].slice(-mostStretches)
  }
}

/** From one time of packets to another. It begins anew after 2^32. */
const between = (from: number, to: number) => (to - from) | 0

const played = ({ id, sent, samples, isWhole }: Part, isEnd: boolean): Played => ({
  part: id,
  ...{ sent, samples, isWhole, isEnd },
})

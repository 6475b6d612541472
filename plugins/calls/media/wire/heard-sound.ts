/** So much sound goes to the other thread at once: 100 ms of 16 kHz. Each time wakes it. */
const givenSamples = 1_600

/** Gathers what is said. Whatever happens to it, the sound before that has been given. */
export class HeardSound {
  readonly #take: (pcm: Int16Array) => void
  #frames: Int16Array[] = []
  #samples = 0

  constructor(take: (pcm: Int16Array) => void) {
    this.#take = take
  }

  push(pcm: Int16Array): void {
    this.#frames.push(pcm)
    this.#samples += pcm.length
    if (this.#samples >= givenSamples) this.#give()
  }

  /** Gives what there is, before this event is told. */
  give<Event>(event: Event): Event {
    if (this.#samples > 0) this.#give()
    return event
  }

  #give(): void {
    const sound = new Int16Array(this.#samples)
    let at = 0
    for (const frame of this.#frames) {
      sound.set(frame, at)
      at += frame.length
    }
    this.#frames = []
    this.#samples = 0
    this.#take(sound)
  }
}

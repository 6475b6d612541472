import type { FromMedia } from '../media/messages.ts'

/** Where the sound stood when it was ended. */
export type Dropped = Extract<FromMedia, { type: 'dropped' }>

/** How long the sound may take to say where it stands. */
const placeMs = 1_000

/** Ends the sound, and learns where it stood. Whoever asks meanwhile hears the same answer. */
export class Silencing {
  #waiting: PromiseWithResolvers<Dropped | undefined> | undefined

  get isUnderWay(): boolean {
    return this.#waiting !== undefined
  }

  /** Resolves to where the sound stood; to undefined where it does not say so in time. */
  place(end: () => void): Promise<Dropped | undefined> {
    if (this.#waiting) return this.#waiting.promise
    this.#waiting = Promise.withResolvers()
    const { promise } = this.#waiting
    const late = setTimeout(() => this.stands(undefined), placeMs)
    void promise.then(() => clearTimeout(late))
    end()
    return promise
  }

  /** The sound stands there, and has ended. */
  stands(place: Dropped | undefined): void {
    this.#waiting?.resolve(place)
    this.#waiting = undefined
  }
}

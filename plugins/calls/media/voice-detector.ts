import fvad from '@echogarden/fvad-wasm'

/** A frame is 20 ms at 16 kHz. */
export const frameSamples = 320
/** The strictest of the detector's four modes. */
const mode = 3
/** How far voice stands above the background, in decibels; how the background follows what is heard. */
const floor = { aboveDb: 10, upDbPerFrame: 0.06, startDb: -60, leastDb: -70 }
/** Sound that stays so even for so many frames is a machine's. So many quiet frames, and it is other sound. */
const even = { db: 1.5, frames: 20, leastFrames: 5, quietFrames: 6 }

/** Says of each frame whether somebody speaks. */
export interface VoiceDetector {
  isVoice(frame: Int16Array): boolean
  free(): void
}

/** Makes a detector: what WebRTC takes for voice, is well above the background, and goes up and down as speech does. */
export async function voiceDetector(): Promise<VoiceDetector> {
  const made = await fvad()
  const handle = made._fvad_new()
  if (handle === 0) throw new Error('The voice detector could not be made.')
  made._fvad_set_mode(handle, mode)
  made._fvad_set_sample_rate(handle, 16_000)
  const place = made._malloc(frameSamples * 2)
  let background = floor.startDb
  const evenness = new Evenness()
  return {
    isVoice(frame) {
      const level = decibels(frame)
      const isAbove = level > background + floor.aboveDb
      // The background follows at once downwards, and slowly upwards: steady noise is background after some seconds.
      background = Math.max(floor.leastDb, Math.min(level, background + floor.upDbPerFrame))
      const isEven = evenness.push(isAbove ? level : undefined)
      made.HEAP16.set(frame, place >> 1)
      return made._fvad_process(handle, place, frameSamples) === 1 && isAbove && !isEven
    },
    free() {
      made._free(place)
      made._fvad_free(handle)
    },
  }
}

/** Says whether sound stays as loud as it is. */
class Evenness {
  #levels: number[] = []
  #quietFrames = even.quietFrames

  /** The level of a frame, or nothing for one that is background. */
  push(level: number | undefined): boolean {
    const isFirst = this.#quietFrames >= even.quietFrames
    this.#quietFrames = level === undefined ? this.#quietFrames + 1 : 0
    if (isFirst) this.#levels = []
    // Sound begins somewhere in its first frame, which says nothing of how loud it is.
    if (level === undefined || isFirst) return false
    this.#levels.push(level)
    if (this.#levels.length > even.frames) this.#levels.shift()
    if (this.#levels.length < even.leastFrames) return false
    const mean = this.#levels.reduce((sum, one) => sum + one, 0) / this.#levels.length
    const spread = this.#levels.reduce((sum, one) => sum + (one - mean) ** 2, 0)
    return Math.sqrt(spread / this.#levels.length) < even.db
  }
}

/** How loud a frame is, below the loudest that can be. */
export function decibels(frame: Int16Array): number {
  let sum = 0
  for (const sample of frame) sum += sample * sample
  return 10 * Math.log10(Math.max(sum / Math.max(frame.length, 1), 1e-3) / (32_768 * 32_768))
}

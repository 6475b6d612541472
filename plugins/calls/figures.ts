import type { Metrics } from '#core'
import type { EndedBy } from './tables.ts'

/** The median of so many of the newest calls is told. */
const mostSetUps = 100

/** The figures of calls, for `GET /metrics`, and in one sentence for `GET /health`. */
export class Figures {
  readonly #sum = { begun: 0, seconds: 0, interruptions: 0, lateFrames: 0, underWay: 0 }
  readonly #setUps: number[] = []
  readonly #lateFrames
  readonly #begun
  readonly #ended
  readonly #seconds
  readonly #utterances
  readonly #interruptions
  readonly #underWay
  readonly #setUp

  constructor(metrics: Metrics) {
    this.#begun = metrics.counter('begun_total', 'Calls that were answered, by their kind.', [
      'type',
    ])
    this.#ended = metrics.counter('ended_total', 'Calls that ended, by who or what ended them.', [
      'by',
    ])
    this.#seconds = metrics.counter('seconds_total', 'Seconds of calls that have ended.')
    this.#utterances = metrics.counter('utterances_total', 'What people said in calls, by count.')
    this.#interruptions = metrics.counter('interruptions_total', 'Replies that people interrupted.')
    this.#underWay = metrics.gauge('under_way', 'Calls of this process.')
    this.#setUp = metrics.histogram('set_up_seconds', 'From the answer to the page in the call.')
    this.#lateFrames = metrics.counter(
      'late_frames_total',
      'Frames of 20 ms that were sent over 20 ms late.',
    )
  }

  begun(type: string, underWay: number): void {
    this.#begun.add({ type })
    this.#sum.begun++
    this.#now(underWay)
  }

  connected(seconds: number): void {
    this.#setUp.observe(seconds)
    this.#setUps.push(seconds)
    if (this.#setUps.length > mostSetUps) this.#setUps.shift()
  }

  late(frames: number): void {
    this.#lateFrames.add({}, frames)
    this.#sum.lateFrames += frames
  }

  /** What has happened since the start; undefined where nobody has called. */
  get inWords(): string | undefined {
    const { begun, underWay, seconds, interruptions, lateFrames } = this.#sum
    if (begun === 0) return undefined
    const sorted = this.#setUps.toSorted((a, b) => a - b)
    const median = sorted[Math.floor(sorted.length / 2)]
    const setUp = median === undefined ? '' : `, set up in ${Math.round(median * 1_000)} ms (p50)`
    return (
      `Calls since the start: ${begun}, of them under way: ${underWay}; ${Math.round(seconds)} seconds of those that ended${setUp}; ` +
      `interruptions: ${interruptions}; late frames: ${lateFrames}.`
    )
  }

  ended(
    by: EndedBy,
    underWay: number,
    course: {
      readonly seconds: number
      readonly utterances: number
      readonly interruptions: number
    },
  ): void {
    this.#ended.add({ by })
    this.#seconds.add({}, course.seconds)
    this.#utterances.add({}, course.utterances)
    this.#interruptions.add({}, course.interruptions)
    this.#sum.seconds += course.seconds
    this.#sum.interruptions += course.interruptions
    this.#now(underWay)
  }

  #now(underWay: number): void {
    this.#sum.underWay = underWay
    this.#underWay.set(underWay)
  }
}

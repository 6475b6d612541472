import type { Metrics } from '#core'
import type { EndedBy } from './tables.ts'

/** The figures of calls, for `GET /metrics`. */
export class Figures {
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
  }

  begun(type: string, underWay: number): void {
    this.#begun.add({ type })
    this.#underWay.set(underWay)
  }

  connected(seconds: number): void {
    this.#setUp.observe(seconds)
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
    this.#underWay.set(underWay)
  }
}

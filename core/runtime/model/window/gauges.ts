import type { RuntimeError } from '../../../errors.ts'
import type { Log, Model } from '../../../plugin.ts'
import { fieldsIn } from '../../base/fields.ts'

/** How many tokens a model is taken to read that does not say. */
export const usualWindow = 128_000

/** How many bytes a token has before anything was measured, and between which figures a measured one may lie. */
const firstRatio = 3.5
const [leastRatio, mostRatio] = [1.5, 6]
/** How much the newest call counts at least, against all before it. */
const leastWeight = 0.2
/** A short request says little: what every provider adds to it weighs too much. */
const leastBytes = 2_000
/** Below this estimate nobody can tell a server that cuts from one that counts differently. */
const leastTokensToCut = 1_000
/** The least that a refusal without a number teaches. */
const leastWindow = 500
/** How many models are remembered; each id is one that the operator wrote down. */
const mostModels = 1000

/** How much one model reads, as far as its calls have shown. */
export class Gauge {
  readonly #log: Log | undefined
  #ratio = firstRatio
  #calls = 0
  /** The window that a refusal named, or that follows from one. */
  #learned: number | undefined
  /** Whether the provider has named the window that was learned. */
  #isNamed = false
  #halves = 0

  constructor(log?: Log) {
    this.#log = log
  }

  /** How many bytes a token has; undefined before the first call. */
  get measured(): number | undefined {
    return this.#calls > 0 ? this.#ratio : undefined
  }

  /** About how many tokens so many bytes are. */
  tokens(bytes: number): number {
    return Math.ceil(bytes / this.#ratio)
  }

  /** About how many bytes so many tokens are. */
  bytes(tokens: number): number {
    return Math.floor(tokens * this.#ratio)
  }

  /** How many tokens the model reads: what is set or said of it, and never more than a refusal has shown. */
  window({ contextWindow }: Model): number {
    return Math.min(contextWindow ?? this.#learned ?? usualWindow, this.#learned ?? Infinity)
  }

  /** The same, but for what was only concluded from a refusal: by this models are compared. */
  saidWindow({ contextWindow = usualWindow }: Model): number {
    return this.#isNamed ? Math.min(contextWindow, this.#learned ?? Infinity) : contextWindow
  }

  /** Whether anybody has said how much the model reads. */
  isKnown({ contextWindow }: Model): boolean {
    return contextWindow !== undefined || this.#learned !== undefined
  }

  /** Takes what the provider counted of a request with so many bytes. */
  note({ id }: Model, bytes: number, inputTokens: number): void {
    if (bytes < leastBytes || inputTokens <= 0) return
    const expected = this.tokens(bytes)
    if (expected >= leastTokensToCut && inputTokens < expected / 2) {
      if (++this.#halves === 2)
        this.#log?.warn(
          { model: id, expected, inputTokens },
          `The server of "${id}" counted ${inputTokens} tokens where about ${expected} were sent: it seems to cut ` +
            'conversations. Give the server a larger window, or set MODEL_CONTEXT_WINDOW to the one that it has.',
        )
      return // what was cut says nothing of how many bytes a token has
    }
    this.#measure(bytes / inputTokens)
  }

  /** Learns from a refusal of a request with so many bytes, because it was too long. */
  refused({ details }: Pick<RuntimeError, 'details'>, bytes: number): void {
    const { window, tokens } = fieldsIn(details)
    if (typeof tokens === 'number' && tokens > 0) this.#measure(bytes / tokens, 0.5)
    if (typeof window === 'number' && window > 0) {
      this.#learned = window
      this.#isNamed = true
      // Where only the window was named, the request had more tokens than that, whatever was expected.
      if (typeof tokens !== 'number' && this.tokens(bytes) <= window)
        this.#measure(bytes / (window * 1.1), 1)
      return
    }
    const half = Math.floor((typeof tokens === 'number' ? tokens : this.tokens(bytes)) / 2)
    this.#learned = Math.max(leastWindow, Math.min(half, this.#learned ?? Infinity))
  }

  #measure(ratio: number, atLeast = leastWeight): void {
    const within = Math.min(mostRatio, Math.max(leastRatio, ratio))
    const weight = Math.max(atLeast, 1 / (this.#calls + 2))
    this.#ratio += (within - this.#ratio) * weight
    this.#calls++
  }
}

/** The gauges of an app's models. */
export class Gauges {
  readonly #log: Log | undefined
  readonly #gauges = new Map<string, Gauge>()

  constructor(log?: Log) {
    this.#log = log
  }

  /** The gauge of a model. */
  of({ id }: Pick<Model, 'id'>): Gauge {
    let gauge = this.#gauges.get(id)
    if (!gauge) {
      if (this.#gauges.size >= mostModels) this.#gauges.clear()
      this.#gauges.set(id, (gauge = new Gauge(this.#log)))
    }
    return gauge
  }

  /** How many tokens a model reads, as far as somebody has said so. */
  readonly windowOf = (model: Model): number => this.of(model).saidWindow(model)
}

import { RuntimeError } from '../../errors.ts'
import type { MetricCounter, MetricGauge, MetricHistogram, MetricLabels } from '../../plugin.ts'

/** How many sets of label values one metric has; further ones count as `other`. */
export const mostSeries = 2_000
/** How many metrics there may be, those of all plugins together. */
const mostMetrics = 1_000
const usualBounds: readonly number[] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
const mostBounds = 30
const namePattern = /^[a-z][a-z0-9_]{0,119}$/
const labelPattern = /^[a-z][a-z0-9_]{0,39}$/
/** MetricLabels that the format keeps for itself. */
const reserved = new Set(['le', 'quantile'])
const longestLabel = 100

type Kind = 'counter' | 'gauge' | 'histogram'

/** One set of label values: its place in the text, and its figures. */
interface Series {
  readonly labels: string
  value: number
  /** Of a histogram: how many values each bucket has, the last for those above all bounds. */
  readonly buckets?: number[]
  count: number
}

/** One metric with all its series. */
export class Metric implements MetricCounter, MetricGauge, MetricHistogram {
  readonly kind: Kind
  readonly #name: string
  readonly #help: string
  readonly #labels: readonly string[]
  readonly #bounds: readonly number[]
  readonly #series = new Map<string, Series>()

  constructor(
    kind: Kind,
    name: string,
    help: string,
    labels: readonly string[],
    bounds = usualBounds,
  ) {
    this.kind = kind
    this.#name = name
    this.#help = help
    this.#labels = labels
    this.#bounds = bounds
  }

  add(labels?: MetricLabels, by = 1): void {
    if (by >= 0 && Number.isFinite(by)) this.#of(labels).value += by
  }

  /** The same as `add` for labels that come again and again: whoever keeps it looks nothing up. */
  adder(labels: MetricLabels): () => void {
    const series = this.#of(labels)
    return () => void series.value++
  }

  set(value: number, labels?: MetricLabels): void {
    if (Number.isFinite(value)) this.#of(labels).value = value
  }

  observe(value: number, labels?: MetricLabels): void {
    if (!Number.isFinite(value)) return
    const series = this.#of(labels)
    let at = 0
    // A bound beyond the last is undefined, and no value is more than that.
    while (value > (this.#bounds[at] ?? Infinity)) at++
    if (series.buckets) series.buckets[at] = (series.buckets[at] ?? 0) + 1
    series.value += value
    series.count++
  }

  /** Forgets every series, for a gauge that is read anew. */
  clear(): void {
    this.#series.clear()
  }

  /** The metric as the exposition format has it. */
  *lines(): Generator<string> {
    const name = this.#name
    yield `# HELP ${name} ${this.#help.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')}`
    yield `# TYPE ${name} ${this.kind}`
    for (const { labels, value, buckets, count } of this.#series.values()) {
      if (!buckets) {
        yield `${name}${braced(labels)} ${value}`
        continue
      }
      let sum = 0
      for (const [at, some] of buckets.entries()) {
        sum += some
        const le = `le="${this.#bounds[at] ?? '+Inf'}"`
        yield `${name}_bucket${braced(labels ? `${labels},${le}` : le)} ${sum}`
      }
      yield `${name}_sum${braced(labels)} ${value}`
      yield `${name}_count${braced(labels)} ${count}`
    }
  }

  #of(given: MetricLabels | undefined): Series {
    let key = ''
    // A metric without labels has one series, and its key is empty.
    for (const label of this.#labels) key += `${given?.[label] ?? ''}\n`
    const known = this.#series.get(key)
    if (known) return known
    if (this.#labels.length > 0 && this.#series.size >= mostSeries) return this.#other()
    return this.#add(key, (label) => given?.[label] ?? '')
  }

  /** The series of everything that comes once there are as many as there may be. */
  #other(): Series {
    return this.#series.get('other') ?? this.#add('other', () => 'other')
  }

  #add(key: string, valueOf: (label: string) => string): Series {
    const labels = this.#labels.map((label) => `${label}="${escaped(valueOf(label))}"`).join(',')
    const buckets =
      this.kind === 'histogram' ? Array<number>(this.#bounds.length + 1).fill(0) : undefined
    const series: Series = { labels, value: 0, count: 0, ...(buckets && { buckets }) }
    this.#series.set(key, series)
    return series
  }
}

const braced = (labels: string) => (labels ? `{${labels}}` : '')

const escaped = (value: string): string =>
  String(value)
    .slice(0, longestLabel)
    .toWellFormed()
    .replaceAll('\\', '\\\\')
    .replaceAll('"', '\\"')
    .replaceAll('\n', '\\n')

/** What a metric is made of. */
export interface MetricShape {
  readonly kind: Kind
  readonly name: string
  readonly help: string
  readonly labels?: readonly string[]
  readonly bounds?: readonly number[]
}

/** Every metric of an app, by its name. */
export class Registry {
  readonly #metrics = new Map<string, Metric>()
  readonly #readers: (() => void | Promise<void>)[] = []

  /** Makes a metric. Throws METRIC_INVALID for one that cannot be, with what is wrong. */
  make({ kind, name, help, labels = [], bounds }: MetricShape): Metric {
    const fault = this.#fault({ kind, name, help, labels, bounds })
    if (fault)
      throw new RuntimeError(
        'METRIC_INVALID',
        `The metric "${String(name).slice(0, 130)}" cannot be: ${fault}.`,
        {
          hint: 'Names are small letters, digits and "_", once in an app; a counter ends in "_total".',
        },
      )
    const metric = new Metric(kind, name, help, [...labels], bounds)
    this.#metrics.set(name, metric)
    return metric
  }

  /** Calls a function before each reading, which sets what is only known then. */
  beforeReading(read: () => void | Promise<void>): void {
    this.#readers.push(read)
  }

  /** Everything as text, in the exposition format 0.0.4 of Prometheus. */
  async text(): Promise<string> {
    await Promise.all(this.#readers.map(async (read) => read()))
    const lines: string[] = []
    for (const metric of this.#metrics.values()) lines.push(...metric.lines())
    return `${lines.join('\n')}\n`
  }

  #fault({ kind, name, help, labels = [], bounds }: MetricShape): string | undefined {
    if (typeof name !== 'string' || !namePattern.test(name)) return 'its name is not well formed'
    if ((kind === 'counter') !== name.endsWith('_total'))
      return 'a counter, and nothing else, ends in "_total"'
    if (/_(bucket|sum|count)$/.test(name)) return 'its name ends as those of histograms do'
    if (this.#metrics.has(name)) return 'there is one of that name already'
    if (this.#metrics.size >= mostMetrics) return `there are ${mostMetrics} metrics already`
    if (typeof help !== 'string' || help.trim() === '') return 'it has no help text'
    const isWrong = (label: string) => !labelPattern.test(label) || reserved.has(label)
    if (labels.length > 10 || new Set(labels).size < labels.length || labels.some(isWrong))
      return 'its labels are not at most 10 different names of small letters, digits and "_"'
    const isRising = bounds?.every(
      (bound, at) => Number.isFinite(bound) && bound > (bounds[at - 1] ?? -Infinity),
    )
    if (bounds && (bounds.length === 0 || bounds.length > mostBounds || !isRising))
      return `its bounds are not 1 to ${mostBounds} rising numbers`
    return undefined
  }
}

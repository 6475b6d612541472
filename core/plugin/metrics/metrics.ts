/** The values of a metric's labels: names from code, such as a kind or an outcome, and never ids, users or texts. */
export type MetricLabels = Readonly<Record<string, string>>

/** A figure that only grows. */
export interface MetricCounter {
  /** Adds to it, one by default. */
  add(labels?: MetricLabels, by?: number): void
}

/** A figure that goes up and down. */
export interface MetricGauge {
  set(value: number, labels?: MetricLabels): void
}

/** How values are spread: how many were at most so large. */
export interface MetricHistogram {
  /** Takes in a value, such as a time in seconds. */
  observe(value: number, labels?: MetricLabels): void
}

/**
 * Makes metrics of the plugin, in its `setup`. Each is told at `GET /metrics` as `<plugin>_<name>`; names are small letters,
 * digits and `_`, and that of a counter ends in `_total`. A metric has at most 2,000 sets of label values; what comes beyond
 * counts as `other`.
 */
export interface Metrics {
  counter(name: string, help: string, labels?: readonly string[]): MetricCounter
  gauge(name: string, help: string, labels?: readonly string[]): MetricGauge
  /** `bounds` are the upper bounds of the buckets, rising; by default from 5 ms to 10 s, in seconds. */
  histogram(
    name: string,
    help: string,
    labels?: readonly string[],
    bounds?: readonly number[],
  ): MetricHistogram
}

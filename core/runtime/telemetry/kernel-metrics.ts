import type { ModelCall } from '../../plugin.ts'
import type { Metric, Registry } from './registry.ts'

/** How a request ended, as far as it is counted. */
export interface EndedRequest {
  /** The key of the route, such as `GET /runs/:runId`; undefined where no route was found. */
  readonly route?: string
  readonly plugin?: string
  readonly method: string
  readonly status: number
  readonly code?: string
  /** Absent for sockets, and for event streams, which are open as long as their readers like. */
  readonly ms?: number
}

/** How a call of a tool ended, as far as it is counted. */
export interface EndedTool {
  readonly tool: string
  readonly plugin: string
  readonly outcome: ToolEnd
  readonly ms: number
}

/** What became of a call of a tool. */
export type ToolEnd = 'done' | 'refused' | 'failed' | 'waits' | 'unknown'

/** Methods that clients use. Any other counts as `other`, because a client may send any word that Node knows. */
const methods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])

const slowBounds = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300]

/** How many routes are remembered: more than any app has. */
const mostRoutes = 2_000

/** What the kernel counts of its own work. */
export class KernelMetrics {
  readonly #requests: Metric
  /** How to count a request, by its route and its status. */
  readonly #ofRoute = new Map<string | undefined, (() => void)[]>()
  readonly #requestSeconds: Metric
  readonly #refused: Metric
  readonly #turns: Metric
  readonly #turnSeconds: Metric
  readonly #firstToken: Metric
  readonly #modelCalls: Metric
  readonly #tokens: Metric
  readonly #tools: Metric
  readonly #toolSeconds: Metric
  readonly #takeovers: Metric
  readonly #leaseLosses: Metric
  readonly #unknown: Metric
  readonly #jobRuns: Metric
  readonly #jobSeconds: Metric
  readonly #database: Metric
  readonly #spans: Metric

  constructor(registry: Registry) {
    const counter = (name: string, help: string, labels?: readonly string[]) =>
      registry.make({ kind: 'counter', name, help, labels })
    const times = (
      name: string,
      help: string,
      labels?: readonly string[],
      bounds?: readonly number[],
    ) => registry.make({ kind: 'histogram', name, help, labels, bounds })
    this.#requests = counter('oracle_http_requests_total', 'Requests that ended.', [
      'route',
      'plugin',
      'method',
      'status',
    ])
    this.#requestSeconds = times(
      'oracle_http_seconds',
      'How long requests took, event streams aside.',
    )
    this.#refused = counter('oracle_refused_total', 'Requests that a limit refused with 429.', [
      'limit',
    ])
    this.#turns = counter('oracle_turns_total', 'Turns that ended here, or wait for a person.', [
      'status',
      'cause',
      'source',
    ])
    this.#turnSeconds = times('oracle_turn_seconds', 'How long turns took.', [], slowBounds)
    const ofModel = ['model']
    this.#firstToken = times(
      'oracle_first_token_seconds',
      'How long models took to their first word.',
      ofModel,
      slowBounds,
    )
    this.#modelCalls = counter('oracle_model_calls_total', 'Calls of models that ended.', [
      'model',
      'code',
    ])
    this.#tokens = counter('oracle_model_tokens_total', 'Tokens that models read and wrote.', [
      'model',
      'kind',
    ])
    this.#tools = counter('oracle_tool_calls_total', 'Calls of tools that ended.', [
      'tool',
      'plugin',
      'outcome',
    ])
    this.#toolSeconds = times(
      'oracle_tool_seconds',
      'How long calls of tools took.',
      [],
      slowBounds,
    )
    this.#takeovers = counter('oracle_takeovers_total', 'Runs that this process took over.')
    this.#leaseLosses = counter(
      'oracle_lease_losses_total',
      'Runs that this process had to let go of.',
    )
    this.#unknown = counter(
      'oracle_unknown_outcomes_total',
      'Writes of which nobody knows whether they happened.',
    )
    this.#jobRuns = counter('oracle_job_attempts_total', 'Attempts of jobs that ended.', [
      'plugin',
      'name',
      'outcome',
    ])
    this.#jobSeconds = times(
      'oracle_job_seconds',
      'How long attempts of jobs took.',
      [],
      slowBounds,
    )
    this.#database = times('oracle_db_seconds', 'How long transactions took.', ['kind'])
    this.#spans = counter('oracle_spans_total', 'Spans that ended, were exported, or were lost.', [
      'outcome',
    ])
    for (const never of [this.#takeovers, this.#leaseLosses, this.#unknown]) never.add(undefined, 0)
  }

  request({ route, plugin, method, status, code, ms }: EndedRequest): void {
    // Every request comes by here, so what is known of its route is looked up and not put together again.
    const known = this.#ofRoute.get(route)?.[status]
    if (known) known()
    else this.#addRequest(route, plugin, method, status)
    if (ms !== undefined) this.#requestSeconds.observe(ms / 1000)
    if (status === 429) this.#refused.add({ limit: code ?? 'other' })
  }

  #addRequest(
    route: string | undefined,
    plugin: string | undefined,
    method: string,
    status: number,
  ): void {
    const add = this.#requests.adder({
      route: route?.replace(/^[A-Z]+ /, '') ?? 'none',
      plugin: plugin ?? 'none',
      method: methods.has(method) ? method : 'other',
      status: String(status),
    })
    add()
    // The key of a route has its method; a web module, or no route at all, has many.
    if (route === undefined || !route.startsWith(`${method} `)) return
    const statuses = this.#ofRoute.get(route) ?? []
    statuses[status] = add
    if (this.#ofRoute.size < mostRoutes) this.#ofRoute.set(route, statuses)
  }

  turn(end: {
    readonly status: string
    readonly cause?: string
    readonly source: string
    readonly ms: number
  }): void {
    const { status, cause = 'none', source, ms } = end
    this.#turns.add({ status, cause, source })
    this.#turnSeconds.observe(ms / 1000)
  }

  modelCall({ model, usage, firstMs, code }: ModelCall): void {
    this.#modelCalls.add({ model, code: code ?? 'none' })
    if (firstMs !== undefined) this.#firstToken.observe(firstMs / 1000, { model })
    const { inputTokens, outputTokens, cachedTokens, cacheWriteTokens } = usage
    if (inputTokens) this.#tokens.add({ model, kind: 'input' }, inputTokens)
    if (outputTokens) this.#tokens.add({ model, kind: 'output' }, outputTokens)
    if (cachedTokens) this.#tokens.add({ model, kind: 'cache_read' }, cachedTokens)
    if (cacheWriteTokens) this.#tokens.add({ model, kind: 'cache_write' }, cacheWriteTokens)
  }

  tool({ tool, plugin, outcome, ms }: EndedTool): void {
    this.#tools.add({ tool, plugin, outcome })
    this.#toolSeconds.observe(ms / 1000)
    if (outcome === 'unknown') this.#unknown.add()
  }

  takeover(): void {
    this.#takeovers.add()
  }

  leaseLost(): void {
    this.#leaseLosses.add()
  }

  job({
    plugin,
    name,
    outcome,
    ms,
  }: {
    readonly plugin: string
    readonly name: string
    readonly outcome: string
    readonly ms: number
  }): void {
    this.#jobRuns.add({ plugin, name, outcome })
    this.#jobSeconds.observe(ms / 1000)
  }

  database(kind: 'begin' | 'steps', ms: number): void {
    this.#database.observe(ms / 1000, { kind })
  }

  spans(outcome: 'ended' | 'exported' | 'lost', count: number): void {
    this.#spans.add({ outcome }, count)
  }
}

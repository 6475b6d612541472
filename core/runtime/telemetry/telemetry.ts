import type { AllowedHost } from '../../manifest/allowed-hosts.ts'
import type { EnvSource } from '../../manifest/env.ts'
import type { Log, ModelCall, TurnUsage } from '../../plugin.ts'
import { attributes as a } from './conventions.ts'
import { KernelMetrics, type EndedTool } from './kernel-metrics.ts'
import { openTracer } from './otel.ts'
import { ProcessMetrics } from './process-metrics.ts'
import { Registry } from './registry.ts'
import { shareOf } from './share.ts'
import type { TraceSpan, Tracer } from './span.ts'
import { type TurnReport, type Told, TurnWatch, type WatchedTurn } from './turn-watch.ts'

/** Which lines there are. */
export interface LineRules {
  readonly mode: 'all' | 'errors' | 'off'
  /** The share of successes that leave a line. */
  readonly sample: number
  /** A model that takes longer to its first word leaves a line. */
  readonly slowMs: number
}

/** What telemetry is made of. */
export interface TelemetryOptions {
  readonly log: Log
  readonly rules: LineRules
  /** Whether the journal keeps how long the steps of runs took. */
  readonly traces: boolean
  /** The hosts that are told which span a request of a plugin belongs to. */
  readonly propagateTo?: readonly AllowedHost[]
  /** Whether spans hold the words of conversations. */
  readonly words?: boolean
  /** The environment, which says where spans go. */
  readonly source: EnvSource
  /** What the agent is called. */
  readonly name: string
}

/** How an attempt of a job ended. */
export interface EndedJob {
  readonly plugin: string
  readonly name: string
  readonly attempt: number
  readonly outcome: string
  readonly ms: number
  /** The span of the work that asked for the job. */
  readonly traceparent?: string
}

/** Tells of the work of the server as it ends: by lines of the log, by metrics, and by spans where somebody collects them. */
export class Telemetry implements Told {
  readonly registry: Registry
  readonly metrics: KernelMetrics
  readonly tracer: Tracer | undefined
  readonly traces: boolean
  readonly propagateTo: readonly AllowedHost[]
  readonly hasWords: boolean
  readonly #process: ProcessMetrics
  readonly #log: Log
  readonly #rules: LineRules
  readonly #name: string
  readonly #databaseName: string

  private constructor(
    options: TelemetryOptions,
    registry: Registry,
    metrics: KernelMetrics,
    tracer?: Tracer,
  ) {
    const { log, rules, name, traces } = options
    this.registry = registry
    this.metrics = metrics
    this.tracer = tracer
    this.traces = traces
    this.propagateTo = options.propagateTo ?? []
    this.hasWords = tracer !== undefined && options.words === true
    this.#process = new ProcessMetrics(registry)
    this.#log = log
    this.#rules = rules
    this.#name = name
    this.#databaseName = options.source.DATABASE_URL ? 'postgresql' : 'sqlite'
  }

  static async open(options: TelemetryOptions): Promise<Telemetry> {
    const registry = new Registry()
    const metrics = new KernelMetrics(registry)
    const tracer = await openTracer({ ...options, metrics })
    return new Telemetry(options, registry, metrics, tracer)
  }

  /** Begins to watch the process, once the server listens. */
  open(): void {
    this.#process.open()
  }

  async close(): Promise<void> {
    this.#process.close()
    await this.tracer?.close()
  }

  /** Watches a turn that this process carries from now on. */
  watch(turn: WatchedTurn): TurnWatch {
    if (turn.takenOver) {
      this.metrics.takeover()
      const { runId, sessionId, requestId } = turn
      if (this.#rules.mode !== 'off') this.#log.warn({ runId, sessionId, requestId }, 'takeover')
    }
    const span = turn.span ?? this.beginTurn(turn.sessionId, turn.traceparent, true)
    span?.tell({ [a.run]: turn.runId })
    return new TurnWatch(this, turn, span)
  }

  /** Begins the span of a turn; undefined where nobody collects any. `goesOn`: an earlier span of the same turn was cut or waits. */
  beginTurn(sessionId: string, traceparent?: string, goesOn = false): TraceSpan | undefined {
    return this.tracer?.begin({
      name: `invoke_agent ${this.#name}`,
      kind: 'internal',
      ...(traceparent !== undefined && { parent: traceparent }),
      ...(traceparent !== undefined && goesOn && { links: [traceparent] }),
      attributes: {
        [a.operation]: 'invoke_agent',
        [a.agent]: this.#name,
        [a.conversation]: sessionId,
      },
    })
  }

  turn({ source, from, ms, firstMs, tools, usage, ...end }: TurnReport): void {
    const { status, cause, requestId, runId, sessionId, model, takenOver, waitedMs } = end
    this.metrics.turn({ status, source, ms, ...(cause && { cause }) })
    const isFault = status === 'failed' || cause === 'given-up'
    const { mode, sample } = this.#rules
    const isDue = mode === 'all' && (sample >= 1 || shareOf(requestId) < sample)
    if (mode === 'off' || !(isFault || isDue)) return
    const line = {
      requestId,
      runId,
      sessionId,
      source,
      ...(from && { from }),
      ...(model !== undefined && { model }),
      status,
      ...(cause && { cause }),
      ms: rounded(ms),
      ...(firstMs !== undefined && { firstMs: rounded(firstMs) }),
      calls: usage?.calls ?? 0,
      tools,
      ...(usage && { usage: figures(usage) }),
      ...(takenOver && { takenOver }),
      ...(waitedMs !== undefined && { waitedMs }),
    }
    this.#log[isFault ? 'warn' : 'info'](line, 'turn')
  }

  lost(): void {
    this.metrics.leaseLost()
  }

  tool({
    tool,
    plugin,
    outcome,
    code,
    ms,
    turn,
  }: EndedTool & { code?: string; turn: WatchedTurn }): void {
    this.metrics.tool({ tool, plugin, outcome, ms })
    if (outcome === 'done' || outcome === 'waits' || this.#rules.mode === 'off') return
    const { requestId, runId } = turn
    this.#log.warn({ requestId, runId, plugin, tool, outcome, code, ms: rounded(ms) }, 'tool')
  }

  /** A call of a model has ended, in a turn or outside. One that failed or was slow to begin leaves a line. */
  modelCall(call: ModelCall): void {
    this.metrics.modelCall(call)
    const { model, kind, plugin, code, ms, firstMs, attempts, runId } = call
    const isSlow = (firstMs ?? ms) > this.#rules.slowMs
    if (this.#rules.mode === 'off' || !(isSlow || (code !== undefined && code !== 'ABORTED')))
      return
    const line = { runId, model, kind, plugin, code, attempts, ms: rounded(ms) }
    this.#log.warn(
      { ...line, ...(firstMs !== undefined && { firstMs: rounded(firstMs) }) },
      'model',
    )
  }

  /** A transaction has ended that was part of the work of spans: the first of them is its parent, and it links to the others. */
  database(kind: 'begin' | 'steps', ms: number, spans: readonly (string | undefined)[] = []): void {
    this.metrics.database(kind, ms)
    this.#databaseSpan(kind, ms, spans)
  }

  /** A transaction has claimed a run that no process carried. */
  claimed(ms: number, span: string | undefined): void {
    this.#databaseSpan('claim', ms, [span])
  }

  #databaseSpan(kind: string, ms: number, spans: readonly (string | undefined)[]): void {
    if (!this.tracer) return
    const [parent, ...links] = spans.filter((span) => span !== undefined).slice(0, mostLinks)
    if (parent === undefined) return
    const span = this.tracer.begin({
      name: `db ${kind}`,
      kind: 'client',
      parent,
      links,
      startedAt: Date.now() - ms,
      attributes: { [a.database]: this.#databaseName },
    })
    span.end()
  }

  /** An attempt of a job has ended. The line of it is the runner's. */
  job({ plugin, name, attempt, outcome, ms, traceparent: parent }: EndedJob): void {
    this.metrics.job({ plugin, name, outcome, ms })
    const span = this.tracer?.begin({
      name: `job ${plugin}.${name}`,
      kind: 'consumer',
      ...(parent !== undefined && { parent }),
      startedAt: Date.now() - ms,
      attributes: { [a.plugin]: plugin, [a.attempt]: attempt },
    })
    span?.end(outcome === 'dead' || outcome === 'retry' ? outcome : undefined)
  }
}

/** How many turns the span of a transaction names that has written for many. */
const mostLinks = 50

const rounded = (ms: number): number => Math.round(ms * 10) / 10

/** The figures of what a turn cost, without the list of models. */
function figures({ models: _, calls: __, ...usage }: TurnUsage) {
  return usage
}

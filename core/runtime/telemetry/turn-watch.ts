import { type AllowedHost, isAllowedHost } from '../../manifest/allowed-hosts.ts'
import type {
  EarlyEnd,
  Fetch,
  Message,
  ModelCall,
  ModelReply,
  RunCause,
  TurnUsage,
} from '../../plugin.ts'
import { attributes as a } from './conventions.ts'
import type { EndedTool, ToolEnd } from './kernel-metrics.ts'
import type { TraceSpan, Tracer } from './span.ts'
import { cut, spokenBy, spokenTo } from './words.ts'

/** What is known of a turn when a process begins to carry it. */
export interface WatchedTurn {
  readonly runId: string
  readonly sessionId: string
  readonly requestId: string
  /** The plugin that started the turn, or `http`. */
  readonly source: string
  /** `plugin`: the words are a plugin's and not the user's. */
  readonly from?: 'plugin'
  readonly model?: string
  readonly takenOver: boolean
  /** How long the turn waited until its session was free. */
  readonly waitedMs?: number
  /** The span that the turn goes on from, as another process or the request kept it. */
  readonly traceparent?: string
  /** The span of the turn, where the request began it. */
  readonly span?: TraceSpan
}

/** How a turn ended. */
export interface TurnEnd {
  readonly status: string
  readonly cause?: RunCause
  readonly usage?: TurnUsage
}

/** A turn that is over, for the log and for those who count. */
export interface TurnReport extends WatchedTurn, TurnEnd {
  readonly ms: number
  readonly firstMs?: number
  readonly tools: Readonly<Record<string, number>>
}

/** A call of a tool as it begins. */
export interface BegunTool {
  readonly id: string
  /** Names of the code: what a model or a client made up is `other` or `client`. */
  readonly tool: string
  readonly plugin: string
  /** The sub-agent that the call starts. */
  readonly agent?: string
  /** What the tool is given, as a trace may show it. Read only where spans hold words. */
  readonly given: () => unknown
}

/** What the span of a call of a model says beside its figures. */
export interface Answered {
  /** The host that was asked, with its port where it has one. */
  readonly host?: string
  /** Why the answer ended; absent where it failed. */
  readonly finish?: 'stop' | 'tool_calls' | EarlyEnd
  /** What was asked. */
  readonly messages?: readonly Message[]
}

/** Tells that a call of a tool has ended: how, by which code, and with which words for the model. */
export type EndTool = (outcome: ToolEnd, code?: string, result?: string) => void

/** What a watch tells when something ends. */
export interface Told {
  turn(end: TurnReport): void
  /** A run had to be let go of. */
  lost(): void
  tool(end: EndedTool & { readonly code?: string; readonly turn: WatchedTurn }): void
  readonly tracer: Tracer | undefined
  /** The hosts that are told which span a request of a plugin belongs to. */
  readonly propagateTo: readonly AllowedHost[]
  /** Whether the journal keeps how long the steps of runs took. */
  readonly traces: boolean
  /** Whether spans hold the words of conversations. */
  readonly hasWords: boolean
}

/** How many different tools a line counts by name. */
const mostNames = 50

/** What all parts of one turn share, its sub-agents among them. */
class Counted {
  readonly tools = new Map<string, number>()
  readonly began = performance.now()
  /** The spans of calls that are under way, by the id of the call. */
  readonly spans = new Map<string, TraceSpan>()
  firstMs: number | undefined
  model: string | undefined

  count(tool: string): void {
    const name = this.tools.size < mostNames || this.tools.has(tool) ? tool : 'other'
    this.tools.set(name, (this.tools.get(name) ?? 0) + 1)
  }
}

/** Watches one turn in this process: counts, measures and traces what it does. It knows names and figures, and no words. */
export class TurnWatch {
  readonly #told: Told
  readonly #facts: WatchedTurn
  readonly #counted: Counted
  /** The span that further work is part of: the turn's, or that of the call of a sub-agent. */
  readonly #span: TraceSpan | undefined

  constructor(told: Told, facts: WatchedTurn, span?: TraceSpan, counted = new Counted()) {
    this.#told = told
    this.#facts = facts
    this.#span = span
    this.#counted = counted
  }

  /** The same `fetch`, which tells the span of the turn to hosts that may know it; undefined where none may. */
  outgoing(fetch: Fetch): Fetch | undefined {
    const { propagateTo } = this.#told
    const span = this.#span
    if (!span || propagateTo.length === 0) return undefined
    return (input, init) => {
      const isRequest = input instanceof Request
      const url = URL.parse(isRequest ? input.url : String(input))
      if (!url || !isAllowedHost(url, propagateTo)) return fetch(input, init)
      const headers = new Headers(init?.headers ?? (isRequest ? input.headers : undefined))
      headers.set('traceparent', span.traceparent)
      return fetch(input, { ...init, headers })
    }
  }

  /** How work of others names the span of the turn as its parent; undefined where nobody collects spans. */
  get traceparent(): string | undefined {
    return this.#span?.traceparent
  }

  /** How work names the span of a call of a tool that is under way; undefined where nobody collects spans. */
  spanOf(callId: string): string | undefined {
    return this.#counted.spans.get(callId)?.traceparent
  }

  /** Whether the journal keeps how long the steps took. */
  get traces(): boolean {
    return this.#told.traces
  }

  /** The same turn, for the sub-agent that a call has started. */
  within(callId: string): TurnWatch {
    const span = this.#counted.spans.get(callId) ?? this.#span
    return new TurnWatch(this.#told, this.#facts, span, this.#counted)
  }

  /** The turn says its first word. */
  heard(): void {
    this.#counted.firstMs ??= performance.now() - this.#counted.began
  }

  /** Counts a call of a tool that an earlier process, or an earlier part of the turn, has made. */
  past(tool: string): void {
    this.#counted.count(tool)
  }

  /** A call of a model has ended. */
  modelCalled(
    { model, usage, ms, code, kind }: Omit<ModelCall, 'did' | 'runId' | 'sessionId'>,
    { host, finish, messages }: Answered = {},
    reply?: () => Pick<ModelReply, 'content' | 'toolCalls'>,
  ): void {
    if (kind === 'turn' && code === undefined) this.#counted.model = model
    const { tracer } = this.#told
    if (!tracer || !this.#span) return
    const isEmbedding = kind === 'embedding'
    const span = tracer.begin({
      name: `${isEmbedding ? 'embeddings' : 'chat'} ${model}`,
      kind: 'client',
      parent: this.#span.traceparent,
      startedAt: Date.now() - ms,
      attributes: {
        [a.operation]: isEmbedding ? 'embeddings' : 'chat',
        [a.provider]: model.split('/')[0],
        [a.requestModel]: model,
        [a.responseModel]: model,
        [a.finish]: finish && [finish],
        [a.address]: host?.replace(/:\d+$/, ''),
        [a.inputTokens]: usage.inputTokens,
        [a.outputTokens]: usage.outputTokens,
        [a.cacheRead]: usage.cachedTokens,
        [a.cacheWrite]: usage.cacheWriteTokens,
        ...(this.#told.hasWords && {
          [a.inputMessages]: messages && spokenTo(messages),
          [a.outputMessages]: reply && spokenBy(reply(), finish ?? 'error'),
        }),
      },
    })
    span.end(code)
  }

  /** A call of a tool begins. Returns how to tell that it has ended. */
  tool({ id, tool, plugin, agent, given }: BegunTool): EndTool {
    const began = performance.now()
    const { tracer } = this.#told
    const span =
      this.#span &&
      tracer?.begin({
        name: agent === undefined ? `execute_tool ${tool}` : `invoke_agent ${agent}`,
        kind: 'internal',
        parent: this.#span.traceparent,
        attributes: {
          [a.operation]: agent === undefined ? 'execute_tool' : 'invoke_agent',
          [a.agent]: agent,
          [a.tool]: tool,
          [a.toolCall]: id.slice(0, 100),
          [a.toolType]: 'function',
          [a.plugin]: plugin,
          ...(this.#told.hasWords && { [a.toolArguments]: cut(JSON.stringify(given()) ?? '') }),
        },
      })
    if (span) this.#counted.spans.set(id, span)
    return (outcome, code, result) => {
      if (outcome !== 'waits') this.#counted.count(tool)
      const turn = this.#facts
      this.#told.tool({
        tool,
        plugin,
        outcome,
        ms: performance.now() - began,
        turn,
        ...(code !== undefined && { code }),
      })
      if (result !== undefined && this.#told.hasWords) span?.tell({ [a.toolResult]: cut(result) })
      span?.end(outcome === 'done' || outcome === 'waits' ? undefined : (code ?? outcome))
      this.#counted.spans.delete(id)
    }
  }

  /** The turn has ended, or waits for a person. */
  ended(end: TurnEnd): void {
    const { began, firstMs, tools, model } = this.#counted
    this.#span?.tell({ [a.runStatus]: end.status })
    this.#span?.end(end.status === 'failed' ? (end.cause ?? 'failed') : undefined)
    this.#told.turn({
      ...this.#facts,
      ...end,
      ...(model !== undefined && { model }),
      ms: performance.now() - began,
      ...(firstMs !== undefined && { firstMs }),
      tools: Object.fromEntries(tools),
    })
  }

  /** Another process goes on with the turn, because this one closes or has lost the turn. */
  left(isHandedOver: boolean): void {
    if (!isHandedOver) this.#told.lost()
    this.#span?.end(isHandedOver ? 'handed-over' : 'lost')
  }
}

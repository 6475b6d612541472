import type { ForeignSource, ResultPart, TurnUsage } from './records.ts'

type Status = 'isRunning' | 'done' | 'error'
type Args = Readonly<Record<string, unknown>>

interface Where {
  readonly sessionId: string
  readonly requestId: string
}

interface ActionCall extends Where {
  readonly toolCallId: string
  readonly toolName: string
  readonly args: Args
  readonly status: Status
  /** The client carries it out, once the turn stands still for it. */
  readonly client?: true
  readonly output?: string
  readonly parts?: readonly ResultPart[]
  readonly error?: unknown
}

/** How a run ended; `waiting` means that a tool of the run waits for a person. */
export type RunEnding = 'finished' | 'aborted' | 'interrupted' | 'failed' | 'waiting'

/** Why an answer ended before the model was done: it was as long as an answer may be, or its provider filtered the rest. */
export type EarlyEnd = 'length' | 'content_filter'

/** What every event carries, by its name on the wire. */
export interface EventPayloads {
  run: {
    readonly runId: string
    readonly sessionId?: string
    readonly requestId: string
    /** The id of the user's message in the history; a run that goes on after an approval has none. */
    readonly userMessageId?: string
    readonly resumed?: boolean
    readonly partialLength?: number
    readonly continues?: string
  }
  message: { readonly content: string; readonly timestamp: string }
  reasoning: Where & {
    readonly reasoning: string
    readonly isComplete: boolean
    readonly timestamp: string
  }
  /** Another model answers than the one that was asked for; `code` says why that one could not. */
  model: { readonly model: string; readonly instead: string; readonly code: string }
  /** The model reads less of the conversation from now on; the history keeps every word. */
  context: {
    readonly kind: 'pruned' | 'summarised' | 'trimmed'
    readonly messages: number
    readonly tokensBefore: number
    readonly tokensAfter: number
  }
  tool_call: Omit<ActionCall, 'toolCallId'> & {
    readonly eventId: string
    readonly toolCallId?: string
    /** Whose words the oracle had read before it loaded a capability, if it had read any. */
    readonly foreign?: readonly ForeignSource[]
    readonly reason?: string
  }
  action_call: ActionCall
  render_component: Where & {
    readonly eventId: string
    readonly componentName: string
    readonly args: Args
    readonly status?: Status
  }
  client_calls: {
    readonly runId: string
    readonly calls: readonly { toolCallId: string; toolName: string; args: Args }[]
  }
  browser_tool_call: Where & {
    readonly toolCallId: string
    readonly toolName: string
    readonly args: Args
  }
  interrupt: {
    readonly runId: string
    readonly kind: 'approval'
    readonly toolName: string
    readonly args: Args
    readonly toolCallId: string
    readonly question?: string
    readonly foreign?: readonly ForeignSource[]
    readonly reason?: string
  }
  delegation_required: { readonly oracleDid: string; readonly reason: string }
  progress: {
    readonly toolCallId?: string
    readonly done: number
    readonly total?: number
    readonly note?: string
  }
  router: { readonly route: string }
  message_cache_invalidation: { readonly status?: unknown }
  /** The user heard the reply of a run up to there and no further. The history is read again. */
  cut: { readonly runId: string; readonly messageId?: string; readonly chars: number }
  error: {
    readonly error: string
    readonly code: string
    readonly retryable: boolean
    readonly kind?: string
    readonly statusCode?: number
    readonly claims?: unknown
    readonly requestId: string
    readonly timestamp: string
  }
  done: {
    readonly runId: string
    readonly sessionId?: string
    readonly status: RunEnding
    /** Why the model's last answer ended early; absent where it ended as usual. */
    readonly ended?: EarlyEnd
    /** What the calls of models cost. */
    readonly usage?: TurnUsage
  }
}

/** The names of the events. */
export type EventName = keyof EventPayloads

/** An event of one name. */
export interface OracleEvent<Name extends EventName> {
  readonly eventName: Name
  readonly payload: EventPayloads[Name]
}

/** Any event that a server streams with a run or pushes on the channel. */
export type AnyEvent = { [Name in EventName]: OracleEvent<Name> }[EventName]

/** A tool was called, or a call came to its end. */
export type ToolCallEvent = OracleEvent<'tool_call'>
/** The oracle draws a component of the page. */
export type RenderComponentEvent = OracleEvent<'render_component'>
/** The oracle calls a tool of the page. */
export type BrowserToolCallEvent = OracleEvent<'browser_tool_call'>
/** The oracle invokes an action of the page, or an action came to its end. */
export type ActionCallEvent = OracleEvent<'action_call'>

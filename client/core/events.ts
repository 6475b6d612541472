import type { ForeignSource } from './records.ts'

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
  readonly output?: string
  readonly error?: unknown
}

/** How a run ended; `waiting` stands for a person who is asked. */
export type RunEnding = 'finished' | 'aborted' | 'interrupted' | 'failed' | 'waiting'

/** What every event carries, by its name on the wire. */
export interface EventPayloads {
  run: {
    readonly runId: string
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
  tool_call: Omit<ActionCall, 'toolCallId'> & {
    readonly eventId: string
    readonly toolCallId?: string
    /** A capability that is loaded after words of others were read says which. */
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
    readonly foreign?: readonly ForeignSource[]
    readonly reason?: string
  }
  delegation_required: { readonly oracleDid: string; readonly reason: string }
  progress: {
    readonly toolCallId: string
    readonly done: number
    readonly total?: number
    readonly note?: string
  }
  router: { readonly route: string }
  message_cache_invalidation: { readonly status?: unknown }
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
  done: { readonly runId: string; readonly status: RunEnding }
}

export type EventName = keyof EventPayloads

/** An event of one name. */
export interface OracleEvent<Name extends EventName> {
  readonly eventName: Name
  readonly payload: EventPayloads[Name]
}

/** Any event that the runtime streams or pushes. */
export type AnyEvent = { [Name in EventName]: OracleEvent<Name> }[EventName]

export type ToolCallEvent = OracleEvent<'tool_call'>
export type RenderComponentEvent = OracleEvent<'render_component'>
export type BrowserToolCallEvent = OracleEvent<'browser_tool_call'>
export type ActionCallEvent = OracleEvent<'action_call'>

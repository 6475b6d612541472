import type { ClientCall } from './clients/calls.ts'
import type { EarlyEnd, TurnUsage } from './model.ts'

type Args = Readonly<Record<string, unknown>>

/** Which turn an event belongs to. */
interface Where {
  readonly sessionId: string
  readonly requestId: string
}

/** A call of a tool: `isRunning` when it begins, then `done` with its output or `error` with its message. */
interface Call extends Where {
  readonly toolCallId: string
  readonly toolName: string
  readonly args: Args
  readonly status: 'isRunning' | 'done' | 'error'
  /** The client carries it out, once the turn stands still for it: `client_calls` hands it over. */
  readonly client?: true
  readonly output?: string
  readonly error?: string
  /** The pictures, sounds and files of the result; `GET /files/:fileId` has their bytes. */
  readonly parts?: readonly EventPart[]
}

/** A picture, a sound or a file that a tool gave, without its bytes. */
export interface EventPart {
  readonly type: 'image' | 'audio' | 'file'
  readonly mediaType: string
  readonly name?: string
  readonly bytes: number
  readonly fileId: string
}

/**
 * Whose words a turn had read: a tool's result, an attachment, an answer of the user's page, what a plugin quoted, or a summary
 * of any of these.
 */
export interface EventSource {
  readonly kind: 'tool' | 'attachment' | 'page' | 'quoted' | 'summary'
  readonly tool?: string
  readonly plugin?: string
  readonly label?: string
}

/** What the model had read of other people's words before it made a call, and what follows from that. */
interface Behind {
  readonly foreign?: readonly EventSource[]
  readonly reason?: string
}

/** What each event of a turn says, by its name on the wire. */
export interface TurnEvents {
  /** The first event. With `resumed`, another process goes on: cut the text to `partialLength`. */
  run: {
    readonly runId: string
    readonly sessionId: string
    readonly requestId: string
    readonly userMessageId?: string
    readonly resumed?: true
    readonly partialLength?: number
    readonly continues?: string
  }
  /** A piece of the reply. */
  message: { readonly content: string; readonly timestamp: string }
  /** A piece of what the model thinks. */
  reasoning: Where & {
    readonly reasoning: string
    readonly isComplete: boolean
    readonly timestamp: string
    readonly parentEventId?: string
  }
  /** Another model answers than the one that was asked for; `code` says why that one could not. */
  model: { readonly model: string; readonly instead: string; readonly code: string }
  /** The model reads less of the conversation from now on; the history keeps every word. The tokens are estimated. */
  context: {
    readonly kind: 'pruned' | 'summarised' | 'trimmed'
    readonly messages: number
    readonly tokensBefore: number
    readonly tokensAfter: number
  }
  /** A tool begins, is done or failed. */
  tool_call: Call & Behind & { readonly eventId: string }
  /** The same for an action of the client. */
  action_call: Call
  /** The client is to run one of its tools. */
  browser_tool_call: Where & {
    readonly toolCallId: string
    readonly toolName: string
    readonly args: Args
  }
  /** A component to show. */
  render_component: Where & {
    readonly eventId: string
    readonly parentEventId?: string
    readonly toolCallId?: string
    readonly componentName: string
    readonly args: Args
    readonly status?: 'isRunning' | 'done'
  }
  /** The turn stands still until the client hands in what it made of these calls of its own tools. */
  client_calls: { readonly runId: string; readonly calls: readonly ClientCall[] }
  /** A person is asked. */
  interrupt: Behind & {
    readonly runId: string
    readonly kind: 'approval'
    readonly toolName: string
    readonly args: Args
    readonly toolCallId: string
    /** The sentence by which the tool itself asks. */
    readonly question?: string
  }
  /** The user's delegation is missing or ended. */
  delegation_required: { readonly oracleDid: string; readonly reason: string }
  /** How far a long tool is. */
  progress: {
    /** The call that is under way; missing where a middleware tells it. */
    readonly toolCallId?: string
    readonly done: number
    readonly total?: number
    readonly note?: string
  }
  /** The client may go somewhere. */
  router: { readonly route: string }
  /** The client should read the history again. */
  message_cache_invalidation: { readonly status?: unknown }
  /** The user heard the reply of a run up to there and no further. It comes outside of the run's own stream. */
  cut: { readonly runId: string; readonly messageId?: string; readonly chars: number }
  /** What went wrong; `done` follows. */
  error: {
    readonly error: string
    readonly code: string
    readonly statusCode?: number
    readonly retryable: boolean
    readonly kind?: string
    readonly claims?: unknown
    readonly requestId: string
    readonly timestamp: string
  }
  /** The last event of every turn. */
  done: {
    readonly runId: string
    readonly sessionId: string
    readonly status: 'finished' | 'aborted' | 'interrupted' | 'failed' | 'waiting'
    /** What the calls of models cost. */
    readonly usage?: TurnUsage
    /** Why the model's last answer ended early; absent where it ended as usual. */
    readonly ended?: EarlyEnd
  }
}

/** One event of a turn: `if (event.event === 'done')` makes its data known. */
interface EventOf<Name extends keyof TurnEvents> {
  /** The event's number in the stream of its turn. */
  readonly seq: number
  /** The event's name: `message`, `tool_call`, `done` and so on. */
  readonly event: Name
  /** What the event says; `docs/events.md` lists it by name. */
  readonly data: TurnEvents[Name]
}

/** An event of a turn, as it travels to clients: one member for each name. */
export type TurnEvent = { [Name in keyof TurnEvents]: EventOf<Name> }[keyof TurnEvents]

import type { RuntimeError } from '../errors.ts'
import type { Message, User } from '../plugin.ts'

/** What the caller of a turn sent, after the door has parsed it. */
export interface TurnRequest {
  readonly message: string
  readonly model?: string
  readonly timezone?: string
  readonly metadata?: Readonly<Record<string, unknown>>
  readonly attachments?: readonly unknown[]
  /** The browser's tools of this turn. An empty schema takes any object. */
  readonly tools?: readonly ClientTool[]
  /** AG-UI actions that the client registered. */
  readonly agActions?: readonly (ClientTool & { readonly hasRender?: boolean })[]
}

export interface ClientTool {
  readonly name: string
  readonly description: string
  readonly schema: Readonly<Record<string, unknown>>
}

/** How a run ended; `waiting`: a person is asked, and it stands until `resume` continues it in a new run. */
export type RunEnd = (
  | { readonly status: 'finished' | 'aborted' | 'interrupted' | 'waiting' }
  /** The `error` event was emitted already; this is for who does not read events. */
  | { readonly status: 'failed'; readonly error: RuntimeError }
) & {
  /** Where the engine's own state of the session stands now. Without it the session keeps the last one. */
  readonly checkpoint?: string
}

/** A person's answer to an approval. */
export interface Decision {
  readonly decision: 'approve' | 'reject' | 'edit'
  readonly args?: unknown
}

/** One step of a run as it was written down: enough to go on from after a crash. */
export interface JournalEntry {
  readonly messages: readonly Message[]
  /** The thread's loaded plugins, when the step changed them. */
  readonly loaded?: readonly string[]
  /** The state of the plugins that the step changed, by plugin. */
  readonly states?: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  /** What the step rendered, and the call that rendered it. */
  readonly components?: readonly RenderedComponent[]
  /** The run stands at this approval. */
  readonly waits?: {
    readonly toolCallId: string
    readonly toolName: string
    readonly args: unknown
  }
  /** The run was cut short here: the assistant's last message is what was said until then. */
  readonly partial?: true
  /** The call of a sub-agent whose inner step this is. The transcript leaves it out. */
  readonly within?: string
}

export interface RenderedComponent {
  readonly eventId: string
  readonly toolCallId: string
  readonly name: string
  readonly args: Readonly<Record<string, unknown>>
}

/**
 * The append-only log of one run's steps. The session's transcript is read from the same rows; the
 * user's message stands there already when the run begins.
 */
export interface Journal {
  /** The steps so far, those of the run it continues included. Empty unless the run was resumed or taken over. */
  read(): Promise<readonly JournalEntry[]>
  /**
   * Writes one step, after the events emitted before it. Rejects with `RunLost` when another process has
   * taken the run over: stop at once, quietly.
   */
  append(entry: JournalEntry): Promise<void>
  /** The messages of the session's earlier runs, oldest first: the newest that fit into so many characters. */
  history(characters: number): Promise<readonly Message[]>
}

/** What is known of a write that may have happened. */
export type EffectState =
  | { readonly state: 'new' }
  | { readonly state: 'done'; readonly content: string; readonly failed: boolean }
  /** It was started by a process that died: never run it again. */
  | { readonly state: 'unknown' }

/** Writes are marked before they start and when they are done, so that none happens twice. */
export interface Effects {
  begin(toolCallId: string, tool: string): Promise<EffectState>
  finish(toolCallId: string, content: string, failed: boolean): Promise<void>
}

/** Another process owns the run now. */
export class RunLost extends Error {
  override readonly name = 'RunLost'
}

/** Everything the engine needs to carry out one run. The run store makes it, the engine uses it. */
export interface RunHandle {
  readonly runId: string
  readonly requestId: string
  readonly sessionId: string
  readonly user: User
  readonly room: string
  readonly request: TurnRequest
  /** The run was taken over from a process that died: replay the journal first. */
  readonly takenOver: boolean
  /** The run continues one that waited for a person. */
  readonly continues?: { readonly runId: string; readonly decision: Decision }
  /** The session's run before this one, whatever came of it. */
  readonly previous?: string
  /** What the session's last run that had one returned in `RunEnd.checkpoint`. */
  readonly checkpoint?: string
  /**
   * Fires when a person stops the run or a newer message supersedes it; with a `RunLost` as its reason when
   * this process gives the run up, and then nothing more is written.
   */
  readonly signal: AbortSignal
  readonly journal: Journal
  readonly effects: Effects
  /** Tells listeners; kept for replay. Cheap: batched, never awaited. */
  emit(event: string, data: Readonly<Record<string, unknown>>): void
  /** Waits for a result that a client sends for a call of its own tools; rejects on timeout or abort. */
  clientResult(
    toolCallId: string,
    timeoutMs: number,
  ): Promise<{ readonly result?: unknown; readonly error?: string }>
}

/** The engine: carries a run from its first step, or from where its journal ends, to an end. */
export type Engine = (run: RunHandle) => Promise<RunEnd>

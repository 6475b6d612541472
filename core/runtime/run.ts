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

/** How a run ended, or why it stands still. */
export type RunEnd =
  | { readonly status: 'finished' }
  | { readonly status: 'aborted' }
  | { readonly status: 'interrupted' }
  | { readonly status: 'failed' }
  /** A person is asked: the run stands until `resume` continues it in a new run. */
  | { readonly status: 'waiting' }

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
}

/** The append-only log of one run's steps. The session's transcript is read from the same rows. */
export interface Journal {
  /** The steps so far, those of the run it continues included. Empty unless the run was resumed or taken over. */
  read(): Promise<readonly JournalEntry[]>
  /**
   * Writes one step, after the events emitted before it. Rejects with `RunLost` when another process has
   * taken the run over: stop at once, quietly.
   */
  append(entry: JournalEntry): Promise<void>
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
  /** Fires when a person stops the run, a newer message supersedes it, or the server shuts down. */
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

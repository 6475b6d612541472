import type { Kysely } from 'kysely'
import type { RuntimeError } from '../../errors.ts'
import type { EarlyEnd, Message, MessagePart, RunUsage, SaidBefore, User } from '../../plugin.ts'
import type { TurnWatch } from '../telemetry/turn-watch.ts'

/** What the caller of a turn sent, after the door has parsed it. */
export interface TurnRequest {
  readonly message: string
  readonly model?: string
  readonly timezone?: string
  /** The user's language, as a BCP 47 tag. */
  readonly language?: string
  readonly metadata?: Readonly<Record<string, unknown>>
  /** The plugin that started the turn; undefined for a turn that began over HTTP. */
  readonly origin?: string
  /** `plugin`: the words are the plugin's and not the user's. */
  readonly from?: 'plugin'
  /** `http`: the plugin that started the turn stands in for `POST /messages/:sessionId`. */
  readonly source?: 'http'
  /** Other people's words that go along with the message. */
  readonly quoted?: readonly string[]
  /** Lines of the system prompt for this turn alone. */
  readonly instructions?: string
  /** The names of the tools that there are in this turn; without it, all that there are. */
  readonly allow?: readonly string[]
  /** The span of the turn, where somebody collects spans: whoever goes on with the turn goes on from there. */
  readonly traceparent?: string
  /** How long the turn has waited until its session was free. */
  readonly waitedMs?: number
  /** Others read along in the room of the session. */
  readonly shared?: true
  readonly attachments?: readonly unknown[]
  /** The files among the attachments, for the model. */
  readonly parts?: readonly MessagePart[]
  /**
   * True: the client shows what waits for a person, with a way to answer. `words`: it is asked for in the text, and answered by
   * the next message. `never`: nobody can be asked, whoever else reads along.
   */
  readonly approvals?: boolean | 'words' | 'never'
  /** What the model reads in place of what the session has. */
  readonly history?: readonly SaidBefore[]
  /** The session is there for this turn alone. */
  readonly ephemeral?: true
  /** The browser's tools of this turn. An empty schema takes any object. */
  readonly tools?: readonly ClientTool[]
  /** `park`: a call of a client's tool ends the run as waiting, until somebody hands in the results. */
  readonly clientTools?: 'park'
  /** The run ends where nobody has read it for so long. */
  readonly whenAlone?: { readonly stopAfterMs: number }
  /** AG-UI actions that the client registered. */
  readonly agActions?: readonly (ClientTool & { readonly hasRender?: boolean })[]
}

/** A tool that the client brings along with a message, and carries out itself. */
export interface ClientTool {
  readonly name: string
  readonly description: string
  readonly schema: Readonly<Record<string, unknown>>
  /** `read`: the page only looks or draws. Without `effect` a call counts as one that changes something. */
  readonly effect?: 'read' | 'write'
}

/** How a run ended, or why the run stands still. */
export type RunEnd = (
  | { readonly status: 'aborted' | 'interrupted' }
  /** `ended` says why the model's last answer ended early. */
  | { readonly status: 'finished'; readonly ended?: EarlyEnd }
  /** Readers had the `error` event; the error itself is for a caller that waits for one answer. */
  | { readonly status: 'failed'; readonly error: RuntimeError }
  /** The run asks a person, and stands until `resume` continues it in a new run. */
  | { readonly status: 'waiting' }
) & {
  /** The state from which the session's next run goes on; without one, the state before this run stays. */
  readonly checkpoint?: string
  /** Writes the checkpoint in the transaction of the run's end: both are kept, or neither is. */
  readonly save?: Save
  /** What `save` does, as rows: PostgreSQL then gets them in the one statement that ends the run. */
  readonly inserts?: readonly EndRows[]
}

/** Writes a checkpoint within a transaction. */
export type Save = (transaction: Kysely<any>) => Promise<void> // any: the tables are the engine's own

/** Rows that are kept together with the end of a run: a checkpoint, in tables that only the engine knows. */
export interface EndRows {
  readonly table: string
  readonly key: readonly string[]
  /** What happens to a row of the same key that is there. */
  readonly replaces: 'always' | 'never' | 'below zero'
  /** At least one row, with the same columns each and no two of one key. */
  readonly rows: readonly EndRow[]
}

/** The columns of such a row. */
export type EndRow = Readonly<Record<string, string | number | null>>

/** A person's answer to an approval, or with `results` a client's answers to the calls of its tools. */
export interface Decision {
  readonly decision: 'approve' | 'reject' | 'edit' | 'results'
  /** The other arguments of `edit`, the reason of `reject`, the `ClientCallAnswer`s of `results`. */
  readonly args?: unknown
}

/** A component that a tool rendered. Transcripts show it as a tool call named after it. */
export interface RenderedComponent {
  readonly eventId: string
  /** The call that rendered it, in the message before. */
  readonly toolCallId?: string
  readonly name: string
  readonly args: Readonly<Record<string, unknown>>
}

/** Something that a turn has read and that others wrote. */
export interface ForeignSource {
  /**
   * The result of a tool, what the user attached, what the user's own page answered, what a plugin quoted, or a summary that
   * stands for any of these in an earlier turn.
   */
  readonly kind: 'tool' | 'attachment' | 'page' | 'quoted' | 'summary'
  readonly tool?: string
  readonly plugin?: string
  /** What was asked for, in brief: the DID of an entity, the name of a file. */
  readonly label?: string
}

/** A call that waits for a person. */
export interface WaitingCall {
  readonly toolCallId: string
  readonly toolName: string
  readonly args: unknown
  /** The sentence by which the tool itself asks. */
  readonly question?: string
  /** What others wrote that the model had read when it asked for this call, and why a person is therefore asked. */
  readonly foreign?: readonly ForeignSource[]
  readonly reason?: string
  /** `client`: the call waits for its client and not for a person, together with the others of its step. */
  readonly kind?: 'client'
  readonly calls?: readonly Pick<WaitingCall, 'toolCallId' | 'toolName' | 'args'>[]
  /** The question with which the text of the run ends, where a person is asked in words. */
  readonly line?: string
}

/** What a model wrote in place of the older part of a conversation. */
export interface Summary {
  /** The id of the newest message that the summary stands for. */
  readonly upTo: string
  readonly text: string
  /** The id of the model that wrote it. */
  readonly model: string
  /** What the writing cost, a line for each model that was asked. */
  readonly usage?: readonly RunUsage[]
  /** Whose words it stands for beside those of the user and the assistant, in brief; absent where there are none. */
  readonly foreign?: string
}

/** How many bytes what a plugin tells a model takes: its lines in the prompt, and its tools. */
export interface PluginBytes {
  readonly lines: number
  readonly tools: number
}

/** How many bytes of a request to a model each part of it takes. */
export interface SentBytes {
  /** The system prompt, all tools, and the conversation: the three together are the request. */
  readonly system: number
  readonly tools: number
  readonly conversation: number
  /** The same bytes once more, by whom they come from. The kernel's are its rules, its tools, the day and the lines of the turn. */
  readonly kernel: number
  readonly persona: number
  readonly catalogue: number
  /** The plugins with the most bytes. */
  readonly plugins: Readonly<Record<string, PluginBytes>>
  /** All further plugins together; absent where there are none. */
  readonly furtherPlugins?: PluginBytes
  readonly clientTools: number
  /** What people and the model said, calls included, up to the newest words. */
  readonly history: number
  readonly summary: number
  /** What tools gave. */
  readonly results: number
}

/** How long something in a step took, as the journal keeps it for the trace of the run. */
export interface StepTiming {
  /** When it began, in milliseconds since 1970 by the clock of the process. */
  readonly at: number
  readonly ms: number
  /** Of a call of a model: how long it took until the first piece of the answer came. */
  readonly firstMs?: number
  /** Of a call of a model: how often the model was asked. */
  readonly attempts?: number
  /** Of a call of a model: how many bytes it was sent, by part. */
  readonly sent?: SentBytes
  /** Of a call that failed and left no message. */
  readonly model?: string
  readonly code?: string
  /** The process that did it, by the beginning of its name. */
  readonly by?: string
}

/** A process took the run over from another one. */
export interface Takeover {
  readonly at: number
  readonly by: string
  /** How often the run was taken over since it last got on. */
  readonly attempts: number
}

/** One step of a run as it was written down: enough to go on from after a crash. */
export interface JournalEntry {
  readonly messages: readonly Message[]
  /** The thread's loaded plugins, when the step changed them. */
  readonly loaded?: readonly string[]
  /** The thread's state that the step changed, by plugin and key. */
  readonly states?: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  readonly components?: readonly RenderedComponent[]
  /** The run was cut short here: the last answer so far is not complete. */
  readonly partial?: true
  /** How long what led to the messages took, by the id of the message. Their rows keep it. */
  readonly timings?: ReadonlyMap<string, StepTiming>
  /** Calls of models of which no message tells, because they failed. */
  readonly failures?: readonly StepTiming[]
  /** The run changed hands before this step. */
  readonly takeover?: Takeover
  /** The run stands at this call. */
  readonly waits?: WaitingCall
  /**
   * What calls of models cost of which no message tells: those that ended before their first word, those of plugins, and
   * those of models that another one stood in for. The messages of all other answers have their own.
   */
  readonly usage?: RunUsage | readonly RunUsage[]
  /** Models read this from now on in place of what it stands for. No transcript shows it. */
  readonly summary?: Summary
  /** The call of the sub-agent whose inner step this is. No transcript shows it. */
  readonly within?: string
}

/** The append-only log of one run's steps. The session's transcript is read from the same rows. */
export interface Journal {
  /** The steps so far, those of the runs it continues included. Empty unless the run was resumed or taken over. */
  read(): Promise<readonly JournalEntry[]>
  /**
   * The messages of the session's earlier runs, oldest first: as many of the newest as fit into about so
   * many characters. The words that began each run are among them. Where a summary stands for the older ones, it comes first.
   */
  history(characters: number): Promise<readonly Message[]>
  /**
   * Writes one step, after the events emitted before it. Rejects with `RunLost` when another process has
   * taken the run over; the engine then stops at once and says nothing. A step that may come `soon` is written
   * together with whatever is written next, within two seconds.
   */
  append(entry: JournalEntry, urgency?: 'now' | 'soon'): Promise<void>
  /** Writes the steps that wait. */
  flush(): Promise<void>
}

/** What the marks say of a write that a process may have begun. */
export type EffectState =
  | { readonly state: 'new' }
  | { readonly state: 'done'; readonly content: string; readonly failed: boolean }
  /** A process that died had started the write: never start it again. */
  | { readonly state: 'unknown' }

/** Marks a tool's write before it starts and when it is done, so that no write happens twice. */
export interface Effects {
  begin(toolCallId: string, tool: string): Promise<EffectState>
  finish(toolCallId: string, content: string, failed: boolean): Promise<void>
}

/** Who wrote the words that a result holds, where others than the user did. */
export interface ResultSource {
  readonly plugin: string
  readonly label?: string
}

/** The whole result of a call of which the model reads a part. */
export interface NewResult {
  readonly toolCallId: string
  /** The result as JSON. */
  readonly body: string
  readonly source?: ResultSource
}

/** A result that was kept. */
export type KeptResult = Omit<NewResult, 'toolCallId'>

/** Keeps the large results of a session's calls, as long as the events of their runs. */
export interface Results {
  /** Resolves to the handle; undefined when the turn keeps as many as it may. */
  keep(result: NewResult): Promise<string | undefined>
  /** The result of a handle; undefined when the session has none. */
  read(handle: string): Promise<KeptResult | undefined>
}

/** Says that this process does not carry the run any more; another process does, or will. */
export class RunLost extends Error {
  override readonly name = 'RunLost'
}

/** Says that a run which was to wait for a person was stopped before the database had that. */
export class StoppedMeanwhile extends Error {
  override readonly name = 'StoppedMeanwhile'
  readonly why: 'aborted' | 'superseded'

  constructor(why: 'aborted' | 'superseded') {
    super('The run was stopped before it waited for a person.')
    this.why = why
  }
}

/** A run as the engine gets it: everything that the engine needs to bring the run to an end. */
export interface Run {
  readonly runId: string
  /** The first run of the chain of approvals; a run of its own is its own root. */
  readonly rootId: string
  readonly requestId: string
  readonly sessionId: string
  readonly user: User
  readonly room: string
  /** A run that continues another has the request of the run it continues. */
  readonly request: TurnRequest
  /** The session's run before this one. */
  readonly previous?: string
  /** How many turns of the session had been redacted when this run began. */
  readonly redactions: number
  /** Where the session's last run left off. */
  readonly checkpoint?: string
  /** The run was taken over from a process that died: replay the journal first. */
  readonly takenOver: boolean
  /** The run continues one that waited for a person. */
  readonly continues?: { readonly runId: string; readonly decision: Decision } | undefined
  /**
   * Fires when a person stops the run or a newer message supersedes it; with a `RunLost` as its reason
   * when another process goes on with the run.
   */
  readonly signal: AbortSignal
  /** Counts and measures what the run does; absent where nobody watches. */
  readonly watch?: TurnWatch
  readonly journal: Journal
  readonly effects: Effects
  readonly results: Results
  /** Whether a socket of the session shows approvals now, as far as this process knows. */
  readonly isWatched?: boolean
  /** Whether a socket of the session shows approvals at any replica. */
  watched?(): Promise<boolean>
  /** Tells the listeners, and keeps the event for replay. Cheap: events are batched, and no caller waits. */
  emit(event: string, data: Readonly<Record<string, unknown>>): void
  /**
   * Waits for a result that a client sends for a call of its own tools; rejects on timeout or abort. `tell` tells the clients
   * of the call, once the call can be answered.
   */
  clientResult(
    toolCallId: string,
    timeoutMs: number,
    tell?: () => void,
  ): Promise<{ readonly result?: unknown; readonly error?: string }>
}

/**
 * Brings a run from its first step, or from where its journal ends, to an end. An engine rejects with `RunLost`, or when the
 * database fails: then the carrier drops the run, and the lease of the run runs out.
 */
export type Engine = (run: Run) => Promise<RunEnd>

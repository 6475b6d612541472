import type { Context as KoaContext } from 'koa'
import type { User } from './context.ts'
import type { SaidBefore } from './clients/said-before.ts'
import type { TurnEvent, TurnEvents } from './turn-event.ts'
import type { ClientCall, ClientCallAnswer, TurnClientTool } from './clients/calls.ts'
import type { EarlyEnd } from './model.ts'

/** Lets a plugin start turns of its own: for messages that came from elsewhere, and for what the plugin itself wants asked. */
export interface Turns {
  /**
   * Starts a turn. The turn goes on also when nobody reads its events; where a turn is under way in the session, the new
   * one waits for its end unless `whenBusy` says otherwise.
   */
  start(turn: NewTurn): StartedTurn
  /**
   * Hands in a person's answer to what a run waits for, and goes on with the run. The first answer counts: the `begun` of any
   * other rejects with `CONFLICT`. Ask the person who speaks, and nobody else: `user` has to be that person.
   */
  resume(answer: TurnAnswer): StartedTurn
  /**
   * Reads the events of a run again, from the first or from the one after `after`, to the end; a run that is under way goes on
   * live. Rejects with `NOT_FOUND` where the user has no such run.
   */
  events(run: ReadRun): AsyncIterable<TurnEvent>
  /** What goes on in a session: the run under way, or the one that stands still, and for what. */
  open(session: OpenSession): Promise<OpenTurn>
  /** The turns of a user, the newest first, whoever began them. */
  list(wanted: WantedTurns): Promise<ListedTurns>
  /**
   * Stops what is under way in a session, or the turn of one request: also one that waits for its beginning or for a person.
   * Resolves to false where there was nothing to stop.
   */
  abort(turn: WhichTurn): Promise<boolean>
  /**
   * Takes the words of a turn back: the message, the reply, and what its tools were told and answered, become `[removed]` in the
   * history, in the journal, in replays, and in what models are sent from then on. A turn that is under way is stopped
   * first. Resolves to false where the user has no such turn. What tools have done stays done.
   */
  redact(turn: WhichTurn & { readonly requestId: string }): Promise<boolean>
  /**
   * Hears every run of a session, whoever began it and whichever process carries it: first what was said so far of a run that is
   * under way or waits for a person, then each run as it goes on. A run that waits for a person tells `done` once more where it
   * ends without a decision. The following ends with the session, with the server, or when `signal` fires. Rejects with
   * `NOT_FOUND` where the user has no such session.
   */
  follow(session: FollowedSession): AsyncIterable<FollowedEvent>
  /**
   * Ends the reply of a run where its user stopped listening: what comes after is in no history, no replay and no request
   * of a model any more. Calls and their results stay. A run under way is stopped first. A smaller `chars` counts, a larger one
   * changes nothing. Resolves to whether words were cut off.
   */
  cut(reply: CutReply): Promise<boolean>
}

/** A run whose events are read again. */
export interface ReadRun {
  /** Whose run it is. */
  readonly user: { readonly did: string }
  /** The run. */
  readonly runId: string
  /** The number of the event after which reading begins. */
  readonly after?: number
  /** Ends the reading; the run goes on. */
  readonly signal?: AbortSignal
}

/** Which turns of a user are listed. */
export interface WantedTurns {
  /** Whose turns. */
  readonly user: { readonly did: string }
  /** Those of this session alone. */
  readonly session?: string
  /** The turn of this run alone: its first run, or any that continues it. */
  readonly runId?: string
  /** Those in which these stand. */
  readonly status?: readonly ListedTurn['status'][]
  /** How many: 1 to 100, by default 50. */
  readonly limit?: number
  /** Older ones than this: `next` of a list before. */
  readonly before?: string
}

/** Turns of a user. */
export interface ListedTurns {
  /** The turns. */
  readonly turns: readonly ListedTurn[]
  /** The cursor of the list after this one; null where there is none. */
  readonly next: string | null
}

/** A turn as a list has it: a run, with those that went on with it after answers. */
export interface ListedTurn {
  /** The id of its first run. */
  readonly runId: string
  /** The id of its last run, which goes on, stands still or has ended. */
  readonly lastRunId: string
  /** The session. */
  readonly sessionId: string
  /** The name of its last run. */
  readonly requestId: string
  /** Where it stands. */
  readonly status:
    'queued' | 'running' | 'waiting' | 'finished' | 'aborted' | 'interrupted' | 'failed'
  /** When its last run was recorded. */
  readonly startedAt: Date
  /** When it ended. */
  readonly endedAt?: Date
}

/** A session of which a plugin asks what goes on there. */
export interface OpenSession {
  /** Whose session it is. */
  readonly user: { readonly did: string }
  /** The session. */
  readonly session: string
  /** The session stands for the newest branch of its conversation, as it does for a turn with a `history`. */
  readonly newestBranch?: boolean
}

/** What goes on in a session. */
export interface OpenTurn {
  /** The session: with `newestBranch` that branch. */
  readonly sessionId: string
  /** The run under way. */
  readonly run?: { readonly runId: string }
  /** The run that stands still: `approval`, until a person decides, or `client`, until the client hands in results. */
  readonly waiting?: {
    readonly runId: string
    readonly kind: 'approval' | 'client'
    readonly calls: readonly ClientCall[]
  }
}

/** A session that somebody follows. */
export interface FollowedSession {
  /** Whose session it is. */
  readonly user: { readonly did: string }
  /** The session. */
  readonly session: string
  /** A run of the session: it is told from its beginning, and then every run that has begun after it, also those that are over. */
  readonly since?: string
  /** Ends the following. */
  readonly signal?: AbortSignal
}

/** An event of any run of a session that is followed. */
export type FollowedEvent = {
  [Name in keyof TurnEvents]: {
    readonly runId: string
    readonly requestId: string
    /** The event's name: `message`, `tool_call`, `done` and so on. */
    readonly event: Name
    /** What the event says; `docs/events.md` lists it by name. */
    readonly data: TurnEvents[Name]
  }
}[keyof TurnEvents]

/** Where the reply of a run ends for the person who heard it. */
export interface CutReply {
  /** Whose session it is. */
  readonly user: { readonly did: string }
  /** The session. */
  readonly session: string
  /** The run, as its events name it. */
  readonly runId: string
  /** How many characters of the text of its events `message` the person heard. The reply ends with the last whole word. */
  readonly chars: number
  /** A write that a tool has begun comes to its end before the run is stopped, and no other begins. */
  readonly finishWrites?: boolean
}

/** A person's answer to what a run waits for. */
export interface TurnAnswer {
  /** Who answers: the user whose run it is. */
  readonly user: User | { readonly did: string }
  /** The run that waits, as its events name it. */
  readonly runId: string
  /** Whether the call is carried out, with other arguments in `args`, or not at all. It stands alone, without `results`. */
  readonly decision?: 'approve' | 'reject' | 'edit'
  /**
   * What the client made of its own calls, where the run waits for these. A call without an answer has none: the model reads so.
   * Answers of calls that the run does not wait for are ignored.
   */
  readonly results?: readonly ClientCallAnswer[]
  /** The name of the answer, one for the user: a second answer with the name finds what the first one began. */
  readonly requestId?: string
  /** The arguments in place of those that the model gave: an object, with `edit`. */
  readonly args?: Readonly<Record<string, unknown>>
  /** Why not, in the person's words, for the model to read: 500 characters at most, with `reject`. */
  readonly reason?: string
  /** As in `turns.start`: the run goes on under the delegation that the user has stored here. */
  readonly delegation?: 'stored'
  /** Stops what goes on, as in `turns.start`. */
  readonly signal?: AbortSignal
  /** Ends the reading of its events, as in `turns.start`. */
  readonly reader?: AbortSignal
}

/** Turns of a session: all that are under way, or that of one request. */
export interface WhichTurn {
  /** Whose session it is. */
  readonly user: { readonly did: string }
  /** The session. */
  readonly session: string
  /** The name of the turn, as its start gave it. */
  readonly requestId?: string
}

/** A turn as a plugin asks for it. */
export interface NewTurn {
  /** Who speaks. */
  readonly user: User | { readonly did: string }
  /**
   * `stored`: the turn acts under the delegation that the user has stored here, as over HTTP. Only for words of which your plugin
   * has proof that this very user said them. Without it a `user` who is a mere `did` may do what needs no capability.
   */
  readonly delegation?: 'stored'
  /** The session; where none is named, that of the `room`, and without one a new session, which is this plugin's. */
  readonly session?: string
  /**
   * The room of a session that begins with this turn, by the plugin's own name for the room. A session that is there keeps
   * the room that it has: where that is another one, the turn is refused with `CONFLICT`.
   */
  readonly room?: string
  /** Beside `room`: others read along in the room, so handlers of the turn find `ctx.shared` true. */
  readonly shared?: boolean
  /** The words of the turn: 256 KiB at most, and not empty. */
  readonly message: string
  /**
   * Whose words these are. `user`, the default: the user's own, which came another way. `plugin`: the plugin's. The model
   * reads that the user did not say them, and the history that clients get leaves them out.
   */
  readonly from?: 'user' | 'plugin'
  /**
   * What happens while a turn is under way in the session or a person is asked. `wait`, the default: this turn begins when
   * the session is free, for 24 hours. `refuse`: 409 `SESSION_BUSY`. `interrupt`: the turn under way ends for this one.
   */
  readonly whenBusy?: 'wait' | 'refuse' | 'interrupt'
  /**
   * The name of the turn, one for the user. A second start with the name finds the first turn, from its first event, with
   * or without a session; with other words it is 422 `REQUEST_ID_REUSED`.
   */
  readonly requestId?: string
  /** What handlers of the turn read as `ctx.metadata`: JSON, 8 KiB at most. */
  readonly metadata?: Readonly<Record<string, unknown>>
  /** What is attached, as in `POST /messages/:sessionId`. */
  readonly attachments?: readonly unknown[]
  /** The model that answers; the default one where none is named. */
  readonly model?: string
  /** Lines of the system prompt for this turn alone: 36 KiB at most. */
  readonly instructions?: string
  /**
   * Other people's words that go along: 64 KiB at most. The model reads them as quoted data, and the turn counts as one
   * that has read foreign text from its beginning.
   */
  readonly quoted?: string | readonly string[]
  /**
   * The names of the tools of this turn, those of `toolsFor` too. Other tools are neither shown nor callable. What no plugin
   * has for the user is left out, and the log says so.
   */
  readonly allow?: readonly string[]
  /** The client's own tools of this turn, as in `POST /messages/:sessionId`. */
  readonly tools?: readonly TurnClientTool[]
  /**
   * What happens when the model calls them. `wait`, the default: the turn goes on once a page of the user has answered. `park`:
   * the turn ends as `waiting` with the event `client_calls`, all calls of one step together, and goes on with
   * `turns.resume({ results })`, for 24 hours.
   */
  readonly clientTools?: 'wait' | 'park'
  /** The IANA time zone of the user, such as `Africa/Lusaka`. */
  readonly timezone?: string
  /**
   * The user's language, as a BCP 47 tag such as `sw` or `fr-CD`: with `approvals: 'words'` the question is in English, French or
   * Swahili. Without it, the first language that the request of `koa` accepts.
   */
  readonly language?: string
  /**
   * What the client believes was said before, oldest first. Where that is what the session has, the session goes on. Where it is
   * a shorter beginning of it, because a message was edited or is to be answered anew, the conversation goes on in a branch from
   * there. Anything else: the model reads these lines, the newest 400 and 512 KiB of them, in place of the session's. The named
   * session stands for the newest branch of its conversation; `begun` tells which that is. A turn with a history waits for the
   * end of a run under way, 60 seconds at most, and then is 409 `SESSION_BUSY`; it takes the place of a run that stands still.
   */
  readonly history?: readonly SaidBefore[]
  /** A session of its own for this turn alone, which no list shows and which is deleted an hour after it was used last. */
  readonly ephemeral?: boolean
  /**
   * `events`: the plugin shows what waits for a person and brings the decision by `turns.resume`, as a client does that shows
   * approvals. `words`: the run ends as waiting with a question in its text, and the next message of the session decides by a
   * bare yes or no; any other message is a no and a turn of its own. `false`: nobody can be asked, and the model reads so.
   * Without it nobody can be asked, unless a client of the session shows approvals.
   */
  readonly approvals?: 'events' | 'words' | false
  /**
   * Stops the turn once nobody has read it for so long, on any replica; the cause is `alone`. A turn that waits for a person or
   * its client is not stopped. Without it nobody's leaving ends a turn. From 100 ms to a day.
   */
  readonly whenAlone?: { readonly stopAfterMs: number }
  /**
   * Fires when whoever reads the events of this turn has left: reading them ends, and counts no more for `whenAlone`. The turn goes
   * on. Without it a loop over the events of a silent turn counts as a reader until the next event comes.
   */
  readonly reader?: AbortSignal
  /** The request of a route that stands in for `POST /messages/:sessionId`: the turn counts for the caller's address. */
  readonly koa?: KoaContext
  /** Stops the turn: also one that waits for its beginning or for a person, and one that another server carries. */
  readonly signal?: AbortSignal
}

/** The beginning of a turn, as the database has it. */
export interface BegunTurn {
  /** The run of the turn; undefined while the turn waits for its beginning. */
  readonly runId?: string
  /** The session of the turn. */
  readonly sessionId: string
  /** The name of the turn: the one that the start gave, or one that was made up. */
  readonly requestId: string
  /** False when an earlier start with this `requestId` made the turn. */
  readonly isNew: boolean
  /** `queued`: the turn waits until the session is free. */
  readonly state: 'running' | 'queued'
}

/** The end of a turn. */
export interface EndedTurn {
  /** How the turn ended; `waiting`: a person is asked. */
  readonly status: 'finished' | 'aborted' | 'interrupted' | 'failed' | 'waiting'
  /** What the agent said. */
  readonly text: string
  /** Why the turn failed. */
  readonly error?: { readonly code: string; readonly message: string }
  /** Why the model's last answer ended early; absent where it ended as usual. */
  readonly ended?: EarlyEnd
}

/** A turn that a plugin started: its events, from the first to the end. A turn that waits has events once it begins. */
export interface StartedTurn extends AsyncIterable<TurnEvent> {
  /** Resolves once the turn is in the database: then a webhook may be answered 202. Rejects when the turn is refused. */
  readonly begun: Promise<BegunTurn>
  /**
   * Resolves once the turn has said anything after its first event, or 250 ms after it began. Rejects with what the turn failed
   * with before it said anything: a protocol can then answer with a status.
   */
  readonly spoke: Promise<void>
  /** Resolves when the turn has ended, or stands still because a person is asked. */
  readonly ended: Promise<EndedTurn>
}

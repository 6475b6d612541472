import type { Kysely } from 'kysely'
import type { AskableModel, OfferedModels } from './models/asking.ts'
import type { AnyPlugin, StateOf } from './definition.ts'
import type { Jobs, UnknownInputs } from './jobs.ts'
import type { Model, ModelRequest, TurnUsage } from './model.ts'
import type { PluginSessions, Rooms } from './sessions.ts'
import type { Turns } from './turns.ts'

/** The log of one plugin. Fields first, then the sentence, as pino has it. */
export interface Log {
  debug(fields: object | string, message?: string): void
  info(fields: object | string, message?: string): void
  warn(fields: object | string, message?: string): void
  error(fields: object | string, message?: string): void
}

/** The authenticated caller. */
export interface User {
  /** The caller's DID. */
  readonly did: string
  /** Whether the caller's delegation grants `ability` on `resource` (default: the caller's own DID). */
  can(ability: string, resource?: string): boolean
  /** Why `can` says no: one sentence for each capability that was looked at. Empty when `can` says yes. */
  denial(ability: string, resource?: string): readonly string[]
}

/** The conversation that a turn belongs to. */
export interface Session {
  /** The id of the session. */
  readonly id: string
}

/** How `ctx.emit.component` shows a component. */
export interface ComponentOptions {
  /** The component's name within the call; by default each component is a new one. */
  readonly id?: string
  /** `isRunning`: the arguments are not complete yet. */
  readonly status?: 'isRunning' | 'done'
}

/** What a turn can tell its listeners beside the reply. */
export interface Emit {
  /** Shows a component. What a call shows under one `id` takes the place of what the call showed before. */
  component(name: string, args: Record<string, unknown>, options?: ComponentOptions): void
  /** Adds to the reasoning that clients show apart from the reply. */
  reasoning(text: string): void
  /** Tells how far a long call is: `done` of `total` are finished. */
  progress(done: number, total?: number, note?: string): void
  /** Tells the client that it may go to a route of its own. */
  router(route: string): void
  /** Tells clients to read the history of the session again. */
  invalidate(status?: string): void
}

/** A database whose tables a plugin declares itself: `db.withTables<{ notes: NotesTable }>()` types them. */
export type Database = Kysely<{}>
/** What reaches the network: the global `fetch`, or what a test gives instead. */
export type Fetch = typeof globalThis.fetch

/** The ids of what a call wrote. */
export interface AuditFacts {
  /** Who wrote, where the caller's own name says less: the last digits of a phone, for example. */
  readonly who?: string
  readonly [id: string]: string | number | undefined
}

/** What every handler reaches, whatever its plugin. Apart from `Base`, whose members the compiler works out anew for each handler. */
interface Call {
  /** The log of the plugin. */
  readonly log: Log
  /** The network. */
  readonly fetch: Fetch
  /** The database, SQLite or PostgreSQL. */
  readonly db: Database
  /** Finds and makes sessions of users, and says something in them without a model. */
  readonly sessions: PluginSessions
  /** Fires when nobody waits for the answer any more: a turn that was stopped, a client that left. */
  readonly signal: AbortSignal
  /** The time. Ask here and not `new Date()`, so that a test can move it. */
  now(): Date
  /** The id of the request: in the log, in the answer's `X-Request-Id` and in the events of a turn. */
  readonly requestId: string
  /** Starts turns: for messages that came from elsewhere, and for what the plugin wants asked. */
  readonly turns: Turns
  /** The model of the turn; outside of turns the default one. `text` and `object` ask it something aside. */
  readonly model: AskableModel
  /** The models of the app, and vectors of texts. */
  readonly models: OfferedModels
  /**
   * Adds ids to the audit line of this call: never words, arguments or secrets. Every write of a signed-in caller and
   * every `write` tool has a line anyway; a public route, a GET and a `read` tool get one when their handlers call this.
   * A prompt, the middleware of turns and models and the functions of `runs` belong to no call: ids that they add are not
   * kept.
   */
  audit(facts: AuditFacts): void
}

/** What every handler of one plugin reaches. */
export interface Base<Env, Self, Peers, Inputs> extends Call {
  /** The plugin's variables, parsed. */
  readonly env: Env
  /** What `setup` returned. */
  readonly self: Self
  /** What the plugins named in `requires` and `uses` returned from their `setup`, by plugin name. */
  readonly plugins: Peers
  /** Asks for jobs of the plugin: work that outlives the process. */
  readonly jobs: Jobs<Inputs>
}

/**
 * Whether a person can be asked about a call in this turn: by an event that the client shows with buttons, by words
 * that the person answers, or not at all.
 */
export type Approvals = 'events' | 'words' | false

/** What handlers see of a turn, whatever their plugin: apart from `TurnContext`, as `Call` is from `Base`. */
interface OfTurn {
  /** Who is speaking. */
  readonly user: User
  /** What the user said in this turn; empty where a plugin spoke, with `from: 'plugin'`. */
  readonly message: string
  /** The conversation. */
  readonly session: Session
  /** What room-scoped state belongs to: the room of the session, `<plugin>:<room>`, else the pair of user and oracle. */
  readonly room: string
  /**
   * Whether others read along in the room of the session. What belongs to one person alone then has no place in a prompt, a
   * result or a reply. False in a session without a room, and so in every session that a client began.
   */
  readonly shared: boolean
  /** Tells the listeners of the turn something beside the reply. */
  readonly emit: Emit
  /**
   * The key of the tool's call: the same when the call is tried again, also by another process after a crash. Pass it on
   * as Idempotency-Key. Empty where no tool is called: in a prompt and in the middleware of turns and models.
   */
  readonly callKey: string
  /**
   * What came with the turn, as a frozen copy. Over HTTP these are the client's own words: go by `origin` for what nobody
   * may make up.
   */
  readonly metadata: Readonly<Record<string, unknown>>
  /** The name of the plugin that started the turn; undefined for a turn that began over HTTP. */
  readonly origin: string | undefined
  /** Whether a person can be asked: `'events'`, `'words'` or `false`. */
  readonly approvals: Approvals
}

/** What a tool, a prompt and the middleware of a turn see. */
export interface TurnContext<
  Env = unknown,
  Self = unknown,
  State = Record<string, unknown>,
  Peers = unknown,
  Inputs = UnknownInputs,
>
  extends Base<Env, Self, Peers, Inputs>, OfTurn {
  /** The plugin's own keys. Assign to change them; the change is part of the checkpoint. */
  readonly state: State
  /** Another plugin's keys, as a frozen copy to read. */
  stateOf<P extends AnyPlugin>(plugin: P): Readonly<StateOf<P>>
  /** The plugin's room-scoped keys of any user, outside of this turn. */
  readonly rooms: Rooms<State>
}

/** Words of a layer around the model. */
export interface ModelWords {
  /** What the client reads as a part of the reply. */
  readonly text?: string
  /** What the client reads as thought, and not as said. */
  readonly reasoning?: string
}

/** What `middleware.model` sees: the context of the turn, and what the model is asked. */
export interface ModelContext<
  Env = unknown,
  Self = unknown,
  State = Record<string, unknown>,
  Peers = unknown,
  Inputs = UnknownInputs,
> extends TurnContext<Env, Self, State, Peers, Inputs> {
  /** What the model is asked. Replace the request before `next()` to change it. */
  request: ModelRequest
  /** What the turn has cost so far; undefined before its first call of a model has ended. */
  readonly spent: TurnUsage | undefined
  /**
   * Says something as if the model said it: clients read it at once, and the journal keeps it as a part of the reply. A layer
   * that says everything itself returns `{ content: '', toolCalls: [] }`, or calls, without `next()`. Throws once the turn
   * is stopped.
   */
  say(words: ModelWords): void
}

/** What the instructions of an app may depend on: who speaks, and where. */
export type InstructionsContext = Pick<
  TurnContext,
  'user' | 'session' | 'room' | 'requestId' | 'signal'
> & {
  /** The model of the turn. */
  readonly model: Model
}

/** Who the agent is and how it speaks: text, or a function that answers at once with the text of one turn. */
export type Instructions = string | ((ctx: InstructionsContext) => string | undefined)

import type { Kysely } from 'kysely'
import type { AnyPlugin, StateOf } from './definition.ts'
import type { Model, ModelRequest } from './model.ts'

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
  /** Why `can` says no: one sentence for each capability that was looked at. Empty when it says yes. */
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
  /** Tells how far a long call is: so many of `total` are done. */
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

/** What was written, by its ids. */
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
  /** Fires when nobody waits for the answer any more: a turn that was stopped, a client that left. */
  readonly signal: AbortSignal
  /** The id of the request: in the log, in the answer's `X-Request-Id` and in the events of a turn. */
  readonly requestId: string
  /**
   * Adds ids to the audit line of this call: never words, arguments or secrets. Every write of a signed-in caller and
   * every `write` tool has a line anyway; a public route, a GET and a `read` tool get one when they call this.
   * In a prompt and in the middleware of turns and models there is no call, and nothing is kept.
   */
  audit(facts: AuditFacts): void
}

/** What every handler of one plugin reaches. */
export interface Base<Env, Self, Peers> extends Call {
  /** The plugin's variables, parsed. */
  readonly env: Env
  /** What `setup` returned. */
  readonly self: Self
  /** What the plugins named in `requires` returned from their `setup`, by plugin name. */
  readonly plugins: Peers
}

/**
 * Whether a person can be asked about a call in this turn: by an event that the client shows with buttons, by words
 * that the person answers, or not at all.
 */
export type Approvals = 'events' | 'words' | false

/** What a tool, a prompt and the middleware of a turn see. */
export interface TurnContext<
  Env = unknown,
  Self = unknown,
  State = Record<string, unknown>,
  Peers = unknown,
> extends Base<Env, Self, Peers> {
  /** Who is speaking. */
  readonly user: User
  /** The conversation. */
  readonly session: Session
  /** What room-scoped state belongs to: the messaging room, else the pair of user and oracle. */
  readonly room: string
  /** The plugin's own keys. Assign to change them; the change is part of the checkpoint. */
  readonly state: State
  /** Another plugin's keys, as a frozen copy to read. */
  stateOf<P extends AnyPlugin>(plugin: P): Readonly<StateOf<P>>
  /** Tells the listeners of the turn something beside the reply. */
  readonly emit: Emit
  /** The model of the turn. */
  readonly model: Model
  /** Whether a person can be asked: `'events'`, `'words'` or `false`. */
  readonly approvals: Approvals
}

/** What `middleware.model` sees: the context of the turn, and what the model is asked. */
export interface ModelContext<
  Env = unknown,
  Self = unknown,
  State = Record<string, unknown>,
  Peers = unknown,
> extends TurnContext<Env, Self, State, Peers> {
  /** What the model is asked. Replace the request before `next()` to change it. */
  request: ModelRequest
}

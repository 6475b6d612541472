import type { Context as KoaContext, Middleware as KoaMiddleware } from 'koa'
import type { Kysely } from 'kysely'
import type { z } from 'zod'
import type { Fault, RuntimeError } from './errors.ts'

/** Any zod schema. Bounded by the core type, which costs the compiler half of what `ZodType` does. */
export type Schema = z.core.$ZodType
/** Enough of a schema to read its types; comparing with all of it costs the compiler dearly. */
type SchemaLike = { readonly _zod: { readonly input: unknown; readonly output: unknown } }
type ShapeLike = Readonly<Record<string, SchemaLike>>
/** A map of names to schemas: an environment slice, a set of state keys. */
export type Shape = Readonly<Record<string, Schema>>
type Parsed<S> = S extends SchemaLike ? S['_zod']['output'] : never
type ParsedShape<S> = { [K in keyof S]: Parsed<S[K]> }
type MaybePromise<T> = T | Promise<T>

// ── What the model port speaks ────────────────────────────────────────────────────────────────

/** One call of a tool, as the model asked for it. */
export interface ToolCall {
  readonly id: string
  readonly name: string
  readonly args: unknown
}

/** A line of the conversation. Plain data: it is stored as it stands. */
export type Message =
  | { readonly role: 'system'; readonly content: string }
  | { readonly role: 'user'; readonly id: string; readonly content: string }
  | {
      readonly role: 'assistant'
      readonly id: string
      readonly content: string
      readonly toolCalls?: readonly ToolCall[]
      readonly reasoning?: string
    }
  | {
      readonly role: 'tool'
      readonly id: string
      readonly toolCallId: string
      readonly name: string
      readonly content: string
      readonly failed?: boolean
      /** Other people's words: where they came from. A model is sent them as quoted data. */
      readonly foreign?: { readonly plugin: string; readonly label?: string }
    }

/** A tool as a model sees it: `parameters` is JSON Schema. */
export interface ToolSpec {
  readonly name: string
  readonly description: string
  readonly parameters: Record<string, unknown>
}

export interface ModelRequest {
  readonly messages: readonly Message[]
  readonly tools: readonly ToolSpec[]
  readonly signal: AbortSignal
}

/** A piece of a model's answer, in the order it arrives. */
export type Delta =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'reasoning'; readonly text: string }
  | {
      readonly type: 'tool-call'
      readonly index: number
      readonly id?: string
      readonly name?: string
      readonly args?: string
    }
  | { readonly type: 'usage'; readonly inputTokens: number; readonly outputTokens: number }

/** What a whole model call came to. */
export interface ModelReply {
  readonly content: string
  readonly reasoning?: string
  readonly toolCalls: readonly ToolCall[]
}

/** The model port. `stream` yields deltas until the answer is complete, and stops when `signal` fires. */
export interface Model {
  readonly id: string
  readonly label?: string
  /** Tokens (about four characters each) that fit; history is trimmed to it. */
  readonly contextWindow?: number
  stream(request: ModelRequest): AsyncIterable<Delta>
  /** The same without a promise for every delta, where a model can: `take` may throw, and that ends it. */
  streamTo?(request: ModelRequest, take: (delta: Delta) => void): Promise<void>
}

// ── What handlers reach ───────────────────────────────────────────────────────────────────────

/** The log of one plugin. Fields first, then the sentence, as pino has it. */
export interface Log {
  debug(fields: object | string, message?: string): void
  info(fields: object | string, message?: string): void
  warn(fields: object | string, message?: string): void
  error(fields: object | string, message?: string): void
}

/** The authenticated caller. */
export interface User {
  readonly did: string
  /** Whether the caller's delegation grants `ability` on `resource` (default: the caller's own DID). */
  can(ability: string, resource?: string): boolean
  /** Why `can` says no: one sentence for each capability that was looked at. Empty when it says yes. */
  denial(ability: string, resource?: string): readonly string[]
}

export interface Session {
  readonly id: string
}

export interface ComponentOptions {
  /** Its name within the call; by default each component is a new one. */
  readonly id?: string
  /** `isRunning`: its arguments are not complete yet. */
  readonly status?: 'isRunning' | 'done'
}

/** What a turn can tell its listeners beside the reply. */
export interface Emit {
  /** Shows a component. What a call shows under one `id` takes the place of what it showed before. */
  component(name: string, args: Record<string, unknown>, options?: ComponentOptions): void
  reasoning(text: string): void
  progress(done: number, total?: number, note?: string): void
  router(route: string): void
  invalidate(status?: string): void
}

/** The tables of a plugin are its own knowledge: `db.withTables<{ notes: NotesTable }>()` types them. */
export type Database = Kysely<{}>
export type Fetch = typeof globalThis.fetch

/** What was written, by its ids; `who` where the caller's own name says less, such as a phone's last digits. */
export interface AuditFacts {
  readonly who?: string
  readonly [id: string]: string | number | undefined
}

/** What every handler reaches, whatever its plugin. Apart from `Base`, for the compiler works out each member of that anew for each handler. */
interface Call {
  readonly log: Log
  readonly fetch: Fetch
  readonly db: Database
  readonly signal: AbortSignal
  readonly requestId: string
  /**
   * Adds ids to the audit line of this call: never words, arguments or secrets. Every write of a signed-in caller and
   * every `write` tool has a line anyway; a public route, a GET and a `read` tool get one when they call this.
   * In a prompt and in the middleware of turns and models there is no call, and nothing is kept.
   */
  audit(facts: AuditFacts): void
}

interface Base<Env, Self, Peers> extends Call {
  readonly env: Env
  /** What `setup` returned. */
  readonly self: Self
  /** What the plugins named in `requires` returned from theirs. */
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
  readonly user: User
  readonly session: Session
  /** What room-scoped state belongs to: the messaging room, else the pair of user and oracle. */
  readonly room: string
  /** The plugin's own keys. Assign to change them; the change is part of the checkpoint. */
  readonly state: State
  /** Another plugin's keys, to read. */
  stateOf<P extends AnyPlugin>(plugin: P): Readonly<StateOf<P>>
  readonly emit: Emit
  readonly model: Model
  readonly approvals: Approvals
}

/** In `middleware.model`: the request may be replaced before `next()`. */
export interface ModelContext<
  Env = unknown,
  Self = unknown,
  State = Record<string, unknown>,
  Peers = unknown,
> extends TurnContext<Env, Self, State, Peers> {
  request: ModelRequest
}

export type RouteAuth = 'ucan' | 'public' | 'bearer' | 'operator'

/** One line of an NDJSON body: its value, or why it has none. */
export type BodyLine =
  | { readonly number: number; readonly value: unknown; readonly fault?: undefined }
  | { readonly number: number; readonly value?: undefined; readonly fault: Fault }

/** What a route sees. In a `ucan` route `user` is always there and `state` holds the room-scoped keys. */
export interface RouteContext<
  Env = unknown,
  Self = unknown,
  State = Record<string, unknown>,
  Peers = unknown,
  Auth = RouteAuth,
> extends Base<Env, Self, Peers> {
  readonly user: UcanOnly<Auth, User>
  readonly state: UcanOnly<Auth, State>
  /** Who called: a DID, the name of the key, or the address of a public caller. */
  readonly caller: string
  /** The lines of the body, in a route with `body: 'ndjson'`. */
  readonly lines: AsyncIterable<BodyLine>
  /** The escape hatch. */
  readonly koa: KoaContext
}

/** How a route takes its body, and how much of it. */
export type RouteBody =
  | 'json'
  | 'ndjson'
  | { readonly kind?: 'json' | 'ndjson'; readonly maxBytes: number }
  | { readonly json: number; readonly ndjson: number }

/** Without `auth` a route is `ucan`, so an unknown here means locked: `T` is there. */
type UcanOnly<Auth, T> = unknown extends Auth ? T : [Auth] extends ['ucan'] ? T : T | undefined

// ── What a plugin offers ──────────────────────────────────────────────────────────────────────

/** A capability that the user's delegation must grant. `with` defaults to the user's own DID. */
export interface Demand<Input, Context> {
  readonly can: string
  with?(input: Input, ctx: Context): string
}

/** Refuses what is not a schema, apart from the inference: an intersection with it there costs dearly. */
type Schemas = Readonly<
  Record<string, { readonly input?: SchemaLike; readonly output?: SchemaLike }>
>

interface ToolIn<I, Context> {
  /** One or two sentences for the model: what it does and when to call it. */
  readonly description: string
  readonly input: I
  /** A write (the default) is executed at most once, whatever crashes; a read may run again. */
  readonly effect?: 'read' | 'write'
  readonly can?: Demand<Parsed<I>, Context>
  /**
   * Ask a person first: always, or when the function says so. False: the call is harmless whatever the turn has read,
   * so it runs without asking even after other people's words; a comment says why.
   */
  readonly approve?: boolean | ((input: Parsed<I>, ctx: Context) => MaybePromise<boolean>)
  /**
   * Whether the result holds other people's words: by default that of a read does, that of a write does not. After
   * such a result no write of the turn runs before a person has agreed.
   */
  readonly foreign?: boolean
  /** False hides the tool for this turn. */
  enabled?(ctx: Context): boolean
  run(input: Parsed<I>, ctx: Context): unknown
}
interface ToolOut<O> {
  /** The shape of the result, for the client's types and checked before the model reads it. */
  readonly output?: O
}
type Tools<I, O, Context> = { [K in keyof I]: ToolIn<I[K], Context> } & {
  [K in keyof O]: ToolOut<O[K]>
} & Schemas

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
/** `:id` in a path is a parameter; `'GET /sessions/:id'` gives `{ id: string }`. */
export type PathParams<Key extends string> = string extends Key
  ? Record<string, string>
  : { [P in ParamNames<Key>]: string }
type ParamNames<S extends string> = S extends `${string}/:${infer Rest}`
  ? Rest extends `${infer Name}/${infer Tail}`
    ? Name | ParamNames<`/${Tail}`>
    : Rest
  : never
type CheckRouteKey<K> = K extends `${Method} /${string}`
  ? unknown
  : `A route key reads "METHOD /path" with GET, POST, PUT, PATCH or DELETE, for example "GET /notes/:id"`

/** How many requests of one counting a route takes in a time. */
export interface RouteLimit {
  readonly max: number
  readonly perMs: number
  /**
   * Counts by what this returns; undefined counts by the address. `body` reads the route's input,
   * once for both, and rejects when it cannot be read or does not pass: the route meets the same and answers it.
   */
  by?(koa: KoaContext, body: () => Promise<unknown>): MaybePromise<string | undefined>
}

interface RouteIn<Key extends string, I, Context> {
  /** Path parameters merged with the query (GET, DELETE) or the body (the others). */
  readonly input?: I
  /** Requests per `perMs` from one address; replaces the kernel's own limit on this route. */
  readonly limit?: RouteLimit
  /** Origins that browsers may call from; false closes the route to other origins. */
  readonly cors?: false | readonly string[]
  /**
   * `'ndjson'` hands the body over line by line as `ctx.lines`. With a limit for each a route takes both, as the
   * Content-Type says; `input` is then read from the query beside lines.
   */
  readonly body?: RouteBody
  readonly summary?: string
  readonly can?: Demand<RouteInput<Key, I>, Context>
  /**
   * Whether anything here is the caller's own. A `bearer` GET with it lets callers with a DID in who lack the right, when
   * it says yes, before anything else of the request is read; the handler then shows them what is theirs alone.
   */
  own?(ctx: Context): MaybePromise<boolean>
  /** Renders a failed `input` where a protocol wants its own words. */
  onInvalid?(faults: readonly Fault[], ctx: Context): unknown
  /** The route tells repeats apart itself: an Idempotency-Key is passed over. */
  readonly idempotent?: true
  /** Renders a fault on our side (a status of 500 and above) likewise. The log has it all the same. */
  onFault?(error: RuntimeError, ctx: Context): unknown
  run(input: RouteInput<Key, I>, ctx: Context): unknown
}
interface RouteOut<O> {
  /** The shape of a JSON answer, for `/openapi.json`; the value is passed through it. */
  readonly output?: O
}
interface RouteAccess<A> {
  readonly auth?: A & RouteAuth
}
type RouteInput<Key extends string, I> = I extends SchemaLike
  ? I['_zod']['output']
  : PathParams<Key>

type Routes<I, O, A, Env, Self, State, Peers> = {
  [K in keyof I]: RouteIn<
    K & string,
    I[K],
    RouteContext<Env, Self, State, Peers, K extends keyof A ? A[K] : unknown>
  > &
    CheckRouteKey<K>
} & { [K in keyof O]: RouteOut<O[K]> } & { [K in keyof A]: RouteAccess<A[K]> } & Schemas

/** In the function form a handler's context cannot depend on its own route: `user` is optional there. */
type LateRoutes<I, O, Env, Self, State, Peers> = {
  [K in keyof I]: RouteIn<K & string, I[K], RouteContext<Env, Self, State, Peers>> &
    RouteAccess<RouteAuth> &
    CheckRouteKey<K>
} & { [K in keyof O]: RouteOut<O[K]> } & Schemas

/** A tool that runs the engine with a prompt of its own and some of its plugin's tools. */
export interface SubAgent<ToolName extends string = string> {
  readonly description: string
  readonly prompt: string
  readonly tools: readonly ToolName[]
  readonly model?: string
}

/** What the model reads about a call before and after the onion has it. */
export interface PendingCall {
  readonly id: string
  readonly name: string
  readonly plugin: string
  readonly effect: 'read' | 'write'
  args: unknown
}

export interface Middleware<Context, ModelCall> {
  turn?(ctx: Context, next: () => Promise<void>): Promise<void>
  model?(ctx: ModelCall, next: () => Promise<ModelReply>): Promise<ModelReply>
  tool?(call: PendingCall, ctx: Context, next: () => Promise<unknown>): Promise<unknown>
}

/** An event of a turn, as it travels to clients. */
export interface TurnEvent {
  readonly seq: number
  readonly event: string
  readonly data: Record<string, unknown>
}

/** Lets a plugin start a turn of its own: a message that came from elsewhere. */
export interface Turns {
  start(turn: {
    readonly user: User | { readonly did: string }
    readonly session?: string
    readonly message: string
    /** A UUID of the turn. The same in the same session finds the turn again, from its first event. */
    readonly requestId?: string
    /** Stops the turn, also one that waits for a person or is carried by another server. */
    readonly signal?: AbortSignal
  }): AsyncIterable<TurnEvent>
}

/** Who the oracle is to others. */
export interface Oracle {
  /** The DID it goes by. */
  readonly did: string
  /** Other DIDs that are its own: that of its key, that of its entity. */
  readonly aliases: readonly string[]
  /**
   * The Ed25519 keys, as did:keys, that may sign for a DID: none where they cannot be known. Only the resolver of the
   * oracle is asked, never an address that stands in the DID.
   */
  readonly keysOf: (did: string) => Promise<readonly string[]>
  /** Where clients find it, without a slash at the end; known once it listens. */
  readonly url: () => string
  /** Its Ed25519 key, to sign what it answers for. Absent while no signing mnemonic is loaded. */
  readonly key?: {
    /** The did:key of the key, which is not the oracle's DID where that is a registered one. */
    readonly did: string
    readonly publicKey: Uint8Array
    sign(bytes: Uint8Array): Uint8Array
  }
}

/** What `setup` gets, once, at boot. */
export interface Boot<Env = unknown, Peers = unknown> {
  readonly env: Env
  readonly log: Log
  readonly db: Database
  readonly fetch: Fetch
  readonly plugins: Peers
  readonly turns: Turns
  readonly oracle: Oracle
  /**
   * Whether a text holds what would authenticate a caller here: a key of this server, or a UCAN of anybody. Whoever
   * passes on what a client sent asks this first, and leaves out what it is said of.
   */
  holdsCredential(text: string): boolean
  /** Work that goes on after the server answers. `what` says what to check when it takes long. */
  pending(promise: Promise<unknown>, what: string): void
  /** Called in reverse order of boot when the runtime closes. */
  onClose(close: () => MaybePromise<void>): void
  /** A check that `/health` asks, within a second: it returns when well and throws a sentence when not. */
  health(check: () => MaybePromise<void>): void
}

/** Tools, routes and web modules may depend on what boot found: a function of this. */
export interface Booted<Env = unknown, Self = unknown, Peers = unknown> extends Omit<
  Boot<Env, Peers>,
  'pending' | 'onClose' | 'health'
> {
  readonly self: Self
}

export type Visibility = 'always' | 'on-demand' | 'silent'
export type Stability = 'stable' | 'beta' | 'experimental'
export type Category =
  | 'core'
  | 'data'
  | 'communication'
  | 'automation'
  | 'memory'
  | 'integration'
  | 'ui'
  | 'auth'
  | 'observability'

/** Who a plugin is: readable without running anything. */
export interface Manifest<Name extends string = string> {
  /** Lower-case words joined by hyphens, unique in the app. */
  readonly name: Name
  readonly version?: string
  /** One sentence; the agent chooses by it. */
  readonly summary: string
  readonly whenToUse?: readonly string[]
  readonly whenNotToUse?: readonly string[]
  readonly examples?: readonly string[]
  readonly tags?: readonly string[]
  /** `'always'`, `'on-demand'` (default), or `'silent'`: no agent sees it. */
  readonly visibility?: Visibility
  readonly stability?: Stability
  readonly category?: Category
  /** `'off'` waits for a feature to turn it on, `'development'` does so in production only. */
  readonly defaultState?: 'on' | 'off' | 'development'
}

/** A migration changes the database one step; it runs once per database, under its lock. */
export type Migration = (db: Kysely<any>) => Promise<void> // any: a migration sees tables that no type knows yet

type PeersOf<Requires> = Requires extends readonly AnyPlugin[]
  ? { [P in Requires[number] as P['name']]: SelfOf<P> }
  : {}

/**
 * A web module: a Koa middleware for its mount and everything below. The kernel answers preflights by
 * CORS_ORIGIN, unless `answersPreflights` says that the module has a rule of its own.
 */
export type WebModule = KoaMiddleware & { readonly answersPreflights?: boolean }

/** The object literal that `definePlugin` takes. The sections stand in reading order. */
export interface PluginDefinition<
  Name extends string,
  Env,
  Requires,
  State,
  Self,
  TI,
  TO,
  RI,
  RO,
  RA,
> extends Manifest<Name> {
  readonly env?: Env
  readonly requires?: Requires
  readonly state?: State
  readonly migrations?: Readonly<Record<string, Migration>>

  setup?(boot: Boot<ParsedShape<Env>, PeersOf<Requires>>): Self

  prompt?(
    ctx: TurnContext<ParsedShape<Env>, Awaited<Self>, ParsedShape<State>, PeersOf<Requires>>,
  ): string | undefined
  readonly tools?:
    | Tools<
        TI,
        TO,
        TurnContext<ParsedShape<Env>, Awaited<Self>, ParsedShape<State>, PeersOf<Requires>>
      >
    | ((
        boot: Booted<ParsedShape<Env>, Awaited<Self>, PeersOf<Requires>>,
      ) => Tools<
        TI,
        TO,
        TurnContext<ParsedShape<Env>, Awaited<Self>, ParsedShape<State>, PeersOf<Requires>>
      >)
  readonly subAgents?: Readonly<Record<string, SubAgent<keyof TI & string>>>
  readonly middleware?: Middleware<
    TurnContext<ParsedShape<Env>, Awaited<Self>, ParsedShape<State>, PeersOf<Requires>>,
    ModelContext<ParsedShape<Env>, Awaited<Self>, ParsedShape<State>, PeersOf<Requires>>
  >
  readonly routes?:
    | Routes<RI, RO, RA, ParsedShape<Env>, Awaited<Self>, ParsedShape<State>, PeersOf<Requires>>
    | ((
        boot: Booted<ParsedShape<Env>, Awaited<Self>, PeersOf<Requires>>,
      ) => LateRoutes<
        RI,
        RO,
        ParsedShape<Env>,
        Awaited<Self>,
        ParsedShape<State>,
        PeersOf<Requires>
      >)
  readonly web?:
    | Readonly<Record<`/${string}`, WebModule>>
    | ((
        boot: Booted<ParsedShape<Env>, Awaited<Self>, PeersOf<Requires>>,
      ) => Readonly<Record<`/${string}`, WebModule>>)
}

// ── What the kernel and the peers get ─────────────────────────────────────────────────────────

/** A tool with its types erased, as the kernel runs it. */
export interface AnyTool {
  readonly description: string
  readonly input: Schema
  readonly output?: Schema
  readonly effect?: 'read' | 'write'
  readonly can?: Demand<unknown, TurnContext>
  readonly approve?: boolean | ((input: unknown, ctx: TurnContext) => MaybePromise<boolean>)
  readonly foreign?: boolean
  enabled?(ctx: TurnContext): boolean
  run(input: unknown, ctx: TurnContext): unknown
}

/** A route with its types erased, as the kernel serves it. */
export interface AnyRoute {
  readonly auth?: RouteAuth
  readonly input?: Schema
  readonly output?: Schema
  readonly limit?: RouteLimit
  readonly cors?: false | readonly string[]
  readonly body?: RouteBody
  readonly summary?: string
  readonly can?: Demand<unknown, RouteContext>
  own?(ctx: RouteContext): MaybePromise<boolean>
  onInvalid?(faults: readonly Fault[], ctx: RouteContext): unknown
  readonly idempotent?: true
  onFault?(error: RuntimeError, ctx: RouteContext): unknown
  run(input: unknown, ctx: RouteContext): unknown
}

/** A definition with its types erased, as the kernel reads it. */
export interface AnyDefinition extends Manifest {
  readonly env?: Shape
  readonly requires?: readonly AnyPlugin[]
  readonly state?: Shape
  readonly migrations?: Readonly<Record<string, Migration>>
  setup?(boot: Boot): unknown
  prompt?(ctx: TurnContext): string | undefined
  readonly tools?:
    Readonly<Record<string, AnyTool>> | ((boot: Booted) => Readonly<Record<string, AnyTool>>)
  readonly subAgents?: Readonly<Record<string, SubAgent>>
  readonly middleware?: Middleware<TurnContext, ModelContext>
  readonly routes?:
    Readonly<Record<string, AnyRoute>> | ((boot: Booted) => Readonly<Record<string, AnyRoute>>)
  readonly web?:
    Readonly<Record<string, WebModule>> | ((boot: Booted) => Readonly<Record<string, WebModule>>)
}

/** What `definePlugin` returns: the name for peers to see, the definition for the kernel. */
export interface Plugin<Name extends string, Self, State, ToolTypes> {
  readonly name: Name
  readonly definition: AnyDefinition
  /** Types only; never there at run time. */
  readonly '~types'?: { readonly self: Self; readonly state: State; readonly tools: ToolTypes }
}
export type AnyPlugin = Plugin<string, unknown, unknown, unknown>

type TypesOf<P extends AnyPlugin> = NonNullable<P['~types']>
/** What a plugin's `setup` returned, awaited. */
export type SelfOf<P extends AnyPlugin> = TypesOf<P>['self']
/** A plugin's state, as its schemas parse it. */
export type StateOf<P extends AnyPlugin> = TypesOf<P>['state']
/** The inputs and outputs of a plugin's tools, for a typed client. */
export type ToolsOf<P extends AnyPlugin> = TypesOf<P>['tools']

type ToolTypes<TI, TO> = {
  [K in keyof TI]: {
    input: TI[K] extends SchemaLike ? TI[K]['_zod']['input'] : never
    output: K extends keyof TO
      ? TO[K] extends SchemaLike
        ? TO[K]['_zod']['output']
        : unknown
      : unknown
  }
}

/** Describes a plugin. Everything is inferred from the schemas; nothing runs until `createApp`. */
export function definePlugin<
  const Name extends string,
  Env extends ShapeLike = {},
  const Requires extends readonly AnyPlugin[] = readonly [],
  State extends ShapeLike = {},
  Self = undefined,
  TI extends ShapeLike = {},
  TO = {},
  RI = {},
  RO = {},
  const RA = {},
>(
  definition: PluginDefinition<Name, Env, Requires, State, Self, TI, TO, RI, RO, RA>,
): Plugin<Name, Awaited<Self>, ParsedShape<State>, ToolTypes<TI, TO>> {
  return { name: definition.name, definition: definition as unknown as AnyDefinition }
}

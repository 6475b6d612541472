import type { Kysely } from 'kysely'
import type { AttachmentContext, AttachmentSection } from './files/attachments.ts'
import type { Boot, Booted } from './boot.ts'
import type { ModelContext, TurnContext } from './context.ts'
import type { AnyJob, JobContext, JobSection, UnknownInputs } from './jobs.ts'
import type { Manifest } from './manifest.ts'
import type { Middleware } from './middleware.ts'
import type { ModelCall, ModelSection } from './model.ts'
import type { Notice } from './notices.ts'
import type { ToldFacts, HeaderSection, ViewSection } from './public/public.ts'
import type {
  LateRouteSection,
  RendersErrors,
  RouteAuth,
  RouteContext,
  RouteSection,
  WebEntry,
  WebModule,
  WrittenRoute,
} from './route.ts'
import type { MaybePromise, ParsedShape, Shape } from './schema.ts'
import type { AnySubAgent, AnyTool, SubAgentSection, ToolSection, TurnTools } from './tool.ts'
import type { RunContext, RunSection } from './runs.ts'
import type { UserDataContext, UserDataSection } from './kept/user-data.ts'
import type { ToldRoomChange } from './rooms/change.ts'

/**
 * A migration changes the database one step; it runs once per database, under its lock. It is an addition: a server of the
 * version before goes on beside it. One that takes something away is written as `{ up, breaks: true }`.
 */
export type Migration = (db: Kysely<any>) => Promise<void> // any: a migration sees tables that no type knows yet

/** A migration after which a server of the version before cannot run: it renames or drops, or gives a column another meaning. */
export interface BreakingMigration {
  readonly up: Migration
  readonly breaks: true
}

/** The migrations of one owner, by name: additions, and those that break. */
export type Migrations = Readonly<Record<string, Migration | BreakingMigration>>

/** The five types that every context of one plugin's handlers is made of. */
interface Scope {
  env: unknown
  self: unknown
  state: unknown
  peers: unknown
  jobs: unknown
}

/** The scope of a plugin, from its schemas, its `requires`, its `uses` and its `setup`. */
interface ScopeOf<Env, Requires, State, Self, Uses, JI> extends Scope {
  env: ParsedShape<Env>
  self: Awaited<Self>
  state: ParsedShape<State>
  peers: PeersOf<Requires, Uses>
  jobs: JI
}

/** The scope that the kernel sees: the kernel knows that a plugin has state, but not which keys. */
interface ErasedScope extends Scope {
  state: Record<string, unknown>
  jobs: UnknownInputs
}

/** What peers returned from their `setup`, by name; a peer of `uses` may be missing. */
type PeersOf<Requires, Uses> = PeersIn<Requires, never> &
  (Uses extends readonly [] ? unknown : PeersIn<Uses, undefined>)

type PeersIn<Plugins, Missing> = Plugins extends readonly AnyPlugin[]
  ? { [P in Plugins[number] as P['name']]: SelfOf<P> | Missing }
  : {}

/** A tool that a sub-agent may borrow: a plugin of `requires` or `uses`, and the name of one of its tools. */
type Borrowable<Plugins> = Plugins extends readonly AnyPlugin[]
  ? BorrowableOf<Plugins[number]>
  : never

type BorrowableOf<P> = P extends AnyPlugin
  ? readonly [plugin: P, tool: keyof ToolsOf<P> & string]
  : never

type TurnIn<S extends Scope> = TurnContext<S['env'], S['self'], S['state'], S['peers'], S['jobs']>

type OfRuns<S extends Scope> = RunContext<S['env'], S['self'], S['peers'], S['jobs']>

type OwnRuns<S extends Scope> = RunSection<OfRuns<S>>

/** A section that stands in the definition, or that a function of what boot found makes. */
type OrMade<Section, S extends Scope, Made = Section> =
  Section | ((boot: Booted<S['env'], S['self'], S['peers'], S['jobs'], S['state']>) => Made)

/** The first half of a definition: who the plugin is and what it needs. */
interface Needs<Name extends string, Env, Requires, State, Uses> extends Manifest<Name> {
  /** The plugin's slice of the environment, a schema for each variable. */
  readonly env?: Env
  /** Plugins that this one needs, imported: `plugins.<name>` is what their `setup` returned. */
  readonly requires?: Requires
  /**
   * Plugins that may be missing, imported: `plugins.<name>` is what their `setup` returned, or undefined where the app does
   * not load them. Those that are there are set up before this one.
   */
  readonly uses?: Uses
  /** What the plugin remembers of a conversation, a schema for each key; `.meta({ scope: 'room' })` outlives the session. */
  readonly state?: State
  /** The plugin's tables: each migration runs once per database, in the order of the names. */
  readonly migrations?: Migrations
}

/** The second half of a definition: what the plugin offers. */
interface Offers<
  In extends Scope,
  OwnTools,
  OwnSubAgents,
  OwnRoutes,
  LateRoutes,
  Mount extends string,
  OwnJobs,
> {
  /** Work that outlives the process, by name. It stands before the handlers that ask for it. */
  readonly jobs?: OwnJobs
  /** The providers of models that the plugin brings: what MODEL can name. */
  readonly models?: OrMade<ModelSection<In['env'], In['self']>, In>
  /**
   * What the plugin says to the beginning and the end of every turn. A function of it may return undefined; turns then pay
   * nothing for it.
   */
  readonly runs?: OrMade<OwnRuns<In>, In, OwnRuns<In> | undefined>
  /**
   * The plugin's lines in the system prompt, once it is loaded. A promise is asked for once a turn, and again when the turn
   * loads a plugin. The lines are left out when the promise rejects, or takes longer than PROMPT_BUDGET_MS.
   */
  prompt?(ctx: TurnIn<In>): MaybePromise<string | undefined>
  /** What the model may call, by name. */
  readonly tools?: OrMade<OwnTools, In>
  /**
   * Tools that only this user has, and only in this turn: asked for once a turn for each loaded plugin, when the turn loads
   * the plugin, and again after a takeover. At most 200 tools, whose `parameters` have 512 KiB together. The turn goes on
   * without tools that are late, wrong or too many, or that have the name of another tool; the log says which.
   */
  toolsFor?(ctx: TurnIn<In>): MaybePromise<TurnTools<TurnIn<In>> | undefined>
  /** How long `toolsFor` may take, in milliseconds: 2,000 by default, at most 20,000. Then its `ctx.signal` fires. */
  readonly toolsForMs?: number
  /** Tools that run the engine with a prompt of their own: the model calls `call_<name>`. */
  readonly subAgents?: OwnSubAgents
  /** Onions around turns, model calls and tool calls. */
  readonly middleware?: Middleware<
    TurnIn<In>,
    ModelContext<In['env'], In['self'], In['state'], In['peers'], In['jobs']>
  >
  /** What HTTP clients may call, by method and path. */
  readonly routes?: OrMade<OwnRoutes, In, LateRoutes>
  /** Whole web modules, by mount: a page, a foreign Koa app; `{ handler, limit?, cors? }` gives one rules of its own. */
  readonly web?: OrMade<Readonly<Record<Mount, WebModule | WebEntry>>, In>
  /**
   * How errors are told at an address and everywhere below it, also where no route is: `'/notes/v1': (error) => ({ … })`. What
   * the function returns is the body, as JSON; status and headers stay. A route's own `onError` comes first.
   */
  readonly errors?: Readonly<Record<`/${string}`, RendersErrors>>
  /**
   * What the plugin adds to `/.well-known/oracle.json`, by key. A variable of the kernel wins: with ORACLE_PRICE set, the
   * `price` of a plugin is not told.
   */
  facts?(boot: Booted<In['env'], In['self'], In['peers'], In['jobs'], In['state']>): ToldFacts
  /** Headers of the plugin's own that pages of other origins may send (`allow`) and read (`expose`). */
  readonly headers?: HeaderSection
  /** Parts of the playground's page that the plugin brings, by name. */
  readonly views?: ViewSection
  /** Who brings what users attach by an address of another scheme than https, such as `mxc:`. */
  readonly attachments?: AttachmentSection<
    AttachmentContext<In['env'], In['self'], In['peers'], In['jobs']>
  >
  /**
   * Told of each call of a model as it ends, in a turn or not: at most once, and nobody waits for it. It is for figures; who
   * bills goes by `runs.end`, which is told exactly once.
   */
  onUsage?(
    call: ModelCall,
    ctx: RunContext<In['env'], In['self'], In['peers'], In['jobs']>,
  ): MaybePromise<void>
  /**
   * Carries a notice to where its user is: a phone, a room, a mailbox. The runtime calls it as a job, so it may run again
   * after a crash: pass `ctx.job.key`, which names the notice, on to what must happen once.
   */
  notices?(
    notice: Notice,
    ctx: JobContext<In['env'], In['self'], In['peers'], In['jobs']>,
  ): MaybePromise<void>
  /** What the plugin keeps of a user: handed out for the user's export, and erased when the user asks for that. */
  readonly userData?: UserDataSection<
    UserDataContext<In['env'], In['self'], In['peers'], In['jobs']>
  >
  /**
   * The `roomId` that clients are told of a user's sessions which have no room of their own: for the plugin that carries the
   * room of user and oracle. The room-scoped state of these sessions stays that of the pair. Asked once an answer, for a second.
   */
  roomIdOf?(user: { readonly did: string }, ctx: OfRuns<In>): MaybePromise<string | undefined>
  /**
   * Called in the transaction that deletes a session, for what the plugin keeps of it: `db` is the transaction. When it throws,
   * nothing is deleted, and the client may try again. A session that nobody spoke in may go without it.
   */
  sessionDeleted?(
    session: { readonly sessionId: string; readonly did: string },
    ctx: OfRuns<In>,
  ): MaybePromise<void>
  /** Told when somebody was invited to a room, has joined or has left it, by the plugin that carries the room. */
  members?(change: ToldRoomChange, ctx: OfRuns<In>): MaybePromise<void>
}

/**
 * The object literal that `definePlugin` takes. `TI` and `TO` are the inputs and outputs of tools; `RI`, `RO` and `RA`
 * are the inputs, the outputs and the `auth` of routes, `JI` the inputs of jobs, `SI` and `SO` the inputs and outputs of
 * sub-agents.
 */
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
  Uses = readonly [],
  JI = {},
  SI = {},
  SO = {},
  In extends Scope = ScopeOf<Env, Requires, State, Self, Uses, JI>,
>
  extends
    Needs<Name, Env, Requires, State, Uses>,
    Offers<
      In,
      ToolSection<TI, TO, TurnIn<In>>,
      SubAgentSection<
        SI,
        SO,
        TurnIn<In>,
        keyof TI & string,
        Borrowable<Requires> | Borrowable<Uses>
      >,
      RouteSection<RI, RO, RA, In['env'], In['self'], In['state'], In['peers'], In['jobs']>,
      LateRouteSection<
        RI,
        RO,
        RouteContext<In['env'], In['self'], In['state'], In['peers'], RouteAuth, In['jobs']>
      >,
      `/${string}`,
      JobSection<JI, JobContext<In['env'], In['self'], In['peers'], In['jobs'], In['state']>>
    > {
  /** Runs at boot. What `setup` returns is `self` in every handler. */
  // Without `In`, which knows `Self`: reading the type of `boot` there would settle `Self` before `setup` returns it.
  setup?(boot: Boot<ParsedShape<Env>, PeersOf<Requires, Uses>, JI, ParsedShape<State>>): Self
}

/** A definition with its types erased, as the kernel reads it. */
export interface AnyDefinition
  extends
    Needs<string, Shape, readonly AnyPlugin[], Shape, readonly AnyPlugin[]>,
    Offers<
      ErasedScope,
      Readonly<Record<string, AnyTool>>,
      Readonly<Record<string, AnySubAgent>>,
      Readonly<Record<string, WrittenRoute>>,
      Readonly<Record<string, WrittenRoute>>,
      string,
      Readonly<Record<string, AnyJob>>
    > {
  setup?(boot: Boot): unknown
}

/** What `definePlugin` returns: the name for peers to see, the definition for the kernel. */
export interface Plugin<Name extends string, Self, State, ToolTypes> {
  readonly name: Name
  readonly definition: AnyDefinition
  /** Types only; never there at run time. */
  readonly '~types'?: { readonly self: Self; readonly state: State; readonly tools: ToolTypes }
}
/** Any plugin, without the types of its own. */
export type AnyPlugin = Plugin<string, unknown, unknown, unknown>

type TypesOf<P extends AnyPlugin> = NonNullable<P['~types']>
/** What a plugin's `setup` returned, awaited. */
export type SelfOf<P extends AnyPlugin> = TypesOf<P>['self']
/** A plugin's state, as its schemas parse it. */
export type StateOf<P extends AnyPlugin> = TypesOf<P>['state']
/** The inputs and outputs of a plugin's tools, for a typed client. */
export type ToolsOf<P extends AnyPlugin> = TypesOf<P>['tools']

import type { Kysely } from 'kysely'
import type { Boot, Booted } from './boot.ts'
import type { ModelContext, TurnContext } from './context.ts'
import type { Manifest } from './manifest.ts'
import type { Middleware } from './middleware.ts'
import type { AnyRoute, LateRouteSection, RouteContext, RouteSection, WebModule } from './route.ts'
import type { ParsedShape, Shape } from './schema.ts'
import type { AnyTool, SubAgent, ToolSection } from './tool.ts'

/** A migration changes the database one step; it runs once per database, under its lock. */
export type Migration = (db: Kysely<any>) => Promise<void> // any: a migration sees tables that no type knows yet

/** The four types that every context of one plugin's handlers is made of. */
interface Scope {
  env: unknown
  self: unknown
  state: unknown
  peers: unknown
}

/** The scope of a plugin, from its schemas, its `requires` and its `setup`. */
interface ScopeOf<Env, Requires, State, Self> extends Scope {
  env: ParsedShape<Env>
  self: Awaited<Self>
  state: ParsedShape<State>
  peers: PeersOf<Requires>
}

/** The scope that the kernel sees: it knows that there is state, and nothing of what is in there. */
interface ErasedScope extends Scope {
  state: Record<string, unknown>
}

type PeersOf<Requires> = Requires extends readonly AnyPlugin[]
  ? { [P in Requires[number] as P['name']]: SelfOf<P> }
  : {}

type TurnIn<S extends Scope> = TurnContext<S['env'], S['self'], S['state'], S['peers']>

/** A section that stands in the definition, or that a function of what boot found makes. */
type OrMade<Section, S extends Scope, Made = Section> =
  Section | ((boot: Booted<S['env'], S['self'], S['peers']>) => Made)

/** The first half of a definition: who I am and what I need. */
interface Needs<Name extends string, Env, Requires, State> extends Manifest<Name> {
  /** The plugin's slice of the environment, a schema for each variable. */
  readonly env?: Env
  /** Plugins that this one needs, imported: `plugins.<name>` is what their `setup` returned. */
  readonly requires?: Requires
  /** What the plugin remembers of a conversation, a schema for each key; `.meta({ scope: 'room' })` outlives the session. */
  readonly state?: State
  /** The plugin's tables: each migration runs once per database, in the order of the names. */
  readonly migrations?: Readonly<Record<string, Migration>>
}

/** The second half of a definition: what I offer. */
interface Offers<
  In extends Scope,
  OwnTools,
  ToolName extends string,
  OwnRoutes,
  LateRoutes,
  Mount extends string,
> {
  /** The plugin's lines in the system prompt, once it is loaded. Answers at once: a promise here is a fault. */
  prompt?(ctx: TurnIn<In>): string | undefined
  /** What the model may call, by name. */
  readonly tools?: OrMade<OwnTools, In>
  /** Tools that run the engine with a prompt of their own, by name. */
  readonly subAgents?: Readonly<Record<string, SubAgent<ToolName>>>
  /** Onions around turns, model calls and tool calls. */
  readonly middleware?: Middleware<
    TurnIn<In>,
    ModelContext<In['env'], In['self'], In['state'], In['peers']>
  >
  /** What HTTP clients may call, by method and path. */
  readonly routes?: OrMade<OwnRoutes, In, LateRoutes>
  /** Whole web modules, by mount: a page, a foreign Koa app. */
  readonly web?: OrMade<Readonly<Record<Mount, WebModule>>, In>
}

/**
 * The object literal that `definePlugin` takes. `TI` and `TO` are the inputs and outputs of tools; `RI`, `RO` and `RA`
 * are the inputs, the outputs and the `auth` of routes.
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
  In extends Scope = ScopeOf<Env, Requires, State, Self>,
>
  extends
    Needs<Name, Env, Requires, State>,
    Offers<
      In,
      ToolSection<TI, TO, TurnIn<In>>,
      keyof TI & string,
      RouteSection<RI, RO, RA, In['env'], In['self'], In['state'], In['peers']>,
      LateRouteSection<RI, RO, RouteContext<In['env'], In['self'], In['state'], In['peers']>>,
      `/${string}`
    > {
  /** Runs at boot. What `setup` returns is `self` in every handler. */
  // Without `In`, which knows `Self`: reading the type of `boot` there would settle `Self` before `setup` returns it.
  setup?(boot: Boot<ParsedShape<Env>, PeersOf<Requires>>): Self
}

/** A definition with its types erased, as the kernel reads it. */
export interface AnyDefinition
  extends
    Needs<string, Shape, readonly AnyPlugin[], Shape>,
    Offers<
      ErasedScope,
      Readonly<Record<string, AnyTool>>,
      string,
      Readonly<Record<string, AnyRoute>>,
      Readonly<Record<string, AnyRoute>>,
      string
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
/** A plugin of which nothing more is known. */
export type AnyPlugin = Plugin<string, unknown, unknown, unknown>

type TypesOf<P extends AnyPlugin> = NonNullable<P['~types']>
/** What a plugin's `setup` returned, awaited. */
export type SelfOf<P extends AnyPlugin> = TypesOf<P>['self']
/** A plugin's state, as its schemas parse it. */
export type StateOf<P extends AnyPlugin> = TypesOf<P>['state']
/** The inputs and outputs of a plugin's tools, for a typed client. */
export type ToolsOf<P extends AnyPlugin> = TypesOf<P>['tools']

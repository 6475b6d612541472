import type { AnyDefinition, AnyPlugin, Plugin, PluginDefinition } from './plugin/definition.ts'
import type { Parsed, SchemaLike, ShapeLike } from './plugin/schema.ts'

// What a plugin author sees. The types stand by idea in the folder beside; everybody imports them from here.
export type { Boot, Booted, Oracle } from './plugin/boot.ts'
export type {
  Approvals,
  AuditFacts,
  ComponentOptions,
  Database,
  Emit,
  Fetch,
  Log,
  ModelContext,
  Session,
  TurnContext,
  User,
} from './plugin/context.ts'
export type {
  AnyDefinition,
  AnyPlugin,
  Migration,
  Plugin,
  PluginDefinition,
  SelfOf,
  StateOf,
  ToolsOf,
} from './plugin/definition.ts'
export type { Category, Manifest, Stability, Visibility } from './plugin/manifest.ts'
export type { Middleware, PendingCall } from './plugin/middleware.ts'
export type {
  Delta,
  Message,
  Model,
  ModelReply,
  ModelRequest,
  ToolCall,
  ToolSpec,
} from './plugin/model.ts'
export type {
  AnyRoute,
  BodyLine,
  Method,
  PathParams,
  RouteAuth,
  RouteBody,
  RouteContext,
  RouteLimit,
  ServedApi,
  WebModule,
} from './plugin/route.ts'
export type { Schema, Shape } from './plugin/schema.ts'
export type { AnyTool, Demand, SubAgent } from './plugin/tool.ts'
export type { TurnEvent, Turns } from './plugin/turns.ts'

// These two have no `export`: the compiler then writes what they come to into the declarations of a plugin that is a
// package of its own. A name that the package does not export would be an error there.

/** The state of a plugin, as its schemas parse it. */
type StateTypes<State> = { [K in keyof State]: Parsed<State[K]> }

/** What a typed client knows of each tool: the input before and the output after parsing. */
type ToolTypes<Inputs, Outputs> = {
  [K in keyof Inputs]: {
    input: Inputs[K] extends SchemaLike ? Inputs[K]['_zod']['input'] : never
    output: K extends keyof Outputs
      ? Outputs[K] extends SchemaLike
        ? Outputs[K]['_zod']['output']
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
): Plugin<Name, Awaited<Self>, StateTypes<State>, ToolTypes<TI, TO>> {
  return { name: definition.name, definition: definition as AnyDefinition }
}

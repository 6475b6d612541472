import type { AnyDefinition, AnyPlugin, Plugin, PluginDefinition } from './plugin/definition.ts'
import type { ParsedShape, ShapeLike } from './plugin/schema.ts'
import type { ToolTypes } from './plugin/tool.ts'

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
  return { name: definition.name, definition: definition as AnyDefinition }
}

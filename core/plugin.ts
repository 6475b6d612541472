import type { AnyDefinition, AnyPlugin, Plugin, PluginDefinition } from './plugin/definition.ts'
import type { Parsed, SchemaLike, ShapeLike } from './plugin/schema.ts'

// What a plugin author sees. The types stand by idea in the folder beside; everybody imports them from here.
export type {
  AskableModel,
  AskedLine,
  AskedPrompt,
  AskOptions,
  Embedded,
  EmbedOptions,
  OfferedModels,
} from './plugin/models/asking.ts'
export type { Boot, Booted, CapabilityFacts, Oracle } from './plugin/boot.ts'
export type {
  AnyAttachmentSection,
  AttachmentContext,
  AttachmentReader,
  AttachmentSection,
  FetchedAttachment,
} from './plugin/files/attachments.ts'
export type {
  Approvals,
  AuditFacts,
  ComponentOptions,
  Database,
  Emit,
  Fetch,
  Log,
  ModelContext,
  ModelWords,
  Session,
  TurnContext,
  User,
} from './plugin/context.ts'
export type {
  AnyDefinition,
  AnyPlugin,
  BreakingMigration,
  Migration,
  Migrations,
  Plugin,
  PluginDefinition,
  SelfOf,
  StateOf,
  ToolsOf,
} from './plugin/definition.ts'
export type {
  AnyJob,
  AnyJobs,
  Job,
  JobContext,
  Jobs,
  LaterJob,
  LaterOptions,
} from './plugin/jobs.ts'
export type {
  MetricCounter,
  MetricGauge,
  MetricHistogram,
  MetricLabels,
  Metrics,
} from './plugin/metrics/metrics.ts'
export type { HeldLease, Lease, LeasedWork } from './plugin/leases/lease.ts'
export type { Category, Manifest, Stability, Visibility } from './plugin/manifest.ts'
export type { HttpLayer, Middleware, PendingCall } from './plugin/middleware.ts'
export type { Notice, NoticeKind } from './plugin/notices.ts'
export type {
  OutsideCall,
  OutsideResult,
  OutsideTool,
  OutsideTools,
} from './plugin/outside/tools.ts'
export type {
  Delta,
  EarlyEnd,
  Message,
  Embedder,
  Embeddings,
  MessagePart,
  Model,
  ModelCall,
  ModelOpening,
  ModelProvider,
  ModelSection,
  OfferSettings,
  ModelPrice,
  ModelReply,
  ModelRequest,
  ModelSettings,
  ModelUsage,
  PricedModel,
  ProviderData,
  RunUsage,
  TurnUsage,
  ToolCall,
  ToolSpec,
} from './plugin/model.ts'
export type {
  HeaderSection,
  LateFact,
  ToldFacts,
  View,
  ViewLabel,
  ViewSection,
} from './plugin/public/public.ts'
export type {
  AnyRoute,
  BodyLine,
  Method,
  PathParams,
  OwnCaller,
  OwnRequest,
  RendersErrors,
  RouteAuth,
  RouteBody,
  RouteContext,
  RouteLimit,
  ServedApi,
  ToldError,
  WebEntry,
  WebModule,
  WrittenRoute,
} from './plugin/route.ts'
export type {
  AnyRunContext,
  AnyRunSection,
  RunAdmission,
  RunBeginning,
  RunCause,
  RunContext,
  RunEnding,
  RunSection,
  RunTool,
} from './plugin/runs.ts'
export type { GivenPart, GivenParts } from './plugin/files/parts.ts'
export type { RoomChange, ToldRoomChange } from './plugin/rooms/change.ts'
export type { Schema, Shape } from './plugin/schema.ts'
export type {
  EnsuredSession,
  FoundMessage,
  NewWords,
  PluginSessions,
  RoomName,
  Rooms,
  SaidWords,
  ShownComponent,
  WantedMessage,
  WantedSession,
} from './plugin/sessions.ts'
export type {
  ReadMessages,
  SessionCall,
  SessionMessage,
  SessionMessages,
} from './plugin/clients/transcript.ts'
export type { AnySubAgent, AnyTool, Demand, TurnTool, TurnTools } from './plugin/tool.ts'
export type { Attendance, Reading } from './plugin/clients/attendance.ts'
export type { TurnPart } from './plugin/clients/parts.ts'
export type { SaidBefore } from './plugin/clients/said-before.ts'
export type { ClientCall, ClientCallAnswer, TurnClientTool } from './plugin/clients/calls.ts'
export type { EventPart, TurnEvent, TurnEvents } from './plugin/turn-event.ts'
export type {
  AnyUserDataContext,
  ErasedData,
  KeptData,
  UserDataContext,
  UserDataItem,
  UserDataSection,
} from './plugin/kept/user-data.ts'
export type {
  BegunTurn,
  CutReply,
  EndedTurn,
  FollowedEvent,
  FollowedSession,
  NewTurn,
  StartedTurn,
  TurnAnswer,
  Turns,
  WhichTurn,
  ListedTurn,
  ListedTurns,
  OpenSession,
  OpenTurn,
  WantedTurns,
  ReadRun,
} from './plugin/turns.ts'

// The next two types have no `export`: the compiler then writes their meaning into the declarations of a plugin that is a
// package of its own. A name that the package does not export would be an error there.

/** The state of a plugin, as its schemas parse it. */
type StateTypes<State> = { [K in keyof State]: Parsed<State[K]> }

/**
 * What a typed client knows of each tool: the input before and the output after parsing. `call_<name>` stands for a sub-agent,
 * which is told a task and answers with text where it has no schemas.
 */
type ToolTypes<Inputs, Outputs, SubInputs, SubOutputs> = {
  [K in keyof Inputs | `call_${keyof SubInputs & string}`]: K extends keyof Inputs
    ? {
        input: SentTo<Inputs[K], never>
        output: GivenBack<K extends keyof Outputs ? Outputs[K] : unknown, unknown>
      }
    : K extends `call_${infer Name extends keyof SubInputs & string}`
      ? {
          input: SentTo<SubInputs[Name], { task: string }>
          output: GivenBack<Name extends keyof SubOutputs ? SubOutputs[Name] : unknown, string>
        }
      : never
}

type SentTo<S, Otherwise> = S extends SchemaLike ? S['_zod']['input'] : Otherwise
type GivenBack<S, Otherwise> = S extends SchemaLike ? S['_zod']['output'] : Otherwise

/** Describes a plugin. Everything is inferred from the schemas; nothing runs until `createApp`. */
export function definePlugin<
  const Name extends string,
  Env extends ShapeLike = {},
  const Requires extends readonly AnyPlugin[] = readonly [],
  State extends ShapeLike = {},
  Self = undefined,
  TI = {},
  TO = {},
  RI = {},
  RO = {},
  const RA = {},
  const Uses extends readonly AnyPlugin[] = readonly [],
  JI = {},
  SI = {},
  SO = {},
>(
  definition: PluginDefinition<
    Name,
    Env,
    Requires,
    State,
    Self,
    TI,
    TO,
    RI,
    RO,
    RA,
    Uses,
    JI,
    SI,
    SO
  >,
): Plugin<Name, Awaited<Self>, StateTypes<State>, ToolTypes<TI, TO, SI, SO>> {
  const given: unknown = definition
  // Types cannot stop an author in plain JavaScript, and the stack of this error names the file.
  if (typeof given !== 'object' || given === null)
    throw new TypeError(
      `definePlugin was given ${wordOf(given)}: it takes an object, definePlugin({ name: 'notes', summary: 'Keeps notes.' }).`,
    )
  return { name: definition.name, definition: definition as AnyDefinition }
}

const wordOf = (given: unknown) =>
  given === null || given === undefined ? String(given) : `a ${typeof given}`

export { createApp, type App, type AppOptions } from './runtime/app.ts'
export type { PluginEntry, PluginSource } from './runtime/boot/options.ts'
export { chain } from './runtime/model/given.ts'
export { RuntimeError, type Fault } from './errors.ts'
export { addressFault } from './models/address-fault.ts'
export { didYouMean } from './manifest/did-you-mean.ts'
export { faultsOf } from './manifest/faults.ts'
export { giveWay } from './manifest/loop-time.ts'
export { matchesEtag } from './runtime/http/answer/etag.ts'
export { prepared } from './runtime/store/prepared.ts'
export { rebuildWithoutRowids } from './runtime/store/without-rowids.ts'
export { parts } from './runtime/files/pieces.ts'
export { created, reply, text } from './runtime/http/answer/reply.ts'
export { partsOf } from './runtime/turns/events/parts.ts'
export { attended } from './runtime/turns/clients/attended.ts'
export { builtView } from './runtime/http/answer/built-view.ts'
export {
  definePlugin,
  type AnyPlugin,
  type AskableModel,
  type Attendance,
  type AttachmentContext,
  type Database,
  type Delta,
  type EarlyEnd,
  type HeldLease,
  type Job,
  type JobContext,
  type Jobs,
  type LaterJob,
  type LaterOptions,
  type Lease,
  type Log,
  type Message,
  type Metrics,
  type Embedder,
  type MessagePart,
  type Model,
  type ModelCall,
  type ModelOpening,
  type ModelProvider,
  type ModelRequest,
  type Notice,
  type OfferSettings,
  type OfferedModels,
  type Oracle,
  type CapabilityFacts,
  type ListedTurn,
  type OpenTurn,
  type OutsideTool,
  type OutsideTools,
  type Plugin,
  type PluginSessions,
  type RoomChange,
  type RouteContext,
  type RunAdmission,
  type RunBeginning,
  type RunEnding,
  type Reading,
  type Schema,
  type ServedApi,
  type SelfOf,
  type FollowedEvent,
  type StartedTurn,
  type StateOf,
  type ToldRoomChange,
  type ToolsOf,
  type TurnContext,
  type SaidBefore,
  type SessionCall,
  type SessionMessage,
  type ToldError,
  type TurnClientTool,
  type TurnEvent,
  type TurnPart,
  type Turns,
  type User,
  type UserDataContext,
  type UserDataItem,
  type ErasedData,
  type KeptData,
  type WebModule,
} from './plugin.ts'

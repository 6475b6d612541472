export type {
  Delta,
  EarlyEnd,
  Embedder,
  Embeddings,
  Message,
  MessagePart,
  Model,
  ModelOpening,
  ModelProvider,
  ModelRequest,
  ModelSettings,
  ModelUsage,
  OfferSettings,
  ToolCall,
  ToolSpec,
} from '../plugin.ts'
export { AiSdkEmbedder } from '../runtime/model/sdk/embedder.ts'
export { AiSdkLanguageModel, type AiSdkOptions } from '../runtime/model/sdk/language-model.ts'
export type { AiSdkEmbeddingModel, AiSdkModel } from '../runtime/model/sdk/shape.ts'
export type { ThinkingOptions } from '../runtime/model/sdk/call-options.ts'
export { Assembly } from '../runtime/model/assemble.ts'
export { askProvider, type Question } from '../runtime/model/transport/ask.ts'
export { functionTool } from '../runtime/model/function-tool.ts'
export { estimatedUsage } from '../runtime/model/estimate.ts'
export { billionths, tokenCount } from '../runtime/model/usage/counts.ts'
export {
  readSummaryRequest,
  type AskedSummary,
  type SummaryLine,
} from '../runtime/model/window/summary-request.ts'
export { unquote } from '../runtime/base/quote.ts'
export { wholeJson } from '../runtime/base/safe-json.ts'
export type { AnswerFraming } from '../runtime/model/transport/answer.ts'
export { callName, callSlots, type CallPiece } from '../runtime/model/transport/call-slots.ts'
export { withForcedTool } from '../runtime/model/transport/forced-tool.ts'
export { ConversationJson } from '../runtime/model/transport/conversation-json.ts'
export { endpoint } from '../runtime/model/transport/endpoint.ts'
export { joinNeighbours } from '../runtime/model/transport/neighbours.ts'
export { modelFault } from '../runtime/model/transport/model-fault.ts'
export {
  providerFault,
  type Asked,
  type Complaint,
} from '../runtime/model/transport/provider-fault.ts'
export {
  modelTransport,
  type ModelTransport,
  type TransportOptions,
} from '../runtime/model/transport/transport.ts'
export type {
  CallLimits,
  Changes,
  FrameReader,
  WireRefusal,
  Wire,
  WireBody,
} from '../runtime/model/transport/wire.ts'
export { addressFault } from './address-fault.ts'
export { withFiles, type FileForms, type PartTexts } from './files.ts'
export { listNames, type ModelList } from './list-names.ts'
export { fieldsJson, keptList, systemTexts, toolWriter } from './request-json.ts'
export { WireModel, type WireModelOptions } from './wire-model.ts'

export { contractChecks, modelContract } from './contract/model-contract.ts'
export type {
  ContractAnswer,
  ContractFailure,
  ContractOptions,
  ContractReport,
  ContractScene,
  ContractSpeech,
  OpenModel,
} from './contract/scene.ts'
export { fakeFetch, type FakeAnswer, type FakeFetch } from './fake-fetch.ts'
export {
  fakeWebhook,
  type FakeWebhook,
  type FakeWebhookOptions,
  type ReceivedWebhook,
  type WebhookAnswer,
} from './fake-webhook.ts'
export {
  call,
  resultOf,
  scriptedModel,
  type ScriptedCall,
  type ScriptedModel,
  type ScriptedStep,
} from './scripted-model.ts'
export type { Calls, TestResponse } from './calls.ts'
export { TestClock } from '../runtime/boot/test-clock.ts'
export type { HeardEvent, HeardEvents, HearOptions } from './heard-events.ts'
export {
  testApp,
  type TestApp,
  type TestAppOptions,
  type TestUser,
  type UserNotices,
} from './test-app.ts'
export type { CallOptions, Emitted, Thread, ThreadOptions } from './thread.ts'
export type { Erased, ExportLine } from './own-data.ts'
export { readEvents, type Said, type SayOptions, type StreamedEvent } from './turn.ts'

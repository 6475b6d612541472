export * from '../core/testing/index.ts'
export {
  fakeProvider,
  type FakeProvider,
  type FakeProviderOptions,
} from './provider/fake-provider.ts'
export type {
  ProviderAnswer,
  ProviderCall,
  ProviderEnd,
  ProviderFailure,
  ProviderMedia,
  ProviderRequest,
  ProviderRules,
  ProviderSpeech,
  ProviderWire,
  RefusedField,
} from './provider/answers.ts'

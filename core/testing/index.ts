export { fakeFetch, type FakeAnswer, type FakeFetch } from './fake-fetch.ts'
export { testApp, type TestApp, type TestResponse } from './test-app.ts'
export type { Emitted, Thread, ThreadOptions } from './thread.ts'

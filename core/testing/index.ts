export { fakeFetch, type FakeAnswer, type FakeFetch } from './fake-fetch.ts'
export { testApp, type Calls, type TestApp, type TestResponse, type TestUser } from './test-app.ts'
export type { Emitted, Thread, ThreadOptions } from './thread.ts'

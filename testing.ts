import { testAppWith } from './core/testing/test-app.ts'

export * from './testing/index.ts'

/**
 * Boots plugins for a test. The app reads nothing from the process's environment and writes nothing: the database is
 * in memory, keys are made up, and the network is whatever `fetch` the test gives.
 */
export const testApp = testAppWith(async () => (await import('./plugins/models.ts')).models)

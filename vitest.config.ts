import { defineConfig } from 'vitest/config'

export default defineConfig({
  resolve: { conditions: ['oracle-runtime-source'] },
  ssr: { resolve: { conditions: ['oracle-runtime-source'] } },
  test: {
    include: ['{core,plugins,client,examples,test}/**/*.test.{ts,tsx}'],
    reporters: ['default', './test/support/closing-line.ts'],
    testTimeout: 20_000,
    hookTimeout: 30_000,
    pool: 'forks',
    maxWorkers: 2,
    execArgv: ['--disable-warning=ExperimentalWarning', '--conditions=oracle-runtime-source'],
  },
})

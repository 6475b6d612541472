import { defineConfig } from 'vitest/config'

export default defineConfig({
  resolve: { conditions: ['oracle-runtime-source'] },
  ssr: { resolve: { conditions: ['oracle-runtime-source'] } },
  test: {
    include: ['{core,plugins,client,examples,test}/**/*.test.{ts,tsx}'],
    reporters: ['default', './test/support/closing-line.ts'],
    testTimeout: 20_000,
    hookTimeout: 30_000,
    // How long `expect.poll` waits for what will come: a busy machine takes more than a second.
    expect: { poll: { timeout: 10_000 } },
    pool: 'forks',
    maxWorkers: 2,
    execArgv: ['--disable-warning=ExperimentalWarning', '--conditions=oracle-runtime-source'],
  },
})

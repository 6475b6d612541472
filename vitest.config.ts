import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { defineConfig } from 'vitest/config'

const options = ['--disable-warning=ExperimentalWarning', '--conditions=oracle-runtime-source']
const older = join(import.meta.dirname, 'test/older-peers/node_modules')

// Workers, and the servers that tests start in processes of their own, take what others have compiled: half of a start's CPU.
process.env.NODE_COMPILE_CACHE ??= join(tmpdir(), 'node-compile-cache')

// What takes longest, and shows once more with whole processes and a browser what shorter files show. CI has it run last.
const longest = [
  'test/playground/call-*.test.ts',
  'test/{installed-app,kept/own-processes,model/carried-turns,agent/takeover}.test.ts',
  'test/turns/{rolling,fleet,fencing}.test.ts',
  'plugins/{messaging/test/kills,payments/killed,memory/test/killed,memory/test/poison}.test.ts',
  'plugins/calls/test/{odd-media,conversation/coming-back}.test.ts',
]
const { TEST_LONGEST } = process.env

export default defineConfig({
  resolve: { conditions: ['oracle-runtime-source'] },
  ssr: { resolve: { conditions: ['oracle-runtime-source'] } },
  test: {
    setupFiles: [join(import.meta.dirname, 'test/support/answers-as-described.ts')],
    reporters: ['default', './test/support/closing-line.ts'],
    // Far more than a test takes: a machine that does something else as well may be slow.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // How long `expect.poll` waits for what will come: a busy machine takes more than a second.
    expect: { poll: { timeout: 10_000 } },
    // A machine under load gets one more try in CI, and the last lines of the run name the tests that needed it.
    retry: process.env.CI ? 1 : 0,
    pool: 'forks',
    maxWorkers: 2,
    execArgv: options,
    projects: [
      {
        extends: true,
        test: {
          name: 'all',
          include:
            TEST_LONGEST === 'only' ? longest : ['{core,plugins,examples,test}/**/*.test.ts'],
          exclude: [
            'test/client/**',
            '**/node_modules/**',
            ...(TEST_LONGEST === 'later' ? longest : []),
          ],
          // Node reads what it runs in production by itself, and a file begins with a quarter less of processor time.
          experimental: { viteModuleRunner: false, nodeLoader: false },
          globalSetup: join(import.meta.dirname, 'test/support/prebuild.ts'),
          execArgv: [
            ...options,
            `--import=${join(import.meta.dirname, 'test/support/quick-imports.ts')}`,
          ],
        },
      },
      {
        // What browsers run is made of JSX, which Node does not read.
        extends: true,
        test: {
          name: 'client',
          include: ['test/client/**/*.test.{ts,tsx}'],
          env: { REACT: '19' },
        },
      },
      {
        // The client once more, on the oldest peers that it promises to work with.
        extends: true,
        resolve: {
          alias: [
            { find: /^(react|react-dom)(\/.*)?$/, replacement: `${older}/$1$2` },
            { find: 'zod/v4/core', replacement: `${older}/zod/v4/core` },
          ],
        },
        test: {
          name: 'older peers',
          include: ['test/client/**/*.test.{ts,tsx}'],
          // The same whichever React is above and whichever zod beside, and what others' hooks do on the React that they are
          // installed for. What channels carry stays: tools of the page have schemas.
          exclude: [
            'test/client/{,call/,later/,ui/,wallet/}*.test.ts',
            'test/client/core/!(channel).test.ts',
            'test/client/react/ai-sdk-chat.test.tsx',
            'test/client/ui/killed.test.tsx',
          ],
          env: { REACT: '18' },
        },
      },
    ],
  },
})

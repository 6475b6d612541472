import { execFileSync } from 'node:child_process'
import { expect, it } from 'vitest'

/** Prints every module that a start of the app imports. */
const program = `
  import { registerHooks } from 'node:module'
  registerHooks({ load: (url, context, next) => (console.log(url), next(url, context)) })
  await (await import('./server.ts')).default.listen()
  process.exit()
`

/** The addresses of the modules that a start reads until it listens; later ones no start waits for. */
const loadedByAStart = () =>
  execFileSync(
    process.execPath,
    ['--conditions=oracle-runtime-source', '--input-type=module', '-e', program],
    { env: { PATH: process.env.PATH, NODE_ENV: 'development', PORT: '0', DATA_DIR: ':memory:' } },
  )
    .toString()
    .replace(/ listening on [^]*/, '')

it('what verifies tokens is not loaded by a start, but with the first credential', () => {
  const loaded = loadedByAStart()
  expect(loaded).toContain('core/runtime/auth/lazy.ts')
  expect(loaded).not.toContain('core/runtime/auth/authenticate.ts')
  expect(loaded).not.toContain('node_modules/@ucanto/')
})

it('a start does not wait for what carries out turns, runs jobs and works out designs', () => {
  const loaded = loadedByAStart()
  expect(loaded).toContain('core/runtime/agent/lazy.ts')
  expect(loaded).not.toContain('core/runtime/agent/agent.ts')
  expect(loaded).not.toContain('core/runtime/agent/ask/')
  expect(loaded).toContain('core/runtime/jobs/lazy.ts')
  expect(loaded).not.toContain('core/runtime/jobs/attempt.ts')
  expect(loaded).toContain('plugins/models-demo/index.ts')
  expect(loaded).not.toContain('plugins/models-demo/demo/')
  expect(loaded).toContain('plugins/sampling/lazy.ts')
  expect(loaded).not.toContain('plugins/sampling/design/')
  expect(loaded).not.toContain('plugins/sampling/reports/')
})

it('a start does not wait for what speaks to sockets, to providers of models and for attachments', () => {
  const loaded = loadedByAStart()
  expect(loaded).toContain('core/runtime/channel/channel.ts')
  expect(loaded).not.toMatch(/core\/runtime\/channel\/(peer|plain|socket-io|sockets)\.ts/)
  expect(loaded).toContain('core/runtime/attachments/lazy.ts')
  expect(loaded).not.toContain('core/runtime/attachments/attachments.ts')
  expect(loaded).toContain('plugins/models.ts')
  expect(loaded).not.toContain('core/models/index.ts')
  expect(loaded).not.toContain('core/runtime/model/transport/transport.ts')
})

import { execFileSync } from 'node:child_process'
import { expect, it } from 'vitest'

/** Prints every module that a start of the app imports. */
const program = `
  import { registerHooks } from 'node:module'
  registerHooks({ load: (url, context, next) => (console.log(url), next(url, context)) })
  await import('./server.ts')
  process.exit()
`

it('what verifies tokens is not loaded by a start, but with the first credential', () => {
  const loaded = execFileSync(
    process.execPath,
    ['--conditions=oracle-runtime-source', '--input-type=module', '-e', program],
    { env: { PATH: process.env.PATH, NODE_ENV: 'development', PORT: '0', DATA_DIR: ':memory:' } },
  ).toString()
  expect(loaded).toContain('core/runtime/auth/lazy.ts')
  expect(loaded).not.toContain('core/runtime/auth/authenticate.ts')
  expect(loaded).not.toContain('node_modules/@ucanto/')
})

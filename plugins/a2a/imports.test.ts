import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { expect, it } from 'vitest'

it('an app with the doors of other protocols loads none of their packages before an agent asks', () => {
  const { stdout, stderr } = spawnSync(
    process.execPath,
    [
      '--disable-warning=ExperimentalWarning',
      '--conditions=oracle-runtime-source',
      join(import.meta.dirname, '../../test/support/importing-a2a.ts'),
    ],
    { encoding: 'utf8', timeout: 60_000 },
  )
  expect([stdout.trim().split('\n'), stderr]).toEqual([['before false', 'after true'], ''])
}, 60_000)

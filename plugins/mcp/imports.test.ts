import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { expect, it } from 'vitest'

it('an app with thirteen servers of MCP loads nothing of the packages before the first question and the first client', () => {
  const { stdout, stderr } = spawnSync(
    process.execPath,
    [
      '--disable-warning=ExperimentalWarning',
      '--conditions=oracle-runtime-source',
      join(import.meta.dirname, '../../test/support/importing-mcp.ts'),
    ],
    { encoding: 'utf8', timeout: 60_000 },
  )
  expect([stdout.trim().split('\n'), stderr]).toEqual([
    ['before false', 'after true', 'serves true'],
    '',
  ])
}, 60_000)

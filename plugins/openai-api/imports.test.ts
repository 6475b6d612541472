import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { expect, it } from 'vitest'

it('an app with the plugin loads nothing but the files of the plugin', () => {
  const { stdout, stderr } = spawnSync(
    process.execPath,
    [
      '--disable-warning=ExperimentalWarning',
      '--conditions=oracle-runtime-source',
      join(import.meta.dirname, '../../test/support/importing-openai.ts'),
    ],
    { encoding: 'utf8', timeout: 60_000 },
  )
  expect([stdout.trim().split('\n'), stderr]).toEqual([['own true', 'health loaded'], ''])
}, 60_000)

import { mkdirSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { checkPlugin } from '../../cli/commands/check-plugin.ts'
import { AppFolder } from '../support/command-line.ts'
import { root } from '../support/process.ts'

const plugins = join(root, 'plugins')
const bundled = readdirSync(plugins).filter((name) => statSync(join(plugins, name)).isDirectory())

it.each(bundled)('nothing is missing of the plugin %s', async (folder) => {
  const { name, findings } = await checkPlugin(join(plugins, folder))
  expect(name).toBe(folder)
  expect(findings).toEqual([])
})

it('names each thing that is missing, and takes a page that the README leads to as a part of it', async () => {
  using app = new AppFolder()
  for (const folder of ['tides', 'docs']) mkdirSync(join(app.path, folder))
  app.write(
    'tides/index.ts',
    `import { z } from 'zod'
    import { definePlugin } from 'oracle-runtime'
    export default definePlugin({
      name: 'tides', version: '1.0.0', summary: 'The tides of a port.', visibility: 'on-demand',
      env: { TIDES_URL: z.string().optional().describe('Where tides are asked for') },
      jobs: { sweep: { every: '1h', run: () => {} } },
    })`,
  )
  app.write('tides/README.md', '# Tides\n\nThe rest is in [its page](../docs/tides.md#more).\n')
  app.write('docs/tides.md', '## Limits\n\n`TIDES_URL` is asked once an hour.\n')
  const { code, out } = await app.run(['check:plugin', 'tides'])
  expect(code).toBe(1)
  expect(out.split('\n').filter((line) => line.startsWith('- '))).toEqual([
    '- The manifest has no "whenToUse": the agent chooses by it.',
    expect.stringMatching(/^- The manifest has no "examples"/),
    '- The manifest has no "category".',
    '- The manifest has no "stability".',
    '- There is no test beside the plugin.',
    '- The README does not name the job sweep.',
  ])
})

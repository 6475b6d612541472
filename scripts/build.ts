import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

// Node runs no TypeScript inside node_modules, so the package contains built JavaScript and types.
const root = dirname(dirname(fileURLToPath(import.meta.url)))
const dist = join(root, 'dist')

await rm(dist, { recursive: true, force: true })
execFileSync(
  process.execPath,
  [join(root, 'node_modules/typescript/bin/tsc'), '-p', join(root, 'tsconfig.build.json')],
  {
    stdio: 'inherit',
  },
)

// The package contains the built page of the playground.
const { buildPage } = await import('../plugins/playground/build-page.ts')
await buildPage({
  sources: join(root, 'plugins/playground/page'),
  directory: join(dist, 'plugins/playground/built'),
})

// And the views that plugins bring to it.
const { buildView } = await import('../cli/build-view.ts')
for (const name of await readdir(join(root, 'plugins')))
  if (existsSync(join(root, 'plugins', name, 'view.tsx')))
    await buildView(join(root, 'plugins', name), join(dist, 'plugins', name, 'built'))

// The built files keep their `#core` imports, which Node resolves by the package.json that this script writes to dist.
const { name, version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))
const scope = {
  name: `${name}-dist`,
  version,
  private: true,
  type: 'module',
  imports: {
    '#core': './index.js',
    '#core/testing': './testing.js',
    '#core/models': './core/models/index.js',
    '#core/webhooks': './core/webhooks/index.js',
  },
}
await writeFile(join(dist, 'package.json'), `${JSON.stringify(scope, null, 2)}\n`)

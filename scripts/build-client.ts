import { execFileSync } from 'node:child_process'
import { copyFile, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

// Builds the package's JavaScript and types file by file, so that bundlers of apps can leave out unused files.
const root = dirname(dirname(fileURLToPath(import.meta.url)))

await rm(join(root, 'client/dist'), { recursive: true, force: true })
execFileSync(
  process.execPath,
  [join(root, 'node_modules/typescript/bin/tsc'), '-p', join(root, 'client/tsconfig.build.json')],
  { stdio: 'inherit' },
)
for (const file of ['style.css', 'style.d.ts'])
  await copyFile(join(root, 'client/ui', file), join(root, 'client/dist/ui', file))

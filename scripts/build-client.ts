import { execFileSync } from 'node:child_process'
import { rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

// The package's JavaScript and types, a file for a file: bundlers of apps leave out what they do not use.
const root = dirname(dirname(fileURLToPath(import.meta.url)))

await rm(join(root, 'client/dist'), { recursive: true, force: true })
execFileSync(
  process.execPath,
  [join(root, 'node_modules/typescript/bin/tsc'), '-p', join(root, 'client/tsconfig.build.json')],
  { stdio: 'inherit' },
)

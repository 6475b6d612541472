import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { cpus, totalmem } from 'node:os'
import { join } from 'node:path'

// npm run bench, or npm run bench boot routes: each part is a file beside this one.
const parts = readdirSync(import.meta.dirname)
  .filter((file) => file.endsWith('.ts') && file !== 'index.ts')
  .map((file) => file.slice(0, -'.ts'.length))
const chosen = process.argv.slice(2)
const unknown = chosen.filter((part) => !parts.includes(part))
if (unknown.length) {
  console.error(`There is no bench called ${unknown.join(', ')}. There are: ${parts.join(', ')}.`)
  process.exit(1)
}

const cpu = cpus()[0]?.model ?? 'unknown processor'
console.log(
  `${cpu} x ${cpus().length}, ${Math.round(totalmem() / 2 ** 30)} GiB, node ${process.versions.node}, ${process.platform}\n`,
)
for (const part of chosen.length ? chosen : parts) {
  console.log(`-- ${part}`)
  const { status } = spawnSync(
    process.execPath,
    [...process.execArgv, join(import.meta.dirname, `${part}.ts`)],
    { stdio: 'inherit' },
  )
  if (status) process.exitCode = status
  console.log()
}

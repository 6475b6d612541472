import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { cpus, totalmem } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { compare, mostRatio } from './support/against.ts'
import { compareStarts } from './support/start-against.ts'

// npm run bench, or npm run bench boot routes: runs all parts or the named ones; each part is a file beside this one.
// npm run bench -- --against <commit>: compares the cost with that version; with --gate, more than 5 % above it fails.
// With --gate alone, a part that has goals and misses one fails.
// With --start it is the start of a small app from the built package that is compared.
const { values: options, positionals: chosen } = parseArgs({
  allowPositionals: true,
  options: {
    against: { type: 'string' },
    rounds: { type: 'string', default: '10' },
    gate: { type: 'boolean', default: false },
    start: { type: 'boolean', default: false },
  },
})
const parts = readdirSync(import.meta.dirname)
  .filter((file) => file.endsWith('.ts') && file !== 'index.ts')
  .map((file) => file.slice(0, -'.ts'.length))
const unknown = chosen.filter((part) => !parts.includes(part))
if (unknown.length) {
  console.error(`There is no bench called ${unknown.join(', ')}. There are: ${parts.join(', ')}.`)
  process.exit(1)
}

const cpu = cpus()[0]?.model ?? 'unknown processor'
console.log(
  `${cpu} x ${cpus().length}, ${Math.round(totalmem() / 2 ** 30)} GiB, node ${process.versions.node}, ${process.platform}\n`,
)
if (options.against !== undefined) {
  const rounds = Number(options.rounds)
  if (!Number.isInteger(rounds) || rounds < 1 || rounds > 100) {
    console.error(`--rounds is a whole number from 1 to 100, not "${options.rounds}".`)
    process.exit(1)
  }
  const comparison = { ref: options.against, rounds, print: console.log }
  const ratios = options.start ? compareStarts(comparison) : await compare(comparison)
  const slower = Object.entries(ratios).filter(([, ratio]) => !(ratio <= mostRatio))
  for (const [kind, ratio] of slower)
    console.log(`${kind}: ${((ratio - 1) * 100).toFixed(1)} % more than ${options.against}`)
  process.exit(options.gate && slower.length > 0 ? 1 : 0)
}
for (const part of chosen.length ? chosen : parts) {
  console.log(`-- ${part}`)
  const { status } = spawnSync(
    process.execPath,
    [...process.execArgv, join(import.meta.dirname, `${part}.ts`)],
    { stdio: 'inherit', env: { ...process.env, ...(options.gate && { BENCH_GATE: '1' }) } },
  )
  if (status) process.exitCode = status
  console.log()
}

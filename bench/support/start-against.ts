import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type { Comparison } from './against.ts'
import type { StartCost } from './small-app.ts'
import { median } from './target.ts'

const root = resolve(import.meta.dirname, '../..')
const git = (...args: string[]) => execFileSync('git', args, { cwd: root, encoding: 'utf8' }).trim()

/**
 * Starts a small app from the package as this folder builds it, beside the same app from the package of another version, and
 * prints the CPU and the memory of a start with the medians of the rounds' ratios.
 */
export function compareStarts({ ref, rounds, print }: Comparison): Record<string, number> {
  const commit = git('rev-parse', '--verify', `${ref}^{commit}`)
  const folder = mkdtempSync(join(tmpdir(), 'bench-start-'))
  const old = join(folder, 'old')
  git('worktree', 'add', '--quiet', '--detach', old, commit)
  try {
    symlinkSync(join(root, 'node_modules'), join(old, 'node_modules'))
    const entries = { before: built(old), now: built(root) }
    print(`${rounds} rounds, a start of the package of ${commit.slice(0, 9)} and of the code here`)
    const start = (name: keyof typeof entries): StartCost => {
      const env = { PATH: process.env.PATH, DATA_DIR: join(folder, name) }
      const flags = ['--disable-warning=ExperimentalWarning', '--conditions=oracle-runtime-source']
      const args = [...flags, join(import.meta.dirname, 'small-app.ts'), entries[name]]
      return JSON.parse(execFileSync(process.execPath, args, { env, encoding: 'utf8' }))
    }
    for (const name of ['before', 'now'] as const) start(name) // makes the tables
    const costs = Array.from({ length: rounds }, (_, round) => {
      if (round % 2 === 0) return { before: start('before'), now: start('now') }
      const now = start('now')
      return { before: start('before'), now }
    })
    const kinds = [
      ['cpu', 'ms'],
      ['memory', 'MB'],
    ] as const
    const ratios = kinds.map(([kind, unit]) => {
      const [before, now] = [
        median(costs.map((cost) => cost.before[kind])),
        median(costs.map((cost) => cost.now[kind])),
      ]
      const ratio = median(costs.map((cost) => cost.now[kind] / cost.before[kind]))
      const figures = `${before.toFixed(0)} ${unit} before, ${now.toFixed(0)} ${unit} now`
      print(`start, ${kind}: ${figures}, ratio ${ratio.toFixed(3)}`)
      return [`start, ${kind}`, ratio] as const
    })
    return Object.fromEntries(ratios)
  } finally {
    git('worktree', 'remove', '--force', old)
    rmSync(folder, { recursive: true, force: true })
  }
}

/** The entry of the package that a folder builds. */
function built(folder: string): string {
  execFileSync(process.execPath, [join(folder, 'scripts/build.ts')], { cwd: folder })
  const { exports } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  return join(folder, exports['.'].default)
}

import { execFileSync, spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { root } from './support/process.ts'

const folder = join(root, 'deploy')
const read = (file: string) => readFileSync(join(folder, file), 'utf8')

/** Every variable that the documentation lists, which is made from the manifests. */
const known = new Set(
  [
    ...readFileSync(join(root, 'docs/operate.md'), 'utf8').matchAll(/^\| `([A-Z][A-Z0-9_]+)`/gm),
  ].map(([, name]) => name),
)
/** What the C library reads before the program begins. */
known.add('MALLOC_ARENA_MAX')

describe('deploy/', () => {
  it('names no variable that does not exist', () => {
    expect(known.size).toBeGreaterThan(50)
    const named = readdirSync(folder).flatMap((file) =>
      [...read(file).matchAll(/^(?:Environment=|ENV )(.+)$/gm)].flatMap(([, words = '']) =>
        [...words.matchAll(/([A-Z][A-Z0-9_]+)=/g)].map(([, name = '']) =>
          name.replace(/_FILE$/, ''),
        ),
      ),
    )
    expect(named.length).toBeGreaterThan(5)
    expect(named.filter((name) => !known.has(name))).toEqual([])
  })

  const hasSystemd = spawnSync('systemd-analyze', ['--version']).status === 0
  if (!hasSystemd && !process.env.REQUIRE_ALL)
    process.stdout.write('skipped: the unit of systemd. To test it, install systemd (Debian).\n')
  it.skipIf(!hasSystemd && !process.env.REQUIRE_ALL)(
    'has a unit that systemd takes, with an exposure of 2.0 at most',
    () => {
      const unit = join(folder, 'oracle.service')
      const said = execFileSync('systemd-analyze', ['security', '--offline=true', unit], {
        encoding: 'utf8',
      })
      const exposure = Number(/exposure level for \S+: ([\d.]+)/.exec(said)?.[1])
      expect(exposure).toBeLessThanOrEqual(2)
      const { stderr } = spawnSync('systemd-analyze', ['verify', unit], { encoding: 'utf8' })
      // Where this machine has no Node at /usr/bin, systemd says so of the machine, not of the unit.
      const complaints = stderr.split('\n').filter((line) => line.includes('oracle.service:'))
      expect(complaints.filter((line) => !line.includes('is not executable'))).toEqual([])
    },
  )
})

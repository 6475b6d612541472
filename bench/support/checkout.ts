import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

/** The folder of the code that is measured. */
export const here = resolve(import.meta.dirname, '../..')

/** Another version of this repository in a folder of its own, with the packages that are installed here. */
export interface Checkout {
  readonly path: string
  readonly commit: string
  /** A folder beside it for whatever the bench writes. */
  readonly folder: string
  remove(): void
}

const git = (...args: string[]) => execFileSync('git', args, { cwd: here, encoding: 'utf8' }).trim()

/** Checks out a commit, a branch or a tag. */
export function checkout(ref: string): Checkout {
  const commit = git('rev-parse', '--verify', `${ref}^{commit}`)
  const folder = mkdtempSync(join(tmpdir(), 'bench-against-'))
  const path = join(folder, 'old')
  git('worktree', 'add', '--quiet', '--detach', path, commit)
  symlinkSync(join(here, 'node_modules'), join(path, 'node_modules'))
  return {
    ...{ path, commit, folder },
    remove() {
      git('worktree', 'remove', '--force', path)
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

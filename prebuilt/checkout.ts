import { spawn } from 'node:child_process'
import { findPackageJSON } from 'node:module'
import { setPriority } from 'node:os'
import { join } from 'node:path'
import { currentList } from './own-list.ts'
import { useOwn } from './own-use.ts'
import { prebuiltGroups } from './packages.ts'
import { isCurrent, usePrebuilt } from './use.ts'

/** This checkout. */
export const checkout = join(import.meta.dirname, '..')

/** Where what was prebuilt for this checkout is. `npm ci` deletes it with the packages. */
const cache = join(checkout, 'node_modules/.cache/oracle-runtime')
export const prebuiltFolder = join(cache, 'prebuilt')
export const ownFolder = join(cache, 'own')

/** How long a server listens before it has things prebuilt: its first callers come first. */
const patienceMs = 5000

/** What a build may take of memory. Where less is free, a server is worth more than its next start. */
const buildBytes = 600 * 2 ** 20

/** Makes imports cheap: those of sources of this checkout, and those of packages that were prebuilt. */
export async function quickenImports(): Promise<void> {
  usePrebuilt(prebuiltFolder, prebuiltGroups)
  if (useOwn(ownFolder, checkout)) return
  const { findOwnFiles } = await import('./own-files.ts')
  findOwnFiles(new URL('../', import.meta.url).href)
}

/** Whether what was prebuilt was built of what is installed and of the sources as they are. */
const isAllCurrent = (): boolean =>
  isCurrent(prebuiltFolder, prebuiltGroups) && currentList(ownFolder, checkout) !== undefined

/**
 * Has another process prebuild the packages and the sources soon where that was not done for those that are there, so that
 * the next start finds them. Without the builder, which is installed for development only, nothing happens; so it does
 * where the folder cannot be written or memory is short.
 */
export function prebuildLater(): void {
  setTimeout(() => {
    if (process.availableMemory() < buildBytes || isAllCurrent() || !hasBuilder()) return
    const script = join(import.meta.dirname, '../scripts/prebuild.ts')
    const { NODE_OPTIONS: _, ...env } = process.env
    const builder = spawn(process.execPath, ['--max-semi-space-size=2', script], {
      // The builder's own threads: one, so that the others stay for those who call.
      env: { ...env, RAYON_NUM_THREADS: '1' },
      stdio: 'ignore',
    })
    builder.on('error', () => undefined)
    builder.unref()
    try {
      if (builder.pid !== undefined) setPriority(builder.pid, 10)
    } catch {
      // It is over already, or the system knows no priorities.
    }
  }, patienceMs).unref()
}

/** Whether the builder is installed: `npm ci --omit=dev` leaves it out. */
function hasBuilder(): boolean {
  try {
    return findPackageJSON('rolldown', import.meta.url) !== undefined
  } catch {
    return false
  }
}

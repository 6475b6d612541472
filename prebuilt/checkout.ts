import { spawn } from 'node:child_process'
import { findPackageJSON } from 'node:module'
import { setPriority } from 'node:os'
import { join } from 'node:path'
import { findOwnFiles } from './own-files.ts'
import { prebuiltGroups } from './packages.ts'
import { isCurrent, usePrebuilt } from './use.ts'

/** Where the prebuilt packages of this checkout are. `npm ci` deletes them with the packages. */
export const prebuiltFolder = join(
  import.meta.dirname,
  '../node_modules/.cache/oracle-runtime/prebuilt',
)

/** How long a server listens before it has the packages prebuilt: its first callers come first. */
const patienceMs = 5000

/** Makes imports cheap: those of files of this checkout, and those of packages that were prebuilt. */
export function quickenImports(): void {
  usePrebuilt(prebuiltFolder, prebuiltGroups)
  findOwnFiles(new URL('../', import.meta.url).href)
}

/**
 * Has another process prebuild the packages soon where that was not done for those that are installed, so that the next
 * start finds them. Without the builder, which is there
 * for development only, nothing happens; so it does where the folder cannot be written.
 */
export function prebuildLater(): void {
  setTimeout(() => {
    if (isCurrent(prebuiltFolder, prebuiltGroups) || !hasBuilder()) return
    const script = join(import.meta.dirname, '../scripts/prebuild.ts')
    const { NODE_OPTIONS: _, ...env } = process.env
    const builder = spawn(process.execPath, [script], { env, stdio: 'ignore' })
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

import { existsSync } from 'node:fs'
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as after } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Log } from '#core'

/** The folder of the page's files, and the build that runs while these files are missing. */
export interface Page {
  readonly directory: string
  readonly building: Promise<void> | undefined
  /** The reason why the build failed; undefined where no build has failed. */
  fault: string | undefined
}

/** How many milliseconds a build waits, so that the server answers first: a build takes all CPU time of a small machine. */
const whileServing = 300

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url))
const directory = here('./built/')
const sources = here('./page/')

/** Builds the page in a checkout if the page is missing or stale. A package contains the built page, and no sources of it. */
export function preparePage(log: Log): Page {
  const page: Page & { building: Promise<void> | undefined } = {
    directory,
    building: undefined,
    fault: undefined,
  }
  if (!existsSync(sources)) return page
  const isThere = isBuilt()
  const building = (async () => {
    try {
      await after(whileServing, undefined, { ref: false })
      if (isThere && !(await isStale())) return
      const begun = performance.now()
      const { buildPageApart } = await import('./build-apart.ts')
      await buildPageApart({ sources, directory })
      log.info(`the page was built in ${Math.round(performance.now() - begun)} ms`)
    } catch (error) {
      log.error({ err: error }, 'the page could not be built')
      page.fault = `The page could not be built: ${(error as Error).message}`
    }
  })()
  if (!isThere) page.building = building.finally(() => (page.building = undefined))
  return page
}

const isBuilt = () => existsSync(join(directory, 'index.html'))

/** Whether the page is missing, or a source of the page or of the library that the page uses is newer than the built files. */
export async function isStale(): Promise<boolean> {
  if (!isBuilt()) return true
  const { mtimeMs: builtAt } = await stat(join(directory, 'index.html'))
  const library = here('../../client/')
  for (const root of [sources, library]) {
    const files = await readdir(root, { recursive: true }).catch(() => [])
    for (const file of files) {
      if (/(^|[/\\])(node_modules|dist)([/\\]|$)/.test(file)) continue
      const { mtimeMs } = await stat(join(root, file))
      if (mtimeMs > builtAt) return true
    }
  }
  return false
}

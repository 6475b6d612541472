import { mkdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { buildPage } from '../../plugins/playground/build-page.ts'
import { isStale } from '../../plugins/playground/built-page.ts'
import { root } from './process.ts'

const plugin = join(root, 'plugins/playground')
const lock = join(tmpdir(), `page-of-${root.replaceAll(/\W+/g, '-')}`)
/** A build takes a few seconds; who has held the lock for longer has died. */
const longestMs = 60_000

/** Resolves once the page is built from its sources. Test files run side by side: the first builds, and no other pulls its files away. */
export async function builtPage(): Promise<void> {
  while (
    !(await mkdir(lock).then(
      () => true,
      () => false,
    ))
  ) {
    const { mtimeMs } = await stat(lock).catch(() => ({ mtimeMs: Date.now() }))
    if (Date.now() - mtimeMs > longestMs) await rm(lock, { recursive: true, force: true })
    await sleep(100)
  }
  try {
    if (await isStale())
      await buildPage({ sources: join(plugin, 'page'), directory: join(plugin, 'built') })
  } finally {
    await rm(lock, { recursive: true, force: true })
  }
}

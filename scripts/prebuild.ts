import { spawnSync } from 'node:child_process'
import { checkout, ownFolder, prebuiltFolder } from '../prebuilt/checkout.ts'
import { currentList } from '../prebuilt/own-list.ts'
import { prebuiltGroups } from '../prebuilt/packages.ts'
import { isCurrent } from '../prebuilt/use.ts'

// npm run prebuilt: makes few large files of the many small ones of heavy packages and of our own, which `npm start` imports.
// A server that finds them missing has this done behind its back; who builds an image does it there.

/** What is built, each in a process of its own: what one has needed, up to 400 MB, is free before the next begins. */
const parts: Readonly<Record<string, () => Promise<void>>> = {
  async packages() {
    if (isCurrent(prebuiltFolder, prebuiltGroups)) return
    const { buildPrebuilt } = await import('../prebuilt/build.ts')
    await buildPrebuilt(prebuiltFolder, prebuiltGroups)
  },
  async sources() {
    if (currentList(ownFolder, checkout)) return
    const { buildOwn } = await import('../prebuilt/own-build.ts')
    await buildOwn(ownFolder, checkout)
  },
}

/** A build takes seconds. Nobody waits for one that hangs, so it ends itself. */
const longestMs = 120_000

setTimeout(() => process.exit(1), longestMs).unref()
const [part] = process.argv.slice(2)
if (part === undefined) {
  for (const each of Object.keys(parts)) {
    const node = [...process.execArgv, import.meta.filename, each]
    const { status } = spawnSync(process.execPath, node, { stdio: 'inherit' })
    if (status !== 0) process.exitCode = 1
  }
  if (process.exitCode !== 1)
    console.log(`The prebuilt packages are in ${prebuiltFolder}, the sources in ${ownFolder}`)
} else await parts[part]?.()

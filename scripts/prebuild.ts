import { buildPrebuilt } from '../prebuilt/build.ts'
import { checkout, ownFolder, prebuiltFolder } from '../prebuilt/checkout.ts'
import { buildOwn } from '../prebuilt/own-build.ts'
import { currentList } from '../prebuilt/own-list.ts'
import { prebuiltGroups } from '../prebuilt/packages.ts'
import { isCurrent } from '../prebuilt/use.ts'

// npm run prebuilt: makes few large files of the many small ones of heavy packages and of our own, which `npm start` imports.
// A server that finds them missing has this done behind its back; who builds an image does it there.

/** A build takes a second. Nobody waits for one that hangs, so it ends itself. */
const longestMs = 120_000

setTimeout(() => process.exit(1), longestMs).unref()
if (!isCurrent(prebuiltFolder, prebuiltGroups)) await buildPrebuilt(prebuiltFolder, prebuiltGroups)
if (!currentList(ownFolder, checkout)) await buildOwn(ownFolder, checkout)
console.log(`The prebuilt packages are in ${prebuiltFolder}, the sources in ${ownFolder}`)

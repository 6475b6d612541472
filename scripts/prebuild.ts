import { buildPrebuilt } from '../prebuilt/build.ts'
import { prebuiltFolder } from '../prebuilt/checkout.ts'
import { prebuiltGroups } from '../prebuilt/packages.ts'
import { isCurrent } from '../prebuilt/use.ts'

// npm run prebuilt: makes few large files of the many small ones of heavy packages, which `npm start` imports instead.
// A server that finds them missing has this done behind its back; who builds an image does it there.

/** A build takes a second. Nobody waits for one that hangs, so it ends itself. */
const longestMs = 120_000

setTimeout(() => process.exit(1), longestMs).unref()
if (!isCurrent(prebuiltFolder, prebuiltGroups)) await buildPrebuilt(prebuiltFolder, prebuiltGroups)
console.log(`The prebuilt packages are in ${prebuiltFolder}`)

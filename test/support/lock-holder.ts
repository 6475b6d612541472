import { openDataDir } from '../../core/runtime/store/data-dir.ts'

/** Locks the data directory that the command line names, and stays: `lock-holder.ts <path> [address]`. */
const [path = '', address] = process.argv.slice(2)

async function takeIt(): Promise<void> {
  const dataDir = await openDataDir(path)
  const lock = await dataDir.lock({ pid: process.pid })
  if (address) lock.describe({ address })
}

try {
  await takeIt()
  // No variable holds the lock: the garbage collector must not open it all the same.
  for (let i = 0; i < 3; i++) {
    await new Promise((resolve) => setImmediate(resolve))
    globalThis.gc?.()
  }
  console.log('locked')
  setInterval(() => {}, 60_000)
} catch (error) {
  console.log(JSON.stringify(error))
  process.exitCode = 3
}

import { openDataDir } from '../../core/runtime/store/data-dir.ts'

/** Locks the data directory that it is given and stays: `lock-holder.ts <path> [address]`. */
const [path = '', address] = process.argv.slice(2)

async function takeIt(): Promise<void> {
  const dataDir = await openDataDir(path)
  const lock = await dataDir.lock({ pid: process.pid })
  if (address) lock.describe({ address })
}

try {
  await takeIt()
  // The lock holds although nobody holds the lock: the collector must not open it.
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

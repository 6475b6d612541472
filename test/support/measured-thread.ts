import { registerHooks } from 'node:module'
import { BroadcastChannel, threadId } from 'node:worker_threads'

/** What a thread says of itself when somebody asks on the channel `measure`. */
export interface MeasuredThread {
  readonly thread: number
  /** The heap and what stands beside it, after garbage was collected. */
  readonly heapUsed: number
  readonly external: number
  /** The files of packages that the thread has read. */
  readonly packages: readonly string[]
}

// Imported before everything else, in each thread of a process: `node --expose-gc --import <this file>`.
const packages: string[] = []
registerHooks({
  load(url, context, next) {
    if (url.includes('/node_modules/')) packages.push(url)
    return next(url, context)
  },
})
const asked = new BroadcastChannel('measure')
asked.unref()
asked.onmessage = () => {
  for (let i = 0; i < 3; i++) globalThis.gc?.()
  const { heapUsed, external } = process.memoryUsage()
  const told: MeasuredThread = { thread: threadId, heapUsed, external, packages }
  const answers = new BroadcastChannel('measured')
  answers.postMessage(told)
  answers.close()
}

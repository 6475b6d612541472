import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { BroadcastChannel } from 'node:worker_threads'
import { scriptedModel, testApp } from '#core/testing'
import calls from '../../plugins/calls/index.ts'
import type { MeasuredThread } from './measured-thread.ts'

/** What the process says of itself. */
export interface MeasuredProcess {
  readonly threads: readonly MeasuredThread[]
  readonly udpSockets: number
}

// A server that can be called, in a process of its own that is asked by messages what it takes.
const app = await testApp({
  plugins: [calls],
  model: scriptedModel(Array.from({ length: 1_000 }, () => 'I am here.')),
  env: {
    ...{ NODE_ENV: 'test', TRUST_PROXY_ENABLED: 'true', CALLS_PORTS: '43000-43199' },
    ...{ CALLS_VOICE: 'none', CALLS_HEARING: 'typed', CALLS_MINUTES_PER_DAY: '1440' },
  },
})
process.on(
  'message',
  (threads: number) => void measure(threads).then((told) => process.send?.(told)),
)
process.on('disconnect', () => process.exit())
process.send?.({ url: app.url })

/** Asks so many threads. */
async function measure(count: number): Promise<MeasuredProcess> {
  const threads: MeasuredThread[] = []
  const { promise, resolve } = Promise.withResolvers<void>()
  const answers = new BroadcastChannel('measured')
  answers.onmessage = ({ data }) => {
    if (threads.push(data) === count) resolve()
  }
  const asking = new BroadcastChannel('measure')
  asking.postMessage('now')
  await promise
  asking.close()
  answers.close()
  threads.sort((a, b) => a.thread - b.thread)
  return { threads, udpSockets: udpSockets() }
}

function udpSockets(): number {
  const lines = readFileSync('/proc/self/net/udp', 'utf8').split('\n').slice(1)
  const udp = new Set(lines.map((line) => `socket:[${line.trim().split(/\s+/)[9]}]`))
  return readdirSync('/proc/self/fd').filter((name) => {
    try {
      return udp.has(readlinkSync(`/proc/self/fd/${name}`))
    } catch {
      return false
    }
  }).length
}

import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { createApp, definePlugin, text } from '#core'

setFlagsFromString('--expose-gc')
const collect: () => void = runInNewContext('gc')

/** A server whose streams say one thing and stay open, and which prints how much memory its process needs. */
const ticker = definePlugin({
  name: 'ticker',
  summary: 'Streams.',
  routes: {
    'GET /ticks': {
      answers: { 200: ['text/event-stream'] },
      auth: 'public',
      async *run(_, { signal }) {
        yield { event: 'tick', data: {} }
        await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
      },
    },
    'GET /memory': {
      auth: 'public',
      run() {
        collect()
        const { heapUsed, external } = process.memoryUsage()
        return text(String(heapUsed + external))
      },
    },
  },
})

await createApp({ plugins: [ticker] }).listen()

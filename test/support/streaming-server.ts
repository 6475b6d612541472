import { setTimeout as sleep } from 'node:timers/promises'
import { createApp, definePlugin } from '#core'

// A server whose streams never end by themselves, to see how a shutdown ends them.
const ticks = definePlugin({
  name: 'ticks',
  summary: 'Ticks.',
  routes: {
    'GET /ticks': {
      answers: { 200: ['text/event-stream'] },
      auth: 'public',
      async *run(_, { signal }) {
        for (let n = 0; !signal.aborted; n++) {
          yield { event: 'tick', data: { n } }
          await sleep(50, undefined, { signal }).catch(() => undefined)
        }
        yield { event: 'goodbye', data: {} }
      },
    },
    'GET /slow': {
      auth: 'public',
      run() {
        console.log('slow has begun')
        return sleep(1000, { finished: true })
      },
    },
  },
})
const app = await createApp({ plugins: [ticks] })
await app.listen()
process.once('SIGTERM', async () => {
  await app.close()
  process.exit(0)
})

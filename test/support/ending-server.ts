import { setTimeout as sleep } from 'node:timers/promises'
import { createApp, definePlugin } from '#core'

// An app as the documents show one: it says nothing of signals. What its plugin does when it closes is up to ENDING.
const { ENDING } = process.env
const ending = definePlugin({
  name: 'ending',
  summary: 'Shows how an app ends.',
  setup({ onClose }) {
    onClose(async () => {
      console.log('the plugin closes')
      if (ENDING === 'hangs') await new Promise((resolve) => setTimeout(resolve, 600_000))
      if (ENDING === 'fails') throw new Error('The plugin cannot close.')
    })
  },
  routes: {
    'GET /slow': {
      auth: 'public',
      async run() {
        console.log('slow has begun')
        return sleep(500, { finished: true })
      },
    },
  },
})
if (ENDING === 'own') process.on('SIGTERM', () => console.log('the process heard SIGTERM itself'))
await createApp({ plugins: [ending] }).listen()

import { z } from 'zod'
import { createApp, definePlugin, type Model } from '#core'

/** A server whose model calls a tool once. With HOLDS the tool never ends: somebody has to kill the process. */
const { HOLDS } = process.env

const model: Model = {
  id: 'spans/one',
  contextWindow: undefined,
  async *stream({ messages }) {
    if (messages.some(({ role }) => role === 'tool')) yield { type: 'text', text: 'Looked.' }
    else yield { type: 'tool-call', index: 0, id: 'look-1', name: 'look', args: '{}' }
  },
}
const looking = definePlugin({
  name: 'looking',
  summary: 'Looks.',
  visibility: 'always',
  tools: {
    look: {
      description: 'Looks.',
      effect: 'read',
      foreign: false,
      input: z.object({}),
      async run() {
        console.log('the tool has begun')
        if (HOLDS) await new Promise((resolve) => setTimeout(resolve, 600_000))
        return 'looked'
      },
    },
  },
})
await createApp({ plugins: [looking], model }).listen()

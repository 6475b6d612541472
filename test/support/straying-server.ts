import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { createApp, definePlugin, type Model } from '#core'

/** A whole server with a plugin whose promises reject wherever nobody waits for them. */
const fails = async (where: string): Promise<never> => {
  await sleep(5)
  throw new Error(`It failed ${where}.`)
}
// A plugin in JavaScript may hand over any value, whatever the types say.
const loosely = (value: unknown) => value as never

const straying = definePlugin({
  name: 'straying',
  summary: 'Forgets its promises.',
  visibility: 'always',
  prompt: () => loosely(fails('in the prompt')),
  setup(boot) {
    void fails('in the setup')
    boot.health(() => void fails('in the health check'))
    boot.onClose(() => fails('while it closed'))
  },
  middleware: {
    async turn(_, next) {
      void fails('in the turn')
      await next()
    },
    async tool(_call, _ctx, next) {
      void next()
      return 'nobody waited'
    },
  },
  tools: {
    hidden: {
      description: 'Is never there.',
      input: z.object({}),
      enabled: () => loosely(fails('in enabled')),
      run: () => 'hidden',
    },
    stray: {
      description: 'Fails.',
      input: z.object({}),
      effect: 'read',
      run: () => fails('in the tool'),
    },
  },
  routes: {
    'GET /stray': {
      auth: 'public',
      run() {
        setTimeout(() => void fails('in a timer'), 1)
        return { ok: true }
      },
    },
    'GET /throw': {
      auth: 'public',
      run() {
        setTimeout(() => {
          throw new Error('Nobody catches this.')
        }, 1)
        return { ok: true }
      },
    },
  },
})

const model: Model = {
  id: 'obedient',
  async *stream({ messages, tools }) {
    if (messages.at(-1)?.role === 'user')
      yield { type: 'tool-call', index: 0, id: 'a', name: 'stray', args: '{}' }
    else yield { type: 'text', text: `I have ${tools.map(({ name }) => name).join()}` }
  },
}

const app = createApp({ plugins: [straying], model })
await app.listen()
process.once('SIGTERM', () => void app.close().then(() => process.exit(0)))

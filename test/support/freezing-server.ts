import { execFileSync } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { createApp, definePlugin, type Model } from '#core'

/**
 * A whole server whose routes and model can be told to stop its event loop. FROZEN is a file that is there once the model has
 * done so: until then a slow turn goes on.
 */
const { FROZEN = '' } = process.env
const spin = () => {
  for (;;);
}

const freezer = definePlugin({
  name: 'freezer',
  summary: 'Freezes.',
  routes: {
    'GET /spin': { auth: 'public', run: spin },
    'GET /regex': { auth: 'public', run: () => /^(a+)+$/.test(`${'a'.repeat(60)}b`) },
    'GET /promises': {
      auth: 'public',
      async run() {
        for (;;) await null
      },
    },
    'GET /wait': {
      auth: 'public',
      run: () => void execFileSync(process.execPath, ['-e', 'setTimeout(() => {}, 30_000)']),
    },
    'GET /busy': {
      auth: 'public',
      // Much work, but in pieces, between which the event loop turns.
      async run() {
        for (const end = Date.now() + 3_000; Date.now() < end; await sleep(1))
          for (const piece = Date.now() + 200; Date.now() < piece;);
        return { done: true }
      },
    },
  },
})

const model: Model = {
  id: 'obedient',
  async *stream({ messages, signal }) {
    const said = messages.findLast(({ role }) => role === 'user')?.content
    if (said === 'Freeze') {
      writeFileSync(FROZEN, '')
      spin()
    }
    while (said === 'Slow' && !existsSync(FROZEN)) await sleep(50, undefined, { signal })
    yield { type: 'text', text: 'Done.' }
  },
}

// The only thread that this process starts is the watchdog's.
process.on('worker', (thread) => thread.once('online', () => console.log('watched')))
const app = createApp({ plugins: [freezer], model })
await app.listen()
process.once('SIGTERM', () => void app.close().then(() => process.exit(0)))
